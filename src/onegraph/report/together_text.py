"""Several reports of one program (the ranks of a job): each break once, with the reports that have it."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import RenderableType
from rich.text import Text

from onegraph.report.problems import Problem, problems, summary
from onegraph.report.rows import AnyReport
from onegraph.report.text import Page, block
from onegraph.words import counted


def page(reports: Sequence[AnyReport], names: Sequence[str]) -> Page:
    """``names`` are the files of the reports."""
    parts: list[RenderableType] = [
        Text.assemble(("onegraph report", "bold"), (f" · {counted(len(reports), 'report')}", "dim")),
        *(Text(f"  {name}  {summary(report)}") for name, report in zip(names, reports, strict=True)),
    ]
    found: dict[str, tuple[Problem, list[str]]] = {}
    for name, report in zip(names, reports, strict=True):
        for each in problems(report):
            found.setdefault(each.fingerprint, (each, []))[1].append(name)
    everywhere = [each for each, where in found.values() if len(where) == len(reports)]
    some = [(each, where) for each, where in found.values() if len(where) < len(reports)]
    if everywhere:
        parts += [Text(), block(f"in all: {counted(len(everywhere), 'break')}", map(_line, everywhere))]
    if some:
        lines = [f"{_line(each)}   in {', '.join(where)}" for each, where in some]
        parts += [Text(), block(f"in some: {counted(len(some), 'break')}", lines)]
    if some and len({report.target for report in reports}) == 1:
        words = "Ranks that break differently run different graphs; collectives inside them can wait forever."
        parts += [Text(), Text(words, style="bold yellow")]
    if not found:
        parts += [Text(), Text("no break")]
    return parts


def _line(problem: Problem) -> str:
    return f"{problem.path}:{problem.line}:{problem.column}  {problem.kind}  {problem.source}"
