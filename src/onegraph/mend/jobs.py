"""The sites that are worked on, and the texts that their candidates make, one after the other."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace

from onegraph import progress
from onegraph.mend.blame import Blame
from onegraph.model import Candidate, Check, Declined, Evidence, Level, Owner, Predicate, Program, Site, Span
from onegraph.rewrite.facts import measure
from onegraph.rewrite.pairing import SwapError, pair
from onegraph.rewrite.request import Facts, Request
from onegraph.rewrite.source import SourceUnavailable
from onegraph.rewrite.workspace import Workspace
from onegraph.state import World
from onegraph.words import counted

_SHOWN = 3  # calls with inputs of other types, in the notes of a repair
LEVELS = (Level.EXACT, Level.RELAXED, Level.LOSSY)

Repairs = Callable[[Request], Iterable[Candidate | Declined]]
Trial = Callable[[Program, Workspace, Workspace, tuple[Predicate, ...], Level, bool], Evidence]


@dataclass(slots=True)
class Job:
    """One site on its way to a decision. ``span`` is where it stands: in the user's text, or, when the
    site appeared in rewritten lines (``after`` is the job that wrote them), in the text in which it was ``seen``."""

    number: int
    site: Site  # as the user sees it
    span: Span
    after: int | None = None
    seen: str = ""
    asked: str = ""  # the text for which it was asked once more
    given_up: Counter[str] = field(default_factory=Counter)  # titles of candidates
    reasons: list[str] = field(default_factory=list)  # why

    @property
    def key(self) -> tuple[int, int]:
        """What its step depends on, besides the steps before."""
        return self.number, self.given_up.total()

    def located(self, text: str, blame: Blame) -> Span | None:
        """Where the site stands in ``text``, whose lines ``blame`` knows; None when its lines were rewritten."""
        if self.after is None:
            return blame.located(self.span)
        if text == self.seen:
            return self.span
        return Blame.of(self.seen).edited(self.seen, text, self.number).located(self.span)


@dataclass(frozen=True, slots=True)
class Step:
    """What became of one job: the workspace and lines after it."""

    job: Job
    key: tuple[int, int]
    workspace: Workspace
    blames: Mapping[str, Blame]
    candidate: Candidate | None = None
    tried: tuple[str, ...] = ()  # titles of the candidates up to this one
    evidence: Evidence = field(default_factory=Evidence)
    declined: Declined | None = None
    failures: tuple[str, ...] = ()  # candidates that failed their trial here, in words
    covered: bool = False  # its lines were rewritten by an earlier job


class Bench:
    """Makes the steps of a list of jobs; a step is kept as long as nothing before it changes."""

    def __init__(
        self,
        program: Program,
        repairs: Repairs,
        trial: Trial,
        level: Level,
        select: Iterable[str] = (),
        ignore: Iterable[str] = (),
    ) -> None:
        self._program = program
        self._repairs = repairs
        self._trial = trial
        self._level = level
        self._select = frozenset(select)
        self._ignore = frozenset(ignore)
        self._steps: list[Step] = []
        self.world: World | None = None  # a snapshot of the program's state, where one is held
        self._facts: dict[tuple[int, str], tuple[Workspace, Facts]] = {}

    def steps(self, jobs: Iterable[Job]) -> list[Step]:
        """One step for each job, in order."""
        made: list[Step] = []
        reuse = True
        jobs = tuple(jobs)
        for number, job in enumerate(jobs):
            progress.say(f"mending, {number + 1} of {counted(len(jobs), 'break')}")
            known = self._steps[number] if reuse and number < len(self._steps) else None
            reuse = known is not None and known.key == job.key
            made.append(known if known is not None and reuse else self._step(job, made[-1] if made else None))
        self._steps = made
        return list(made)

    def again(self, job: Job) -> None:
        """Forget the step of a job that proposed nothing: the text around it has changed since."""
        at = next((n for n, step in enumerate(self._steps) if step.job is job), len(self._steps))
        del self._steps[at:]

    def _step(self, job: Job, before: Step | None) -> Step:
        workspace = before.workspace if before else Workspace()
        blames = dict(before.blames) if before else {}
        step = Step(job, job.key, workspace, blames)
        if refusal := self._refusal(job.site):
            return replace(step, declined=refusal)
        path = job.span.file
        try:
            current = workspace.current(path)
        except SourceUnavailable as error:
            return replace(step, declined=Declined(job.site.kind, error.reason, error.next_step))
        blame = blames.setdefault(path, Blame.of(workspace.original(path)))
        span = job.located(current, blame)
        if span is None:
            return replace(step, covered=True)
        request = Request(
            replace(job.site, span=span),
            path,
            current,
            self._level,
            self._measured(workspace, path),
            lambda text, functions: measure(
                self._program, workspace.with_text(path, text, functions), path, self.world
            ),
        )
        return self._first_good(step, request, blame)

    def _first_good(self, step: Step, request: Request, blame: Blame) -> Step:
        failures: list[str] = []
        declined: Declined | None = None
        behind: Step | None = None  # a good one that gives way to one that is right for more inputs
        titles: list[str] = []
        given_up = Counter(step.job.given_up)
        for found in self._candidates(request):
            if isinstance(found, Declined):
                declined = declined or found
                continue
            if given_up[found.title]:  # by its title: what is proposed depends on the repairs before
                given_up[found.title] -= 1
                continue
            titles.append(found.title)
            after = step.workspace.with_text(request.path, found.text, found.functions)
            evidence = self._tried(step.workspace, after, request.path, found)
            if failed := [check for check in evidence.checks if check.passed is False]:
                failures.append(f"{found.title}: {failed[0].name}: {failed[0].detail}")
                continue
            if evidence.differing and self._level is Level.EXACT:
                declined = declined or _not_exact(found, evidence)
                continue
            blames = {**step.blames, request.path: blame.edited(request.text, found.text, step.job.number)}
            good = replace(
                step,
                workspace=after,
                blames=blames,
                candidate=_as_tried(found, evidence),
                tried=tuple(titles),
                evidence=evidence,
            )
            if not (evidence.differing and found.gives_way):
                chosen = behind if behind is not None and evidence.differing else good
                return replace(chosen, failures=tuple(failures))
            behind = behind or good
        return replace(step if behind is None else behind, declined=declined, failures=tuple(failures))

    def _candidates(self, request: Request) -> Iterator[Candidate | Declined]:
        """Declines don't count as candidates; those of a level that was not asked for become declines."""
        declined: list[Declined] = []
        for found in self._repairs(request):
            if isinstance(found, Declined):
                declined.append(found)
            elif LEVELS.index(found.level) > LEVELS.index(self._level):
                reason = f"{found.title}: this repair is {found.level}, and only {self._level} was asked for"
                declined.append(Declined(found.kind, reason, f"Allow it with --level {found.level}."))
            else:
                yield found
        yield from declined

    def _tried(self, before: Workspace, after: Workspace, path: str, candidate: Candidate) -> Evidence:
        """The trial. A text that can't take the place of the running one fails it."""
        if candidate.text == before.current(path):
            return Evidence((Check("trial", False, "the candidate changes nothing"),))
        try:
            for change in after.changes():
                pair(change, "current")
            allowed = candidate.level, candidate.rounding
            return self._trial(self._program, before, after, candidate.predicates, *allowed)
        except (SwapError, SyntaxError) as error:
            return Evidence((Check("trial", False, str(error)),))

    def _measured(self, workspace: Workspace, path: str) -> Facts:
        key = id(workspace), path
        if key not in self._facts:
            self._facts = {key: (workspace, measure(self._program, workspace, path, self.world))}
        return self._facts[key][1]

    def _refusal(self, site: Site) -> Declined | None:
        """Why a site is not worked on at all."""
        if site.intended:
            return Declined(
                site.kind,
                f"{site.source or site.function} asks for this break itself",
                "Remove the call or the decorator if the break is no longer wanted.",
            )
        if site.owner in (Owner.TORCH, Owner.STDLIB):
            whose = "torch itself" if site.owner is Owner.TORCH else "the standard library"
            return Declined(
                site.kind,
                f"the break is inside {whose}, called from no code that can be mended",
                "Keep this call outside of the compiled region.",
            )
        if (self._select and site.kind not in self._select) or site.kind in self._ignore:
            option = "--ignore" if site.kind in self._ignore else "--select"
            return Declined(site.kind, f"{site.kind} is left out by {option}", f"Run again without {option}.")
        return None


def _as_tried(candidate: Candidate, evidence: Evidence) -> Candidate:
    """What differs on inputs of other types is a thing that the repair moves."""
    if not evidence.differing:
        return candidate
    more = len(evidence.differing) - _SHOWN
    rest = (f"and on {more} more calls with inputs of other types",) if more > 0 else ()
    notes = (*candidate.notes, *evidence.differing[:_SHOWN], *rest)
    return replace(candidate, level=max(candidate.level, Level.RELAXED, key=LEVELS.index), notes=notes)


def _not_exact(candidate: Candidate, evidence: Evidence) -> Declined:
    reason = f"{candidate.title}: {evidence.differing[0]}"
    return Declined(candidate.kind, reason, "Allow it with --level relaxed, if it is not called so.")
