"""The compiles on a time line, in Chrome's trace format: open it in Perfetto or chrome://tracing."""

from __future__ import annotations

from typing import Any

from onegraph.report.calls import CallRow
from onegraph.report.json import indented
from onegraph.report.problems import observed_of
from onegraph.report.rows import AnyReport, Observed

_PROCESS, _COMPILES, _BREAKS = 1, 1, 2


def render(report: AnyReport) -> str:
    seen = observed_of(report)
    events = [
        _name("process_name", f"onegraph {report.target}"),
        _name("thread_name", "compiling", _COMPILES),
        _name("thread_name", "graph breaks", _BREAKS),
    ]
    for call in seen.calls:
        events.append(_span(call, seen))
        events += _breaks(call, seen)
    whole = {
        "displayTimeUnit": "ms",
        "otherData": {"torch": report.torch, "onegraph": report.onegraph, "target": report.target},
        "traceEvents": events,
    }
    return indented(whole)


def _name(what: str, text: str, thread: int = 0) -> dict[str, Any]:
    return {"ph": "M", "name": what, "pid": _PROCESS, "tid": thread, "args": {"name": text}}


def _span(call: CallRow, seen: Observed) -> dict[str, Any]:
    reasons = seen.recompiles[call.recompile].reasons if call.recompile is not None else []
    return {
        "ph": "X",
        "name": call.function + (" (again)" if call.recompile is not None else ""),
        "cat": "compile",
        "pid": _PROCESS,
        "tid": _COMPILES,
        "ts": round(call.start * 1e6),
        "dur": round(call.seconds * 1e6),
        "args": {
            "where": f"{call.file}:{call.line}",
            "graphs": sum(segment.what == "graph" for segment in call.segments),
            "nodes": sum(segment.nodes for segment in call.segments),
            "recompiled because": reasons,
        },
    }


def _breaks(call: CallRow, seen: Observed) -> list[dict[str, Any]]:
    found = []
    for segment in call.segments:
        if segment.what == "break" and segment.site is not None:
            site = seen.sites[segment.site]
            found.append(
                {
                    "ph": "i",
                    "s": "t",
                    "name": site.kind,
                    "cat": "break",
                    "pid": _PROCESS,
                    "tid": _BREAKS,
                    "ts": round(call.start * 1e6),
                    "args": {"where": f"{site.file}:{site.line}", "source": site.source, "why": site.reason},
                }
            )
    return found
