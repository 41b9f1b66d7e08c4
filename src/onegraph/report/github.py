"""Workflow commands of GitHub Actions: annotations at the lines of a pull request."""

from __future__ import annotations

from onegraph.report.problems import ERROR, Problem, nothing_compiled, problems, summary
from onegraph.report.rows import AnyReport, CheckReport

SHOWN = 10  # GitHub keeps ten annotations a step; the rest stands in the log


def render(report: AnyReport) -> str:
    """The worst ten as annotations, every other break as a line of the log, and the totals."""
    counting = [each for each in problems(report) if each.counts]
    rows = [_annotation(each) for each in counting[:SHOWN]]
    rows += [f"{each.path}:{each.line}: {each.kind} {each.message}" for each in counting[SHOWN:]]
    if nothing_compiled(report):
        rows.append(f"::error title=onegraph::{_data(summary(report))}")
    elif isinstance(report, CheckReport) and not report.gate.passed and not counting:
        rows += [f"::error title=onegraph::{_data(problem)}" for problem in report.gate.problems]
    return "".join(f"{row}\n" for row in [*rows, _log(f"onegraph: {summary(report)}")])


def _annotation(problem: Problem) -> str:
    word = "error" if problem.level == ERROR else "warning"
    properties = {"title": f"onegraph: {problem.kind}"}
    message = f"{problem.message}\nnext: {problem.next_step}"
    if problem.whose:  # not a file of the repository
        message = f"{problem.path}:{problem.line} ({problem.whose}): {message}"
    else:
        properties |= {
            "file": problem.path,
            "line": str(problem.line),
            "endLine": str(problem.end_line),
        }
        if problem.line == problem.end_line:  # columns of different lines confuse GitHub
            properties |= {"col": str(problem.column), "endColumn": str(problem.end_column)}
    joined = ",".join(f"{name}={_property(value)}" for name, value in properties.items())
    return f"::{word} {joined}::{_data(message)}"


def _data(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")


def _log(text: str) -> str:
    """A line of the log that can't be taken for a command."""
    return " ".join(text.split()).replace("::", ": :")
