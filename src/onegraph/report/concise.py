"""One line a break, as compilers and linters write it: editors and grep read this."""

from __future__ import annotations

from onegraph.report.problems import Problem, printable, problems, summary
from onegraph.report.rows import AnyReport


def render(report: AnyReport) -> str:
    """Breaks that count, then one line of totals."""
    rows = [_row(each) for each in problems(report) if each.counts]
    return "".join(f"{row}\n" for row in [*rows, summary(report)])


def _row(problem: Problem) -> str:
    where = f"{problem.path}:{problem.line}:{problem.column}"
    whose = f" ({problem.whose})" if problem.whose else ""
    words = f"{where}: {problem.kind} {problem.message} [{problem.function}]{whose}"
    if problem.repair is not None and problem.repair.status == "applied":
        words += f" fix: {problem.repair.title}"
    return printable(" ".join(words.split()))
