"""What is said when one graph can't be had: every site left, why, and the next step."""

from __future__ import annotations

from dataclasses import dataclass, replace

from onegraph.diagnose.owner import display_path
from onegraph.mend.loop import RECOUNT
from onegraph.model import FixResult, Repair, Site, Span, Status
from onegraph.rewrite.pairing import real_path, user_lines
from onegraph.words import counted, first_line


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
        head = f"{place}  {self.kind}  {self.source}".rstrip()
        return f"{head}\n    {self.reason}\n    next: {self.next_step}"


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

    def again(self) -> GraphBreaksLeft:
        """An equal error, with no traceback yet."""
        return GraphBreaksLeft(self.program, self.sites, self.result)


class GraphBreaksLeftWarning(UserWarning):
    """``onegraph.compile(..., strict=False)`` runs a program in more than one graph."""


def description(program: str, sites: tuple[Left, ...]) -> str:
    """One line on the program, then three lines a site."""
    count = counted(len(sites), "graph break")
    return "\n".join([f"{program} is not one graph: {count} left", *map(str, sites)])


def failed(program: str, error: Exception) -> str:
    """One line on a program at which the compiler fails, though it runs without."""
    return f"{program} is not one graph: the compiler fails: {type(error).__name__}: {first_line(str(error))}"


def left(result: FixResult) -> tuple[Left, ...]:
    """The sites of a mended program that still break; what was tried tells why."""
    found: dict[tuple[str, int, str], Left] = {}
    for site in result.after.sites:
        span = _users(site.span, result)
        tried = [
            each for each in result.repairs if each.status is not Status.APPLIED and _same(each, site, span)
        ]
        one = _left(site, span, tried[0] if tried else None)
        found.setdefault((span.file, span.line, site.kind), one)
    return tuple(found.values())


def unproven(result: FixResult) -> tuple[Left, ...]:
    """The sites of a program whose mend was not verified; none where it was.

    Breaks that are left are no such case: what was mended is right for all that.
    """
    checks = [check for check in result.evidence.checks if not check.name.startswith(RECOUNT)]
    doubts = "; ".join(f"{check.name}: {check.detail}" for check in checks if check.passed is not True)
    if not result.changes or (checks and not doubts):
        return ()
    reason = f"mended, but not verified ({doubts or 'nothing was compared'})"
    return tuple(_left(site, site.span, None, reason) for site in result.before.sites)


def elsewhere(result: FixResult | None) -> tuple[Left, ...]:
    """The sites of a program that was mended for other calls, where nothing breaks on this one."""
    reason = "mended for other calls, and not right for calls of this sort (dtypes, Python types, modes)"
    lefts = [_left(site, site.span, None, reason) for site in result.before.sites] if result else []
    return tuple(
        replace(each, next_step="Compile it apart for them: onegraph.compile once more.") for each in lefts
    )


def _left(site: Site, span: Span, repair: Repair | None, reason: str = "") -> Left:
    return Left(
        kind=site.kind,
        file=span.file,
        line=span.line,
        column=span.column + 1,
        function=site.function,
        source=first_line(site.source),
        reason=reason or (repair.reason if repair is not None else "") or site.reason,
        next_step=(repair.next_step if repair is not None else "") or f"onegraph explain {site.kind}",
    )


def _same(repair: Repair, site: Site, span: Span) -> bool:
    known = repair.site
    return known.kind == site.kind and (known.span.file, known.span.line) == (span.file, span.line)


def _users(span: Span, result: FixResult) -> Span:
    """The span in the user's file: sites found after mending have lines of the mended text."""
    path = real_path(span.file)
    change = next((each for each in result.changes if each.path == path), None)
    if change is None:
        return replace(span, file=path)
    lines = user_lines(change.original, change.mended)
    line, end = (lines[at][0] if at < len(lines) else at for at in (span.line, span.end_line))
    return replace(span, file=path, line=line, end_line=end)
