"""Two reports side by side: which breaks came, which went. Two commits, two versions of torch, before and
after."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec
from rich.console import RenderableType
from rich.text import Text

from onegraph.report.json import indented
from onegraph.report.markdown import plain
from onegraph.report.problems import nothing_compiled, observed_of
from onegraph.report.rows import AnyReport, Observed, SiteRow
from onegraph.report.text import Page, block
from onegraph.words import counted


class SideRow(msgspec.Struct, frozen=True):
    target: str
    torch: str
    onegraph: str
    graphs: int
    breaks: int
    recompiles: int
    limits_reached: int
    seconds: float


class Comparison(msgspec.Struct, frozen=True, tag="compare", tag_field="command"):
    version: int
    before: SideRow
    after: SideRow
    came: list[SiteRow]
    went: list[SiteRow]
    stayed: int
    worse: list[str]  # why the second one is worse; empty where it isn't


def compared(before: AnyReport, after: AnyReport) -> Comparison:
    """Breaks are matched by their fingerprints, so lines may move between the two."""
    one, two = observed_of(before), observed_of(after)
    old = {site.fingerprint for site in one.sites}
    new = {site.fingerprint for site in two.sites}
    came = [site for site in two.sites if site.fingerprint not in old]
    return Comparison(
        version=after.version,
        before=_side(before, one),
        after=_side(after, two),
        came=came,
        went=[site for site in one.sites if site.fingerprint not in new],
        stayed=len(old & new),
        worse=_worse(one, two, came, after),
    )


def _side(report: AnyReport, seen: Observed) -> SideRow:
    return SideRow(
        target=report.target,
        torch=report.torch,
        onegraph=report.onegraph,
        graphs=seen.graphs,
        breaks=len(seen.sites),
        recompiles=len(seen.recompiles),
        limits_reached=len(seen.limits_reached),
        seconds=seen.seconds,
    )


def _worse(one: Observed, two: Observed, came: list[SiteRow], after: AnyReport) -> list[str]:
    live = [site for site in came if not site.intended]
    words = []
    if nothing_compiled(after):
        words.append("nothing was compiled")
    if live:
        words.append(counted(len(live), "new break"))
    if len(two.recompiles) > len(one.recompiles):
        words.append(f"{counted(len(two.recompiles), 'recompile')} instead of {len(one.recompiles)}")
    if len(two.limits_reached) > len(one.limits_reached):
        words.append("a recompile limit is reached")
    return words


def text(comparison: Comparison) -> Page:
    before, after = comparison.before, comparison.after
    parts: list[RenderableType] = [
        Text.assemble(("onegraph compare", "bold"), (f" · {_name(before, after)}", "dim")),
        Text(" · ".join(_numbers(before, after)), style="bold"),
    ]
    for title, sites in (("came", comparison.came), ("went", comparison.went)):
        if sites:
            parts += [Text(), block(f"{title}: {counted(len(sites), 'break')}", _lines(sites))]
    if comparison.worse:
        end = Text(f"worse: {', '.join(comparison.worse)}", style="bold red")
    else:
        end = Text(f"not worse: {counted(comparison.stayed, 'break')} stayed", style="bold green")
    return [*parts, Text(), end]


def markdown(comparison: Comparison) -> str:
    """For a comment on a pull request."""
    before, after = comparison.before, comparison.after
    end = f"worse: {', '.join(comparison.worse)}" if comparison.worse else "not worse"
    numbers = " · ".join(_numbers(before, after))
    parts = [f"### onegraph: {plain(_name(before, after))}", f"**{plain(end)}** · {numbers}"]
    for title, sites in (("came", comparison.came), ("went", comparison.went)):
        parts += (
            ["\n".join([f"{title}:", "", *(f"- {plain(line)}" for line in _lines(sites))])] if sites else []
        )
    return "\n\n".join(parts) + "\n"


def json(comparison: Comparison) -> str:
    return indented(comparison)


def _name(before: SideRow, after: SideRow) -> str:
    names = before.target if before.target == after.target else f"{before.target} → {after.target}"
    torch = before.torch if before.torch == after.torch else f"{before.torch} → {after.torch}"
    return f"{names} · torch {torch}"


def _numbers(before: SideRow, after: SideRow) -> list[str]:
    pairs = (
        ("graphs", before.graphs, after.graphs),
        ("breaks", before.breaks, after.breaks),
        ("recompiles", before.recompiles, after.recompiles),
    )
    return [f"{name} {one} → {two}" for name, one, two in pairs]


def _lines(sites: Iterable[SiteRow]) -> list[str]:
    return [
        f"{site.key.file or site.file}:{site.line}:{site.column}  {site.kind}  {site.source}"
        + (" (intended)" if site.intended else "")
        for site in sites
    ]
