"""Observe, propose, try, observe again: until every site is mended or says why not; then verify the whole.

Each round takes the sites of the last observation. A site in the user's own lines becomes a job. A site
in lines that a repair wrote is either another site that the repair moved (a job of its own), or shows
that the repair did not help: then its next candidate takes its place, and the jobs behind it are done
again."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol, TypeVar

from onegraph import progress, state
from onegraph.mend import captures
from onegraph.mend.blame import Blame
from onegraph.mend.jobs import LEVELS, Bench, Job, Repairs, Step, Trial
from onegraph.model import (
    Evidence,
    Findings,
    FixResult,
    Level,
    Outcome,
    Predicate,
    Program,
    Repair,
    Site,
    Span,
    Status,
    Trace,
)
from onegraph.rewrite.swap import real_path, remembering, swapped
from onegraph.rewrite.workspace import Workspace
from onegraph.torch_private import dynamo
from onegraph.words import first_line

T = TypeVar("T")

MAX_ROUNDS = 24
_SYMBOL = re.compile(r"\bu\d+\b")  # of a size or number that values decide
_SAID = {"observe": "looking again", "mend": "mending", "verify": "verifying the whole program"}
RECOUNT = "recount"  # checks of this name count graph breaks: they lead to another round, not to a rejection


class Whole(Protocol):
    """Compares a mended workspace with the original program, compiled; without ``backends`` on all of
    them. ``goes_on`` is asked with what the compiler did in the user's own mode; False ends it there."""

    def __call__(
        self,
        program: Program,
        mended: Workspace,
        predicates: tuple[Predicate, ...],
        level: Level,
        backends: tuple[str, ...] | None = None,
        goes_on: Callable[[Trace], bool] | None = None,
        rounding: bool = False,
    ) -> Evidence: ...


@dataclass(frozen=True, slots=True)
class Tools:
    """The stages that the loop calls. ``observe`` runs in the user's own mode, ``residual`` with
    everything captured that torch can capture (what ``fullgraph=True`` has to get through)."""

    observe: Callable[[Program], Trace]
    residual: Callable[[Program], Trace]
    diagnose: Callable[[Trace], Findings]
    repairs: Repairs
    trial: Trial
    whole: Whole


def mend(
    program: Program,
    findings: Findings,
    *,
    tools: Tools,
    level: Level = Level.RELAXED,
    select: Sequence[str] = (),
    ignore: Sequence[str] = (),
) -> FixResult:
    """Mend the sites in ``findings`` (and those that show up behind them) up to ``level``.

    ``select`` and ``ignore`` are names of kinds. Everything that is not mended has a Repair that says
    why, and what the user can do. The program's state is as before afterwards."""
    bench = Bench(program, tools.repairs, tools.trial, level, select, ignore)
    # the world is held: the many short snapshots inside share its copies
    with state.preserved(program) as bench.world, remembering():
        return _Loop(program, findings, tools, bench).run()


@dataclass(slots=True)
class _Loop:
    program: Program
    before: Findings
    tools: Tools
    bench: Bench
    jobs: list[Job] = field(default_factory=list)
    steps: list[Step] = field(default_factory=list)
    made: int = 0  # jobs so far
    first: int = 0  # of them, those known before anything was mended
    seen: dict[str, Findings] = field(default_factory=dict)  # mode -> findings in the current workspace
    recount: Trace | None = None  # what the verification saw of the current workspace in the user's mode
    captured: Findings | None = None  # with everything captured that torch can capture, for the report
    seconds: dict[str, float] = field(default_factory=dict)

    def run(self) -> FixResult:
        self._take(self.before.sites)
        self.first = self.made
        evidence = Evidence()
        for _ in range(MAX_ROUNDS):
            self._build()
            verified = self._verified()
            if verified is None:
                continue
            evidence = verified
            failed = {check.name for check in evidence.checks if check.passed is False}
            if not failed or not self._applied():
                break
            counts = {name for name in failed if name.startswith(RECOUNT)}
            if counts and self._advance("residual"):
                continue
            if failed <= counts:
                break  # sites are left, and each of them says why
            self._reject(self._guilty(failed - counts), _words(evidence, failed - counts))
        else:
            self._build()
            evidence = self._timed("verify", self._verify)
        return self._result(evidence)

    # --- rounds ---------------------------------------------------------------------------------------------

    def _build(self) -> None:
        self.steps = self._timed("mend", lambda: self.bench.steps(self.jobs))
        self.seen = {}
        self.recount = None

    def _verified(self) -> Evidence | None:
        """The last word on the current workspace; None when another look at it brings something new to do.

        Where every site has a repair, the verification itself is that look."""
        if not self._applied() or not all(step.candidate or step.covered for step in self.steps):
            return self._timed("verify", self._verify) if self._settled() else None
        evidence = self._timed("verify", lambda: self._verify(self._clean))
        if self.recount is not None and self._clean(self.recount):
            self.seen["user"] = self.tools.diagnose(self.recount)
            return evidence
        if not self._settled():
            return None
        return evidence if self.recount is None else self._timed("verify", self._verify)

    def _clean(self, trace: Trace) -> bool:
        self.recount = trace
        return trace.error is None and not self.tools.diagnose(trace).sites

    def _settled(self) -> bool:
        """Whether another look at the program brings nothing new to do."""
        if not self._applied():
            return True
        if self._advance("user", self.recount):
            return False
        return not (self.seen["user"].sites and self._advance("residual"))  # some are left: are there others?

    def _advance(self, mode: str, trace: Trace | None = None) -> bool:
        """Look at the current workspace, unless it was seen already; True when that changed the jobs."""
        look = self.tools.observe if mode == "user" else self.tools.residual
        if trace is None:
            trace = self._timed("observe", lambda: self._observed(look))
        self.seen[mode] = self.tools.diagnose(trace)
        if isinstance(trace.error, state.Overrun) or (
            trace.error is not None and dynamo.is_compiler_error(trace.error)
        ):
            return self._blame_for(trace.error, look)
        return self._take(self.seen[mode].sites)

    def _observed(self, look: Callable[[Program], Trace]) -> Trace:
        return self._looked(look, self._workspace())

    def _looked(self, look: Callable[[Program], Trace], workspace: Workspace) -> Trace:
        """A look at the program with repairs. The compiler may not come to the end of a loop that one of them wrote."""
        assert self.bench.world is not None
        try:
            with swapped(workspace), state.deadline(self.bench.world.patience.compiling):
                return look(self.program)
        except state.Overrun as endless:
            return Trace(error=endless)

    def _take(self, sites: Iterable[Site]) -> bool:
        """Turn sites into jobs, or into rejections of what made them. True when there is something to do."""
        found = sorted(sites, key=lambda site: (site.span.file, -site.span.line, -site.span.column))
        changed = [
            self._take_one(site) for site in found
        ]  # each of them, not only the first that changes something
        return any(changed)

    def _take_one(self, site: Site) -> bool:
        span = replace(site.span, file=real_path(site.span.file))
        origin = self._origin(span)
        known = next((job for job in self.jobs if job.after is None and job.span == origin), None)
        if origin is not None and known is None:
            self._add(site, origin)
            return True
        if origin is not None:
            assert known is not None
            step = self._step_of(known)
            if step is not None and step.candidate is not None:
                shown = replace(site, span=origin)
                if step.candidate.partial and self._next_step(shown, span, known):
                    return True
                return self._reject(known, f"the graph still breaks there: {site.reason}")
            return self._ask_again(step) or self._brought(site, known)
        return self._in_rewritten_lines(site, span)

    def _next_step(self, site: Site, span: Span, author: Job) -> bool:
        """Goes on with a site of which the repair was a first step; False where that was tried."""
        if self._child_at(span) is not None:
            return False
        self._add(site, span, after=author.number)
        return True

    def _brought(self, site: Site, job: Job) -> bool:
        """A break without a repair that nobody knew at first, reached through a line that a repair wrote, or asking
        for a symbol that one made: the repair leads there."""
        new, now, first = job.number >= self.first, _asks_for_symbol(site), _asks_for_symbol(job.site)
        author = self._author(site, site.span) if new else None
        if author is None and (now or first if new else now and not first):
            author = self._maker()
        return author is not None and self._reject(author, f"it leads to a new break: {site.reason}")

    def _in_rewritten_lines(self, site: Site, span: Span) -> bool:
        author = self._author(site, span)
        if author is None:
            return False
        child = self._child_at(span)
        if child is not None and child is not author:
            return self._still_there(site, span, child, author)
        covered = next((j for j in self._covered_by(author) if j.site.kind == site.kind), None)
        if covered is not None:
            self.jobs.remove(covered)
            self._add(covered.site, span, after=author.number)
            return True
        step = self._step_of(author)
        partial = step is not None and step.candidate is not None and step.candidate.partial
        if site.kind == author.site.kind and not partial:
            return self._reject(author, f"the graph still breaks there: {site.reason}")
        blame = self.steps[-1].blames[span.file]
        self._add(replace(site, span=blame.nearest(span)), span, after=author.number)
        return True

    def _still_there(self, site: Site, span: Span, child: Job, author: Job) -> bool:
        """A site in rewritten lines that has a job already: its repair was a first step, or it has none."""
        step = self._step_of(child)
        if step is not None and step.candidate is not None and step.candidate.partial:
            if len(self._children_at(span)) == 1:
                self._add(site, span, after=child.number)
                return True
            return self._reject(child, f"the graph still breaks there: {site.reason}")
        if self._ask_again(step):
            return True
        # Who wrote the line must do otherwise, where that left less behind.
        if author.site.outcome is not Outcome.RESUMED and captures.settings_for(site):
            return False
        why = step.declined.reason if step is not None and step.declined is not None else site.reason
        return self._reject(author, f"it leaves a new break: {why}")

    def _child_at(self, span: Span) -> Job | None:
        """The first job for a site in rewritten lines that stands at a span of the current text."""
        return next(iter(self._children_at(span)), None)

    def _children_at(self, span: Span) -> list[Job]:
        text, blame = self._workspace().current(span.file), Blame(())
        children = (job for job in self.jobs if job.after is not None and job.span.file == span.file)
        return [job for job in children if job.located(text, blame) == span]

    def _add(self, site: Site, span: Span, after: int | None = None) -> None:
        shown = replace(site, span=replace(site.span, file=span.file) if after is not None else span)
        seen = self._workspace().current(span.file) if after is not None else ""
        self.jobs.append(Job(self.made, shown, span, after, seen))
        self.made += 1

    def _reject(self, job: Job, reason: str) -> bool:
        """Give up the job's candidate. Jobs in lines that depend on it are dropped: they are found again."""
        step = self._step_of(job)
        assert step is not None and step.candidate is not None
        if step.key != job.key:  # given up in this round already
            return True
        job.given_up.update(step.tried)
        if not step.candidate.partial:  # a first step that leads to nothing is no repair that failed
            job.reasons += [*step.failures, f"{step.candidate.title}: {reason}"]
        at = self.jobs.index(job)
        self.jobs = [j for n, j in enumerate(self.jobs) if n <= at or j.after is None]
        return True

    def _ask_again(self, step: Step | None) -> bool:
        """A site without a repair is asked once more when its file has changed since."""
        if step is None or step.covered:
            return False
        path = step.job.span.file
        if step.job is self.jobs[-1] or step.workspace.current(path) == self._workspace().current(path):
            return False
        now = self._workspace().current(path)
        if step.job.asked == now:
            return False
        step.job.asked = now
        self.bench.again(step.job)
        self.jobs.remove(step.job)
        self.jobs.append(step.job)
        return True

    # --- who is it? -----------------------------------------------------------------------------------------

    def _workspace(self) -> Workspace:
        return self.steps[-1].workspace if self.steps else Workspace()

    def _applied(self) -> list[Step]:
        return [step for step in self.steps if step.candidate is not None]

    def _step_of(self, job: Job) -> Step | None:
        return next((step for step in self.steps if step.job is job), None)

    def _origin(self, span: Span) -> Span | None:
        """Where a span of the current text stands in the user's; None in rewritten lines."""
        blame = self.steps[-1].blames.get(span.file) if self.steps else None
        return blame.original(span) if blame is not None else span

    def _author(self, site: Site, span: Span) -> Job | None:
        """The repair behind a site: who wrote its line; for a helper at top level, who wrote the line
        that calls it."""
        spans = [span] + [frame.span for break_ in site.breaks for frame in reversed(break_.stack)]
        named = [frame.function for break_ in site.breaks for frame in reversed(break_.stack)]
        found: list[Job] = []
        for place, function in zip(spans, [site.function, *named], strict=True):
            blame = self.steps[-1].blames.get(real_path(place.file))
            number = blame.author(place.line) if blame is not None else None
            job = next((job for job in self.jobs if job.number == number), None)
            step = self._step_of(job) if job is not None else None
            if job is not None and step is not None and step.candidate is not None:
                if any(function.startswith(name) for name in step.candidate.functions):
                    return job
                found.append(job)
        return found[0] if found else None

    def _maker(self) -> Job | None:
        """The last repair that made symbols."""
        makers = [step.job for step in self._applied() if step.candidate and step.candidate.symbols]
        return makers[-1] if makers else None

    def _covered_by(self, author: Job) -> list[Job]:
        """Jobs whose lines the author rewrote, without those that this round took away already."""
        left = {id(job) for job in self.jobs}
        covered = [
            (step.job, self._coverer(step.job))
            for step in self.steps
            if step.covered and id(step.job) in left
        ]
        return [job for job, other in covered if other is not None and other.job is author]

    def _coverer(self, job: Job) -> Step | None:
        """The step whose candidate rewrote the job's lines."""
        path, there = job.span.file, job.after is None
        for step in self.steps:
            blame = step.blames.get(path)
            changed = there and step.candidate is not None and blame is not None
            if changed and blame and job.located(step.workspace.current(path), blame) is None:
                return step
            there = there or step.job.number == job.after
        return None

    # --- guilt ----------------------------------------------------------------------------------------------

    def _verify(self, goes_on: Callable[[Trace], bool] | None = None) -> Evidence:
        if not self._applied():
            return Evidence()
        return self._whole(self.steps, None, goes_on)

    def _whole(
        self,
        steps: Sequence[Step],
        backends: tuple[str, ...] | None = None,
        goes_on: Callable[[Trace], bool] | None = None,
    ) -> Evidence:
        """The program with these repairs against the program without any."""
        found = [step.candidate for step in steps if step.candidate is not None]
        predicates = _predicates(steps)
        level = max((candidate.level for candidate in found), key=LEVELS.index)
        rounding = any(candidate.rounding for candidate in found)
        workspace = steps[-1].workspace
        return self.tools.whole(self.program, workspace, predicates, level, backends, goes_on, rounding)

    def _guilty(self, failed: set[str]) -> Job:
        """The repair with which these checks begin to fail."""
        stages = {name.partition(":")[0] for name in failed}
        backends = ("inductor",) if "inductor" in stages else ("eager", "aot_eager")

        def fails(steps: list[Step]) -> bool:
            checks = self._whole(steps, backends).checks
            return any(check.passed is False and check.name in failed for check in checks)

        return self._first_with(fails)

    def _blame_for(self, error: BaseException, look: Callable[[Program], Trace]) -> bool:
        """The compiler itself failed: on the program as it was, that is the program's; else a repair's."""
        before = self.before.trace.error
        if before is not None and type(before) is type(error):
            return False

        def fails(steps: list[Step]) -> bool:
            return type(self._looked(look, steps[-1].workspace).error) is type(error)

        words = first_line(str(error)) or "it did not come to an end"
        return self._reject(self._first_with(fails), f"the compiler fails: {type(error).__name__}: {words}")

    def _first_with(self, fails: Callable[[list[Step]], bool]) -> Job:
        """Bisection over the applied repairs: the first with which it fails. All together fail."""
        ends = [n for n, step in enumerate(self.steps) if step.candidate is not None]
        low, high = 0, len(ends) - 1
        while low < high:
            middle = (low + high) // 2
            if fails(self.steps[: ends[middle] + 1]):
                high = middle
            else:
                low = middle + 1
        return self.steps[ends[low]].job

    # --- the end --------------------------------------------------------------------------------------------

    def _result(self, evidence: Evidence) -> FixResult:
        left = {site.span: site for found in self.seen.values() for site in found.sites}
        after = self.before
        if self._applied():
            main = self.seen.get("user") or self.before
            after = Findings(tuple(_shown(site) for site in left.values()), main.trace)
        return FixResult(
            program=self.program.name,
            before=self.before,
            after=after,
            repairs=tuple(self._repair(step, gone=self._gone(step)) for step in self._in_order()),
            changes=self._workspace().changes(),
            evidence=evidence,
            seconds=dict(self.seconds),
            predicates=_predicates(self.steps),
        )

    def _in_order(self) -> list[Step]:
        """The steps to report, by place. What only a given up candidate had brought is no longer there."""
        left = {span for found in self.seen.values() for site in found.sites for span in self._spans(site)}
        steps = [
            s
            for s in self.steps
            if s.job.number < self.first or s.candidate or s.covered or s.job.span in left
        ]
        return sorted(steps, key=lambda s: _place(s.job.site.span))

    def _spans(self, site: Site) -> tuple[Span, Span | None]:
        """Where a site stands in the current text, and in the user's."""
        span = replace(site.span, file=real_path(site.span.file))
        return span, self._origin(span)

    def _gone(self, step: Step) -> bool:
        """A break without a repair of its own that no longer happens: another one caused it, or its repair took this
        one along. Only where nothing is left at all; else it may just hide behind what is left."""
        nothing_left = "user" in self.seen and not any(found.sites for found in self.seen.values())
        return nothing_left and not (step.candidate or step.covered)

    def _repair(self, step: Step, *, gone: bool) -> Repair:
        site, kind = step.job.site, step.job.site.kind
        if gone:
            title = "went away with the break that caused it"
            return Repair(site, Status.APPLIED, kind, Level.EXACT, title, "")
        if step.candidate is not None:
            found = step.candidate
            return Repair(
                site,
                Status.APPLIED,
                found.kind,
                found.level,
                found.title,
                "",
                found.notes,
                evidence=step.evidence,
                rounding=found.rounding,
            )
        if step.covered and (other := self._coverer(step.job)) is not None:
            assert other.candidate is not None
            title = f"mended together with line {other.job.site.span.line}"
            return Repair(
                site, Status.APPLIED, kind, other.candidate.level, title, "", evidence=other.evidence
            )
        tried = [*step.job.reasons, *step.failures]
        if tried:
            next_step = step.declined.next_step if step.declined is not None else ""
            tried += [f"else: {step.declined.reason}"] if step.declined is not None else []
            return Repair(
                site,
                Status.REJECTED,
                kind,
                None,
                "",
                "; ".join(tried),
                next_step=self._setting(site)
                or next_step
                or "Rewrite it by hand, or keep it outside of the compiled region.",
            )
        declined = step.declined
        reason = declined.reason if declined is not None else site.reason
        next_step = declined.next_step if declined is not None else "Keep it outside of the compiled region."
        next_step = self._setting(site) or next_step
        return Repair(site, Status.DECLINED, kind, None, "", reason, next_step=next_step)

    def _setting(self, site: Site) -> str:
        """The settings that close a site which breaks in the user's own mode alone; "" where none do."""
        names = captures.settings_for(site)
        if not names or self.program.options.get("fullgraph"):
            return ""
        if self.captured is None:
            trace = self._timed("observe", lambda: self._observed(self.tools.residual))
            self.captured = self.tools.diagnose(trace)
        left = [span for each in self.captured.sites for span in self._spans(each) if span is not None]
        if self.captured.trace.error is not None or any(_overlap(site.span, span) for span in left):
            return ""
        return captures.words(names)

    def _timed(self, stage: str, work: Callable[[], T]) -> T:
        progress.say(_SAID[stage])
        start = time.perf_counter()
        try:
            return work()
        finally:
            self.seconds[stage] = self.seconds.get(stage, 0.0) + time.perf_counter() - start


def _asks_for_symbol(site: Site) -> bool:
    return any(_SYMBOL.search(f"{break_.message} {break_.context}") for break_ in site.breaks)


def _predicates(steps: Iterable[Step]) -> tuple[Predicate, ...]:
    found = (step.candidate for step in steps if step.candidate is not None)
    return tuple(predicate for candidate in found for predicate in candidate.predicates)


def _shown(site: Site) -> Site:
    return replace(site, span=replace(site.span, file=real_path(site.span.file)))


def _words(evidence: Evidence, names: set[str]) -> str:
    return next(f"{check.name}: {check.detail}" for check in evidence.checks if check.name in names)


def _overlap(one: Span, other: Span) -> bool:
    """Whether two spans have text in common: what breaks next to a number that was captured is still there."""
    first, second = sorted((one, other), key=_place)
    return first.file == second.file and (first.end_line, first.end_column) > (second.line, second.column)


def _place(span: Span) -> tuple[str, int, int]:
    return span.file, span.line, span.column
