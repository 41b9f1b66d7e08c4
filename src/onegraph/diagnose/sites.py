"""Break events become sites: grouped by source expression, without the consequences of others, worst
first."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import replace

from onegraph.diagnose.owner import owner_of
from onegraph.diagnose.recompiles import attributed
from onegraph.diagnose.source import guarded_by, snippet
from onegraph.model import Break, Findings, Frame, Outcome, Owner, Site, Span, Trace

SEVERITY = (Outcome.HIDDEN, Outcome.RESUMED, Outcome.REST_EAGER, Outcome.FRAME_SKIPPED)


def diagnose(
    trace: Trace,
    hidden: Iterable[Break] = (),
    *,
    classify: Callable[[Break], str],
    explain: Callable[[Break], str] | None = None,
) -> Findings:
    """The sites of a trace, worst first.

    ``hidden`` are breaks found by the probe; those that the trace has too are dropped. ``classify`` names the
    kind of a break, ``explain`` says in one sentence why it breaks; without it Dynamo's own words are used.
    """
    hidden = [replace(break_, outcome=Outcome.HIDDEN) for break_ in hidden if not break_.consequence]
    groups: dict[Span, list[Break]] = {}
    for break_ in (*_causes(trace.breaks), *hidden):
        if break_.stack:
            groups.setdefault(site_frame(break_).span, []).append(break_)
    sites = [_site(span, breaks, classify, explain or own_words) for span, breaks in groups.items()]
    sites = [site for site in sites if not _part_of_another(site, sites)]
    by_span = Counter(site.span for _, site in attributed(trace.recompiles, sites) if site is not None)
    sites = [replace(site, recompiles=by_span[site.span]) for site in sites]
    return Findings(tuple(sorted(sites, key=_badness)), trace)


def site_frame(break_: Break) -> Frame:
    """The innermost frame in the user's or a dependency's code; the innermost of all where there is none.

    ``logging``, ``warnings``, ``contextlib`` and torch itself are where a break surfaces, not what to change.
    """
    for frame in reversed(break_.stack):
        if owner_of(frame.span.file)[0] in (Owner.USER, Owner.DEPENDENCY):
            return frame
    return break_.stack[-1]


def own_words(break_: Break) -> str:
    """Dynamo's explanation, its first sentence."""
    words = " ".join((break_.explanation or break_.gb_type or break_.message).split())
    return re.split(r"(?<=\w\w\.|.\)\.)\s(?=[A-Z])", words, maxsplit=1)[0]


def _site(
    span: Span, breaks: list[Break], classify: Callable[[Break], str], explain: Callable[[Break], str]
) -> Site:
    seen = [break_ for break_ in breaks if break_.outcome is not Outcome.HIDDEN] or breaks
    kinds = [(classify(break_), break_) for break_ in seen]
    kind, typical = next((pair for pair in kinds if pair[0] != "other"), kinds[0])
    owner, package = owner_of(span.file)
    return Site(
        kind=kind,
        span=span,
        source=snippet(span),
        function=site_frame(typical).function,
        outcome=max((break_.outcome for break_ in seen), key=SEVERITY.index),
        owner=owner,
        package=package,
        count=len(seen),
        recompiles=0,
        intended=all(break_.intended for break_ in seen),
        reason=explain(typical),
        breaks=tuple(seen),
    )


def _part_of_another(site: Site, sites: list[Site]) -> bool:
    """``if t.any(): raise ...`` breaks at the condition, and again at the raise: one site, not two."""
    return site.kind != "other" and any(
        other.kind == site.kind and guarded_by(site.span.file, site.span, other.span) for other in sites
    )


def _causes(breaks: Iterable[Break]) -> list[Break]:
    """Without the consequences whose cause is there. The cause takes over the worse outcome.

    A function of the standard library compiled on its own was called by code left to eager: it goes with the
    break before it."""
    causes: list[Break] = []
    orphans: list[Break] = []
    for break_ in breaks:
        if not break_.consequence and not (causes and _library_only(break_)):
            causes.append(break_)
            continue
        nearest = next((i for i in reversed(range(len(causes))) if _leads_to(causes[i], break_)), None)
        if nearest is None:
            orphans.append(break_)
        elif break_.consequence and SEVERITY.index(break_.outcome) > SEVERITY.index(causes[nearest].outcome):
            causes[nearest] = replace(causes[nearest], outcome=break_.outcome)
    # a cause may also come after its consequence, when Dynamo meets it again in the function left to eager
    return causes + [orphan for orphan in orphans if not any(_leads_to(cause, orphan) for cause in causes)]


def _library_only(break_: Break) -> bool:
    owners = {owner_of(frame.span.file)[0] for frame in break_.stack}
    return bool(owners) and not owners & {Owner.USER, Owner.DEPENDENCY}


def _leads_to(cause: Break, consequence: Break) -> bool:
    """Whether the cause was met while the function of the consequence ran."""
    if not consequence.consequence or not consequence.stack:
        return True
    where = site_frame(consequence)
    here = (where.span.file, where.function)
    return any((frame.span.file, frame.function) == here for frame in cause.stack)


def _badness(site: Site) -> tuple[object, ...]:
    return (
        site.intended,
        -SEVERITY.index(site.outcome),
        -site.recompiles,
        -site.count,
        site.span.file,
        site.span.line,
        site.span.column,
    )
