"""One strip a compiled call: its graphs in proportion, cut where the graph breaks, hatched where it is
eager."""

from __future__ import annotations

from onegraph.report.calls import CallRow, SegmentRow
from onegraph.report.page.markup import Markup, tag
from onegraph.report.rows import Observed
from onegraph.report.text import plain_reason

SHOWN = 40
_LEGEND = "One strip a compiled call: a bar is a graph, a cut is a break, hatching runs eagerly."


def strips(seen: Observed, prefix: str) -> Markup | None:
    """``prefix`` makes the links to the sites unique on the page."""
    calls = [call for call in seen.calls if any(map(_tells, call.segments))]
    if not calls:
        return None
    rows = [_strip(call, seen, prefix) for call in calls[:SHOWN]]
    more = len(calls) - SHOWN
    rest = (
        tag("p", f"and {more} more calls; all are in the JSON report", class_="quiet") if more > 0 else None
    )
    return tag(
        "section",
        tag("h2", "What was compiled"),
        tag("p", _LEGEND, class_="quiet"),
        tag("ol", rows, class_="strips"),
        rest,
        aria_label="compiled calls",
    )


def _tells(segment: SegmentRow) -> bool:
    """A break without a site is the echo of another one."""
    return segment.what != "break" or segment.site is not None


def _strip(call: CallRow, seen: Observed, prefix: str) -> Markup:
    name = call.function.replace("<locals>.", "")
    again = None
    if call.recompile is not None and call.recompile < len(seen.recompiles):
        reasons = "; ".join(map(plain_reason, seen.recompiles[call.recompile].reasons))
        again = tag("span", "again", class_="chip", title=f"compiled again: {reasons}")
    nodes = sum(segment.nodes for segment in call.segments)
    graphs = sum(segment.what == "graph" for segment in call.segments)
    breaks = sum(segment.what == "break" and _tells(segment) for segment in call.segments)
    label = f"{name}: {graphs} graphs of {nodes} operations, {breaks} breaks, {call.seconds:.2f} s"
    parts = [_segment(each, nodes, prefix, seen) for each in call.segments if _tells(each)]
    return tag(
        "li",
        tag("span", tag("code", name), " ", again, class_="name", title=f"{call.file}:{call.line}"),
        tag("span", parts, class_="strip", role="group", aria_label=label),
        tag("span", f"{call.seconds:.2f} s", class_="time", title="time spent compiling"),
    )


def _segment(segment: SegmentRow, nodes: int, prefix: str, seen: Observed) -> Markup:
    if segment.what == "graph":
        share = max(4, round(100 * segment.nodes / max(1, nodes)))
        title = f"a graph of {segment.nodes} operations"
        return tag("span", str(segment.nodes), class_="graph", style=f"flex-grow:{share}", title=title)
    if segment.what == "eager":
        return tag("span", "eager", class_="eager", title="the rest of the function runs eagerly")
    assert segment.site is not None
    site = seen.sites[segment.site]
    title = f"{site.kind}: {site.source}"
    to = f"#{prefix}site-{segment.site + 1}"
    return tag("a", "✂", class_="cut", href=to, title=title, aria_label=f"break: {title}")
