"""GitLab's code quality report: a list of issues, shown in the merge request."""

from __future__ import annotations

from onegraph.report.json import indented
from onegraph.report.problems import Problem, problems
from onegraph.report.rows import AnyReport

_SEVERITIES = {"error": "major", "warning": "minor", "note": "info"}


def render(report: AnyReport) -> str:
    """Fingerprints are unique in the report, and stay through edits elsewhere in the file."""
    rows = [_row(each) for each in problems(report) if each.counts]
    return indented(rows)


def _row(problem: Problem) -> dict[str, object]:
    whose = f" ({problem.whose})" if problem.whose else ""
    return {
        "description": f"{problem.message} In {problem.function}{whose}: {problem.source}".strip(),
        "check_name": f"onegraph/{problem.kind}",
        "fingerprint": problem.fingerprint,
        "severity": _SEVERITIES[problem.level],
        "location": {
            "path": problem.path,
            "lines": {"begin": problem.line, "end": problem.end_line},
        },
    }
