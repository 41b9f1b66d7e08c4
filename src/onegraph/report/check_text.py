"""The report of a check for people: what is new, what is accepted and why, and whether the run passes."""

from __future__ import annotations

from collections.abc import Iterator

from rich.console import RenderableType
from rich.padding import Padding
from rich.text import Text

from onegraph.model import Findings, Judged, Standing, Verdict
from onegraph.report.text import (
    Page,
    block,
    display_position,
    following,
    head,
    notices,
    sites_table,
    usual_next,
)
from onegraph.words import counted

_WORDS = {
    Standing.BASELINED: "in the baseline",
    Standing.SUPPRESSED: "suppressed",
    Standing.IGNORED: "ignored",
    Standing.INTENDED: "breaks on purpose",
}


def check_text(
    findings: Findings, verdict: Verdict, target: str, *, shrunk: str = "", torch: str | None = None
) -> Page:
    """The whole report of ``onegraph check``. ``shrunk`` is the baseline file that lost entries."""
    parts: list[RenderableType] = [head(findings, target, "check", torch)]
    if verdict.new:
        parts += [Text(), sites_table(each.site for each in verdict.new)]
    parts += [Padding(each, (1, 0, 0, 0)) for each in (*_accepted(verdict), *_remarks(verdict, shrunk))]
    parts += [Padding(each, (1, 0, 0, 0)) for each in notices(findings)]
    parts += [Text(), _end(verdict), following(_next(findings, verdict, target))]
    return parts


def _accepted(verdict: Verdict) -> Iterator[RenderableType]:
    for standing, word in _WORDS.items():
        mine = [each for each in verdict.judged if each.standing is standing]
        if mine:
            yield block(f"{word}: {counted(len(mine), 'break')}", map(_line, mine))


def _line(judged: Judged) -> str:
    said = judged.note if judged.standing in (Standing.SUPPRESSED, Standing.IGNORED) else ""
    return f"{display_position(judged.site)}  {judged.site.kind}" + (f"  {said}" if said else "")


def _remarks(verdict: Verdict, shrunk: str) -> Iterator[RenderableType]:
    if verdict.gone:
        what = f"taken out of {shrunk}: commit it" if shrunk else "the baseline still has them"
        title = f"fixed: {counted(len(verdict.gone), 'entry', 'entries')} of the baseline ({what})"
        yield block(
            title, (f"{key.file}  {key.function}  {key.kind}  {key.statement}" for key in verdict.gone)
        )
    if verdict.unused:
        yield block("suppressions that matched no break in this run", verdict.unused)
    if verdict.other_torch and verdict.new:
        known = ", ".join(verdict.other_torch)
        yield block(f"the baseline knows this target for torch {known} only", ())


def _end(verdict: Verdict) -> Text:
    if verdict.passed:
        accepted = len(verdict.judged)
        more = f": {counted(accepted, 'break')} accepted" if accepted else ""
        return Text(f"passed{more}", style="bold green")
    return Text("\n").join(Text(f"failed: {problem}", style="bold red") for problem in verdict.problems)


def _next(findings: Findings, verdict: Verdict, target: str) -> str:
    if verdict.new:
        return usual_next(Findings(tuple(each.site for each in verdict.new), findings.trace), target)
    if verdict.passed:
        waits = any(each.standing is not Standing.INTENDED for each in verdict.judged)
        return f"onegraph fix {target}   mends what is accepted" if waits else "nothing to do"
    if findings.trace.recompiles or findings.trace.limits_reached:
        return "the reasons of the recompiles are above; mark a size that varies: torch._dynamo.mark_dynamic"
    return "see above"
