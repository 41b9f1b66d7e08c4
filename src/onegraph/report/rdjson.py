"""reviewdog's format: breaks as comments in a review, repairs as suggestions to accept with one click."""

from __future__ import annotations

from typing import Any

from onegraph.gate.keys import keyed_path
from onegraph.report.hunks import Hunk, hunks_of
from onegraph.report.json import indented
from onegraph.report.problems import Problem, problems
from onegraph.report.rows import AnyReport, FixReport

_SEVERITIES = {"error": "ERROR", "warning": "WARNING", "note": "INFO"}


def render(report: AnyReport) -> str:
    """A change that stands at no break (an import, a helper) is a comment of its own: without it the
    suggestions are incomplete, and it says so."""
    hunks = _hunks(report)
    rows = []
    for problem in problems(report):
        if problem.counts:
            mine = [hunk for hunk in hunks if _at(hunk, problem)]
            hunks = [hunk for hunk in hunks if hunk not in mine]
            rows.append(_diagnostic(problem, mine))
    rows += [_rest(hunk, _path(hunk, report)) for hunk in hunks]
    whole = {"source": {"name": "onegraph"}, "severity": "WARNING", "diagnostics": rows}
    return indented(whole)


def _hunks(report: AnyReport) -> list[Hunk]:
    if not isinstance(report, FixReport) or not report.verified:
        return []
    return [hunk for change in report.changes for hunk in hunks_of(change)]


def _at(hunk: Hunk, problem: Problem) -> bool:
    repaired = problem.repair is not None and problem.repair.status == "applied"
    site = problem.site
    return repaired and site is not None and hunk.file == site.file and hunk.covers(site.line, site.end_line)


def _diagnostic(problem: Problem, hunks: list[Hunk]) -> dict[str, Any]:
    row: dict[str, Any] = {
        "message": f"{problem.message}\nnext: {problem.next_step}",
        "location": {"path": problem.path, "range": _range(problem)},
        "severity": _SEVERITIES[problem.level],
        "code": {"value": problem.kind},
    }
    if hunks:
        row["suggestions"] = [_suggestion(hunk) for hunk in hunks]
    return row


def _range(problem: Problem) -> dict[str, Any]:
    """reviewdog counts columns in bytes, as the report itself does."""
    site = problem.site
    start, end = (site.column, site.end_column) if site is not None else (1, 1)
    return {
        "start": {"line": problem.line, "column": start},
        "end": {"line": problem.end_line, "column": end},
    }


def _suggestion(hunk: Hunk) -> dict[str, Any]:
    """Whole lines; the end is the beginning of the line behind them, so the text ends with its line break."""
    return {
        "range": {"start": {"line": hunk.first, "column": 1}, "end": {"line": hunk.last + 1, "column": 1}},
        "text": hunk.text,
    }


def _rest(hunk: Hunk, path: str) -> dict[str, Any]:
    return {
        "message": "Needed by the suggestions of onegraph in this file: accept them together.",
        "location": {
            "path": path,
            "range": {
                "start": {"line": hunk.first, "column": 1},
                "end": {"line": hunk.last + 1, "column": 1},
            },
        },
        "severity": "INFO",
        "suggestions": [_suggestion(hunk)],
    }


def _path(hunk: Hunk, report: AnyReport) -> str:
    """The path that the breaks of this file have."""
    from pathlib import Path

    known = {problem.site.file: problem.path for problem in problems(report) if problem.site is not None}
    return known.get(hunk.file) or keyed_path(hunk.file, Path.cwd())
