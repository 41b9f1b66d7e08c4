"""The report of a fix for people: what was repaired and how well it is proven, what was not, the diff, the
totals."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from importlib import metadata

from rich.console import RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from onegraph.diagnose import owner_of
from onegraph.model import Check, Evidence, FixResult, Level, Owner, Repair, Status
from onegraph.report.text import Page, Patch, display_position, following, function_name, whose
from onegraph.report.verdict import is_recount, met_behind, near_zero, verified
from onegraph.words import counted

_LONGEST = 300


def fix_text(
    result: FixResult,
    target: str,
    diff: str,
    *,
    done: str = "",
    next_step: str | None = None,
    torch: str | None = None,
) -> Page:
    """The whole report of ``onegraph fix``. ``diff`` is shown as it is: the output is still a patch.
    ``done`` says what was written."""
    parts: list[RenderableType] = [_head(target, torch)]
    applied = [repair for repair in result.repairs if repair.status is Status.APPLIED]
    others = [repair for repair in result.repairs if repair.status is not Status.APPLIED]
    if applied:
        parts += [Text(), _table("mended", applied)]
    if others:
        parts += [Text(), _table("not mended", others)]
    if diff:
        parts += [Text(), Patch(diff)]
    parts += [Text(), _totals(result)]
    parts += [Padding(Text(line), (0, 0, 0, 2)) for line in _failed_checks(result)]
    parts.append(_seconds(result))
    parts += [Text(done, style="bold")] if done else []
    parts.append(following(next_step or usual_next(result, target)))
    return parts


def usual_next(result: FixResult, target: str) -> str:
    """The command that helps most now."""
    if result.changes and not verified(result):
        return "nothing is applied until it verifies; leave a repair out with --ignore KIND"
    if result.changes:
        foreign = all(owner_of(change.path)[0] is not Owner.USER for change in result.changes)
        return f"onegraph fix {target} " + ("--overlay overlay.py" if foreign else "--apply")
    kinds = [repair.kind for repair in result.repairs]
    return f"onegraph explain {kinds[0]}" if kinds else f"onegraph check {target}   keeps it so in CI"


def evidence_line(evidence: Evidence) -> str:
    """Evidence in one line: what agrees, on how many runs, and what failed or could not be verified."""
    compared = [check for check in evidence.checks if not is_recount(check)]
    if not compared:
        return "not run"
    failed = [check for check in compared if check.passed is False]
    if failed:
        return "FAILED: " + "; ".join(f"{check.name} {_short(check.detail)}".strip() for check in failed)
    stages = dict.fromkeys(_stage(check) for check in compared if check.passed)
    where = " where eager gives nearly zero" if near_zero(evidence.max_abs, evidence.max_rel) else ""
    difference = f"max abs {evidence.max_abs:.1e}, rel {evidence.max_rel:.1e}{where}"
    same = "bit for bit" if evidence.max_abs == 0 else difference
    words = f"same results {', '.join(stages)}; {counted(evidence.inputs, 'run')} ({same})"
    unproven = dict.fromkeys(_stage(check) for check in compared if check.passed is None)
    return words + (f"; unverified: {', '.join(unproven)}" if unproven else "")


def _stage(check: Check) -> str:
    """The stage of a check named "stage: aspect"."""
    return check.name.partition(":")[0]


def _head(target: str, torch: str | None) -> Text:
    return Text.assemble(
        ("onegraph fix", "bold"), (f" · {target} · torch {torch or metadata.version('torch')}", "dim")
    )


def _table(title: str, repairs: Iterable[Repair]) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim", expand=True)
    table.add_column(title, no_wrap=True)
    table.add_column("where and what", ratio=1, overflow="fold")
    for index, repair in enumerate(repairs):
        if index:
            table.add_row()
        table.add_row(_kind(repair), Text("\n").join(_story(repair)))
    return table


def _kind(repair: Repair) -> Text:
    text = Text(repair.kind, style="bold green" if repair.status is Status.APPLIED else "bold red")
    word = repair.level.value if repair.level is not None else repair.status.value
    text.append(f"\n{word}", style="not bold " + ("default" if repair.level is Level.EXACT else "yellow"))
    return text


def _story(repair: Repair) -> Iterator[Text]:
    site = repair.site
    owner = "" if whose(site) == "yours" else f"  {whose(site)}"
    yield Text.assemble(display_position(site), (f"  {function_name(site.function)}{owner}", "dim"))
    if site.source:
        yield Text(site.source, style="cyan")
    if repair.status is Status.APPLIED:
        yield Text(repair.title)
        moves = [*repair.notes] or (
            [repair.reason] if repair.reason and repair.level is not Level.EXACT else []
        )
        for note in moves:
            yield Text(f"moves: {note}", style="yellow")
        yield Text(f"proof: {evidence_line(repair.evidence)}", style="dim")
        return
    word = "declined" if repair.status is Status.DECLINED else "tried, rejected"
    yield Text(f"{word}: {_short(repair.reason)}")
    if repair.next_step:
        yield Text(f"you can: {repair.next_step}", style="green")


def _totals(result: FixResult) -> Text:
    before, after = len(result.before.trace.graphs), len(result.after.trace.graphs)
    sites_before = sum(not site.intended for site in result.before.sites)
    sites_after = sum(not site.intended for site in result.after.sites)
    text = Text(f"{counted(before, 'graph')} → {after}", style="bold")
    behind = met_behind(result)
    more = f" and {behind} behind {'it' if sites_before == 1 else 'them'}" if behind else ""
    text.append(f" · {counted(sites_before, 'break')}{more} → {sites_after}")
    if not result.changes:
        nothing = "nothing to mend" if not sites_before else "nothing changed"
        return text.append(f" · {nothing}", style="bold")
    proven = verified(result)
    word, style = ("verified", "bold green") if proven else ("NOT VERIFIED", "bold red")
    text.append(" · ").append(word, style)
    if proven:
        text.append(f": {evidence_line(result.evidence)}", style="dim")
    return text


def _failed_checks(result: FixResult) -> Iterator[str]:
    if not result.changes or verified(result):
        return
    for check in result.evidence.checks:
        if not check.passed:
            word = "failed" if check.passed is False else "unverified"
            yield f"{word}: {check.name}" + (f": {_short(check.detail)}" if check.detail else "")


def _short(words: str) -> str:
    """Long reasons quote outputs of the program; the whole text is in the JSON report."""
    words = " ".join(words.split())
    return words if len(words) <= _LONGEST else words[:_LONGEST] + " … (all of it: --format json)"


def _seconds(result: FixResult) -> Text:
    stages = " · ".join(f"{stage} {seconds:.1f} s" for stage, seconds in result.seconds.items())
    return Text(stages, style="dim")
