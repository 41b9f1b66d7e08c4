"""What is said when one graph can't be had: every site left, why, and the next step."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from onegraph.diagnose.owner import display_path
from onegraph.model import FixResult, Repair, Site, Span, Status
from onegraph.rewrite.pairing import real_path, user_lines


@dataclass(frozen=True, slots=True)
class Left:
    """One site that still breaks the graph. ``line`` and ``column`` count from 1, in the user's file."""

    kind: str
    file: str
    line: int
    column: int
    function: str
    source: str
    reason: str
    next_step: str

    def __str__(self) -> str:
        place = f"{display_path(self.file)}:{self.line}:{self.column}"
        return f"{place}  {self.kind}  {self.source}\n    {self.reason}\n    next: {self.next_step}"


class GraphBreaksLeft(RuntimeError):
    """The program breaks the graph at ``sites``, and no verified repair removes them. The call did not run.

    ``result`` has everything that was tried.
    """

    def __init__(self, program: str, sites: tuple[Left, ...], result: FixResult | None = None) -> None:
        super().__init__(program, sites, result)
        self.program = program
        self.sites = sites
        self.result = result

    def __str__(self) -> str:
        return description(self.program, self.sites)


class GraphBreaksLeftWarning(UserWarning):
    """``onegraph.compile(..., strict=False)`` runs a program in more than one graph."""


def description(program: str, sites: tuple[Left, ...]) -> str:
    """One line on the program, then three lines a site."""
    count = f"{len(sites)} graph break{'' if len(sites) == 1 else 's'}"
    return "\n".join([f"{program} is not one graph: {count} left", *map(str, sites)])


def left(result: FixResult) -> tuple[Left, ...]:
    """The sites of a mended program that still break; what was tried tells why."""
    tried = {_place(each.site, result): each for each in result.repairs if each.status is not Status.APPLIED}
    return tuple(
        _left(site, tried.get(_place(site, result)), result) for site in _unique(result.after.sites, result)
    )


def _unique(sites: Iterable[Site], result: FixResult) -> Iterator[Site]:
    seen: dict[Span, Site] = {}
    for site in sites:
        seen.setdefault(_place(site, result), site)
    return iter(seen.values())


def _left(site: Site, repair: Repair | None, result: FixResult) -> Left:
    span = _place(site, result)
    reason = repair.reason if repair is not None and repair.reason else site.reason
    step = repair.next_step if repair is not None else ""
    return Left(
        kind=site.kind,
        file=span.file,
        line=span.line,
        column=span.column + 1,
        function=site.function,
        source=site.source.strip().partition("\n")[0],
        reason=reason,
        next_step=step or f"onegraph explain {site.kind}",
    )


def _place(site: Site, result: FixResult) -> Span:
    """The span in the user's file: a site may stand in the mended text, whose lines are others."""
    if site.span.file == real_path(site.span.file):
        return site.span
    path = real_path(site.span.file)
    change = next((each for each in result.changes if each.path == path), None)
    lines: Mapping[int, tuple[int, bool]] = (
        dict(enumerate(user_lines(change.original, change.mended))) if change is not None else {}
    )
    line, end = (lines.get(at, (at, True))[0] for at in (site.span.line, site.span.end_line))
    return Span(path, line, site.span.column, end, site.span.end_column)
