"""What was compiled, call by call: the graphs of a function, and what lies between them."""

from __future__ import annotations

import msgspec

from onegraph.diagnose.sites import site_frame
from onegraph.model import Attempt, Break, Findings, Outcome


class SegmentRow(msgspec.Struct, frozen=True):
    """One part of a call: a graph of so many calls, a break (its site), or the rest that runs eagerly."""

    what: str  # "graph", "break" or "eager"
    nodes: int = 0
    site: int | None = None  # position in ``sites``


class CallRow(msgspec.Struct, frozen=True):
    """A function as it was compiled once; a recompile is a call of its own."""

    function: str
    file: str
    line: int
    start: float  # seconds since the run began
    seconds: float  # spent in compiling
    recompile: int | None  # position in ``recompiles``
    segments: list[SegmentRow]


def calls_of(findings: Findings) -> list[CallRow]:
    """In time order. The parts of a function behind a break belong to the call before them."""
    groups: list[list[Attempt]] = []
    for attempt in findings.trace.attempts:
        same = groups and _place(groups[-1][0]) == _place(attempt)
        if same and attempt.resumed and attempt.recompile is None:
            groups[-1].append(attempt)
        else:
            groups.append([attempt])
    return [_call(group, findings) for group in groups]


def _place(attempt: Attempt) -> tuple[str, str, int]:
    return (attempt.function, attempt.file, attempt.line)


def _call(group: list[Attempt], findings: Findings) -> CallRow:
    first = group[0]
    segments = [segment for attempt in group for segment in _segments(attempt, findings)]
    return CallRow(
        function=first.function,
        file=first.file,
        line=first.line,
        start=round(first.start, 4),
        seconds=round(sum(attempt.seconds for attempt in group), 4),
        recompile=first.recompile,
        segments=segments,
    )


def _segments(attempt: Attempt, findings: Findings) -> list[SegmentRow]:
    trace = findings.trace
    found = [SegmentRow("graph", nodes=trace.graphs[index].nodes) for index in attempt.graphs]
    breaks = [trace.breaks[index] for index in attempt.breaks if not trace.breaks[index].consequence]
    found += [
        SegmentRow("break", site=site) for site in dict.fromkeys(_site(each, findings) for each in breaks)
    ]
    outcomes = {trace.breaks[index].outcome for index in attempt.breaks}
    if outcomes & {Outcome.REST_EAGER, Outcome.FRAME_SKIPPED}:
        found.append(SegmentRow("eager"))
    return found


def _site(break_: Break, findings: Findings) -> int | None:
    if not break_.stack:
        return None
    span = site_frame(break_).span
    return next((at for at, site in enumerate(findings.sites) if site.span == span), None)
