"""Findings against settings, comments and baseline: what is new, what is accepted, and does the run pass."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from pathlib import Path

from onegraph.diagnose import attributed
from onegraph.gate.baseline import Baseline, torch_minor
from onegraph.gate.keys import LIMIT, keyed_path, keys_of, limit_key
from onegraph.gate.settings import Settings
from onegraph.gate.statement import statement_at
from onegraph.gate.suppress import Comment, comments_in
from onegraph.model import Findings, Judged, Key, Limits, Owner, Site, Standing, Verdict
from onegraph.words import counted

NOTHING = "nothing was compiled"


def judge(
    findings: Findings,
    settings: Settings,
    baseline: Baseline,
    target: str,
    *,
    kinds: Collection[str],
    failed: str = "",
) -> Verdict:
    """``kinds`` are the names that a comment may use; ``failed`` says that the compiler itself failed."""
    accepted = set(baseline.accepted(torch_minor(), target))
    comments = comments_in(_files(findings), {*kinds, LIMIT})
    used: set[Comment] = set()
    keys = keys_of(findings.sites, settings.root)
    judged = tuple(
        _judge_site(site, key, settings, accepted, comments, used)
        for site, key in zip(findings.sites, keys, strict=True)
    )
    limits = {place: limit_key(place, settings.root) for place in findings.trace.limits_reached}
    new_limits = tuple(place for place, key in limits.items() if not _limit_passes(key, settings, accepted))
    seen = {*keys, *limits.values()}
    compiled = bool(findings.trace.graphs or findings.sites)
    # Where the program stopped early, or nothing was compiled, what wasn't seen may still be there.
    gone = accepted - seen if compiled and findings.trace.error is None else set()
    recompiles = _counted_recompiles(findings, judged)
    faulty = tuple(f"{_place(each, settings.root)}: {each.fault}" for each in comments if each.fault)
    return Verdict(
        judged=judged,
        gone=tuple(sorted(gone, key=lambda key: (key.file, key.function, key.statement, key.occurrence))),
        unused=tuple(_place(each, settings.root) for each in comments if not each.fault and each not in used),
        faulty=faulty,
        recompiles=recompiles,
        limits=settings.limits,
        compiled=compiled,
        problems=tuple(_problems(judged, recompiles, settings.limits, new_limits, faulty, failed))
        if compiled
        else (NOTHING,),
        keys=tuple(seen),
        other_torch=_other_torch(baseline, target),
    )


def _problems(
    judged: Iterable[Judged],
    recompiles: int,
    limits: Limits,
    limits_reached: Iterable[str],
    faulty: Iterable[str],
    failed: str,
) -> Iterator[str]:
    new = sum(each.standing is Standing.NEW for each in judged)
    if new > limits.breaks:
        yield f"{counted(new, 'new break')} (limit {limits.breaks})"
    if limits.recompiles is not None and recompiles > limits.recompiles:
        yield f"{counted(recompiles, 'recompile')} (limit {limits.recompiles})"
    for place in limits_reached:
        yield f"recompile limit reached, eager from then on: {place}"
    if failed:
        yield f"the compiler failed: {failed}"
    for fault in faulty:
        yield f"a suppression that does nothing: {fault}"


def _judge_site(
    site: Site,
    key: Key,
    settings: Settings,
    accepted: Collection[Key],
    comments: Iterable[Comment],
    used: set[Comment],
) -> Judged:
    statement = statement_at(site.span, site.source)
    mine = [each for each in comments if each.file == site.span.file and each.applies(site.kind, statement)]
    used.update(mine)
    if site.intended:
        return Judged(site, key, Standing.INTENDED, "the code asks for it")
    if mine:
        return Judged(site, key, Standing.SUPPRESSED, mine[0].reason)
    if why := settings.ignored(site.kind, key.file):
        return Judged(site, key, Standing.IGNORED, why)
    if not settings.dependencies and site.owner is not Owner.USER:
        return Judged(site, key, Standing.IGNORED, "dependencies = false in pyproject.toml")
    if key in accepted:
        return Judged(site, key, Standing.BASELINED, "in the baseline")
    return Judged(site, key, Standing.NEW, "")


def _limit_passes(key: Key, settings: Settings, accepted: Collection[Key]) -> bool:
    return key in accepted or bool(settings.ignored(LIMIT, key.file))


def _counted_recompiles(findings: Findings, judged: Iterable[Judged]) -> int:
    """All but those that go with a break which is accepted."""
    passing = {each.site.span for each in judged if each.standing is not Standing.NEW}
    pairs = attributed(findings.trace.recompiles, findings.sites)
    return sum(site is None or site.span not in passing for _, site in pairs)


def _files(findings: Findings) -> list[str]:
    """The files whose comments speak of this run: those with a site or a compiled function."""
    trace = findings.trace
    return [
        *(site.span.file for site in findings.sites),
        *(graph.file for graph in trace.graphs),
        *(recompile.file for recompile in trace.recompiles),
    ]


def _place(comment: Comment, root: Path) -> str:
    return f"{keyed_path(comment.file, root)}:{comment.line}"


def _other_torch(baseline: Baseline, target: str) -> tuple[str, ...]:
    """Versions of torch that the baseline knows this target under, where the installed one isn't among
    them."""
    known = [minor for minor, lists in baseline.sections.items() if target in lists]
    return () if torch_minor() in known else tuple(known)
