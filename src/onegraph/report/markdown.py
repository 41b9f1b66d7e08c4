"""Markdown for a step summary or a comment on a pull request."""

from __future__ import annotations

import re

from onegraph.report.problems import Problem, problems, summary
from onegraph.report.rows import AnyReport, CheckReport, FixReport

_SPECIAL = re.compile(r"([\\`*_{}\[\]<>#|~!&@$])")


def render(report: AnyReport) -> str:
    parts = [
        f"### onegraph: {plain(report.target)}",
        f"**{plain(summary(report))}** · torch {plain(report.torch)}",
    ]
    found = problems(report)
    counting = [each for each in found if each.counts]
    if counting:
        parts.append(_table(counting))
    accepted = [each for each in found if not each.counts]
    if accepted:
        parts.append(_details(f"{len(accepted)} accepted", _accepted(accepted)))
    if isinstance(report, CheckReport):
        parts += [f"- {plain(problem)}" for problem in report.gate.problems]
        if report.gate.gone:
            parts.append(f"{len(report.gate.gone)} fixed since the baseline was written.")
        parts += [f"- unused suppression: {plain(place)}" for place in report.gate.unused_suppressions]
    if isinstance(report, FixReport) and report.diff:
        parts.append(_details("the change", _code(report.diff, "diff")))
    return "\n\n".join(parts) + "\n"


def _table(found: list[Problem]) -> str:
    rows = ["| kind | where | source | what to do |", "|---|---|---|---|"]
    for each in found:
        where = f"{plain(f'{each.path}:{each.line}')}<br>{plain(each.function)}"
        where += f"<br>{plain(each.whose)}" if each.whose else ""
        what = f"{plain(each.message)}<br>{plain(each.next_step)}"
        rows.append(f"| {plain(each.kind)} | {where} | {_inline(each.source)} | {what} |")
    return "\n".join(rows)


def _accepted(found: list[Problem]) -> str:
    rows = ["| kind | where | why it passes |", "|---|---|---|"]
    for each in found:
        where = plain(f"{each.path}:{each.line}")
        rows.append(f"| {plain(each.kind)} | {where} | {plain(each.note or each.standing)} |")
    return "\n".join(rows)


def _details(title: str, body: str) -> str:
    return f"<details><summary>{plain(title)}</summary>\n\n{body}\n\n</details>"


def plain(text: str) -> str:
    """Text of the user's program as text, whatever it holds."""
    return _SPECIAL.sub(r"\\\1", " ".join(text.split()))


def _inline(text: str) -> str:
    """Code in a table's cell: a fence longer than any in it, and the bars escaped."""
    text = " ".join(text.split()).replace("|", "\\|")
    if not text:
        return ""
    fence = "`" * (_longest(text) + 1)
    pad = " " if text[0] == "`" or text[-1] == "`" else ""
    return f"{fence}{pad}{text}{pad}{fence}"


def _code(text: str, language: str) -> str:
    fence = "`" * max(3, _longest(text) + 1)
    return f"{fence}{language}\n{text.rstrip()}\n{fence}"


def _longest(text: str) -> int:
    return max((len(run) for run in re.findall("`+", text)), default=0)
