"""The report of a run for people: a head, one row a site, what else happened, and the next command."""

from __future__ import annotations

import io
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from importlib import metadata

from rich.console import Console, Group, RenderableType
from rich.padding import Padding
from rich.syntax import Syntax
from rich.table import Table
from rich.text import Text

from onegraph.diagnose import attributed, display_path
from onegraph.model import Findings, Outcome, Owner, Site, Trace
from onegraph.torch_private import registry
from onegraph.words import counted, first_line, runnable

WIDTH = 100
_REASONS_SHOWN = 5


class Patch(str):
    """A part of a page that is written exactly as it is: neither wrapped nor stripped."""


Page = Sequence[RenderableType]


def to_text(page: Page) -> str:
    """What a pipe gets: plain, 100 columns wide, no blanks at the ends of lines; patches as they are."""
    return "".join(part if isinstance(part, Patch) else _plain(part) for part in page)


def show(page: Page) -> None:
    """Print to stdout: in colour and as wide as the terminal there, else as ``to_text``."""
    console = Console(highlight=False)
    if not console.is_terminal:
        console.file.write(to_text(page))
        return
    for part in page:
        if isinstance(part, Patch):
            coloured = Syntax("", "diff", background_color="default").highlight(part)
            console.print(coloured, soft_wrap=True, end="")
        else:
            console.print(part)


def _plain(part: RenderableType) -> str:
    out = io.StringIO()
    Console(file=out, highlight=False, width=WIDTH, color_system=None).print(part)
    return "".join(f"{line.rstrip()}\n" for line in out.getvalue().splitlines())


def run_text(
    findings: Findings,
    target: str,
    *,
    verb: str = "run",
    next_step: str | None = None,
    torch: str | None = None,
) -> Page:
    """The whole report of ``onegraph run``; ``next_step`` replaces the usual next command. ``torch`` is the
    version that ran, where it isn't the installed one."""
    parts: list[RenderableType] = [head(findings, target, verb, torch)]
    if findings.sites:
        parts += [Text(), sites_table(findings.sites)]
    parts += [Padding(block, (1, 0, 0, 0)) for block in notices(findings)]
    parts += [Text(), following(next_step or usual_next(findings, target))]
    return parts


def head(findings: Findings, target: str, verb: str, torch: str | None = None) -> Text:
    """Two lines: what ran on what, and the totals."""
    trace = findings.trace
    text = Text()
    text.append(f"onegraph {verb}", style="bold")
    torch = torch or metadata.version("torch")
    text.append(f" · {target} · torch {torch} · {trace.seconds:.1f} s\n", style="dim")
    text.append(totals(findings), style="bold")
    return text


def totals(findings: Findings) -> str:
    """Graphs, sites and recompiles in one line."""
    trace, sites = findings.trace, findings.sites
    live = [site for site in sites if not site.intended]
    words = [counted(len(trace.graphs), "graph")]
    if live:
        behind = sum(site.outcome is Outcome.HIDDEN for site in live)
        hidden = f"; {behind} hidden behind another" if behind else ""
        words.append(f"{counted(len(live), 'break')} ({_whose_totals(live)}{hidden})")
    else:
        words.append("no break")
    if len(live) < len(sites):
        words.append(f"{len(sites) - len(live)} intended")
    if trace.recompiles:
        caused = sum(recompile.caused_by_break for recompile in trace.recompiles)
        share = "" if caused == len(trace.recompiles) else f"{caused} of them "
        extra = f" ({share}caused by breaks)" if caused else ""
        words.append(counted(len(trace.recompiles), "recompile") + extra)
    if trace.frames_given_up:
        words.append(f"{counted(len(set(trace.frames_given_up)), 'function')} left to eager")
    if trace.limits_reached:
        words.append(f"recompile limit reached {len(trace.limits_reached)}×")
    return " · ".join(words)


def sites_table(sites: Iterable[Site]) -> Table:
    """One row a site: position and function, the source, and why; how the graph ends; whose code; how
    often."""
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim", expand=True)
    table.add_column("kind", no_wrap=True)
    table.add_column("where", ratio=1, overflow="fold")
    table.add_column("the graph", no_wrap=True)
    for index, site in enumerate(sites):
        if index:
            table.add_row()
        style = "dim" if site.intended else "bold red"
        table.add_row(Text(site.kind, style=style), _where(site), _effect(site))
    return table


OUTCOMES = {
    Outcome.RESUMED: "resumes behind it",
    Outcome.REST_EAGER: "rest of frame eager",
    Outcome.FRAME_SKIPPED: "whole frame skipped",
    Outcome.HIDDEN: "hidden behind another",
}


def display_position(site: Site) -> str:
    """``file:line:col`` for people, counted from 1."""
    return f"{display_path(site.span.file)}:{site.span.line}:{site.span.column + 1}"


def whose(site: Site) -> str:
    if site.owner is Owner.USER:
        return "yours"
    return site.package or {Owner.STDLIB: "Python", Owner.TORCH: "torch"}.get(site.owner, "a dependency")


def function_name(qualified: str) -> str:
    """The user's function: ``outer.inner`` for a nested one."""
    return (
        qualified.replace("<locals>.", "").replace("<lambda>", "lambda").replace("<module>", "module level")
    )


def notices(findings: Findings) -> Iterator[RenderableType]:
    """What happened besides the breaks, one block each."""
    trace = findings.trace
    if trace.recompiles:
        yield _recompiles(findings)
    if trace.frames_given_up:
        yield block("left to eager", map(_short_place, dict.fromkeys(trace.frames_given_up)))
    if trace.limits_reached:
        yield block("recompile limit reached: eager from then on", map(_short_place, trace.limits_reached))
    if trace.disagreements:
        yield block("torch's own log tells something else", trace.disagreements)
    if trace.unseen:
        yield block("not looked at further", trace.unseen)
    if trace.error is not None:
        words = f"{type(trace.error).__name__}: {first_line(str(trace.error))}"
        yield block("an error was raised", [words])


def _short_place(place: str) -> str:
    """ "function (file:line)" with a path for people."""
    function, _, where = place.removesuffix(")").rpartition(" (")
    file, _, line = where.rpartition(":")
    return f"{function_name(function)}  {display_path(file)}:{line}" if file else place


def usual_next(findings: Findings, target: str) -> str:
    """The command that helps most now."""
    target = runnable(target)
    sites = [site for site in findings.sites if not site.intended]
    if not sites:
        return f"onegraph check {target}   keeps it so in CI (exit code 1 on a break)"
    foreign = all(site.owner is not Owner.USER for site in sites)
    fix = f"onegraph fix {target}" + (" --overlay overlay.py" if foreign else "")
    return f"{fix}   ·   onegraph explain {_topic(sites[0])}"


def _topic(site: Site) -> str:
    """What ``onegraph explain`` knows most about."""
    named = registry.id_of(site.breaks[0].gb_type) if site.kind == "other" and site.breaks else None
    return named or site.kind


def following(step: str) -> Text:
    return Text.assemble(("next: ", "bold"), (step, "green"))


def _where(site: Site) -> Text:
    link = "" if site.span.file.startswith("<") else f"link file://{site.span.file}"
    text = Text()
    text.append(display_position(site), style=link)
    text.append(f"  {function_name(site.function)}\n", style="dim")
    text.append(site.source or "(source not available)", style="cyan" if site.source else "dim italic")
    if site.reason:
        text.append(f"\n{site.reason}", style="dim")
    return text


def _effect(site: Site) -> Text:
    text = Text("breaks on purpose" if site.intended else OUTCOMES[site.outcome])
    often = "" if site.outcome is Outcome.HIDDEN else f" · {site.count}×"
    text.append(f"\n{whose(site)}{often}", style="dim")
    if site.recompiles:
        text.append(f"\n{counted(site.recompiles, 'recompile')}", style="yellow")
    return text


def _whose_totals(sites: Iterable[Site]) -> str:
    counts = Counter(whose(site) for site in sites)
    if list(counts) == ["yours"]:
        return "in your code"
    words = [f"{counts.pop('yours')} in your code"] if "yours" in counts else []
    return ", ".join(words + [f"{number} in {name}" for name, number in counts.most_common()])


def _recompiles(findings: Findings) -> RenderableType:
    rows: dict[str, Counter[str]] = {}
    for recompile, site in attributed(findings.trace.recompiles, findings.sites):
        function = f"{function_name(recompile.function)}  {display_path(recompile.file)}:{recompile.line}"
        why = plain_reason(recompile.reasons[0]) if recompile.reasons else "torch gives no reason"
        because = f" · goes with the break at line {site.span.line}" if site is not None else ""
        rows.setdefault(function, Counter())[why + because] += 1
    parts: list[RenderableType] = []
    for function, reasons in rows.items():
        parts.append(Text(f"recompiled  {function}", style="yellow"))
        lines = [why + (f" · {times}×" if times > 1 else "") for why, times in reasons.items()]
        more = len(lines) - _REASONS_SHOWN
        rest = [f"and {more} more; all are in --format json"] if more > 0 else []
        parts += [Padding(Text(line), (0, 0, 0, 2)) for line in lines[:_REASONS_SHOWN] + rest]
    return Group(*parts)


def plain_reason(reason: str) -> str:
    """A failed guard without Dynamo's numbering and source notes: ``n == 3``."""
    reason = re.sub(r"^\s*\d+/\d+:\s*", "", reason)
    reason = reason.split("User stack trace:")[0].split("  # ")[0].split(" # ")[0]
    reason = re.sub(r"___stack\d+", "the value handed over", reason)
    return " ".join(reason.split())


def block(title: str, lines: Iterable[str]) -> RenderableType:
    """A title and indented lines."""
    return Group(Text(title, style="yellow"), *(Padding(Text(line), (0, 0, 0, 2)) for line in lines))


def nothing_compiled(target: str, trace: Trace, why: str, step: str) -> Page:
    """Exit code 5: a report that must not look like a pass."""
    return (
        Text.assemble(("onegraph", "bold"), (f" · {target} · {trace.seconds:.1f} s", "dim")),
        Text("nothing was compiled", style="bold red"),
        Text(why),
        following(step),
    )
