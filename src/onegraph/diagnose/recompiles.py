"""Which site causes which recompile."""

from __future__ import annotations

import re
from collections.abc import Sequence

from onegraph.diagnose.source import statement_line
from onegraph.model import Outcome, Recompile, Site

_NAME = re.compile(r"[A-Za-z_]\w*")
_RESUMED = re.compile(
    r"torch_dynamo_resume_in_\w+_at_(\d+)"
)  # how torch names the code behind the break on a line


def attributed(recompiles: Sequence[Recompile], sites: Sequence[Site]) -> list[tuple[Recompile, Site | None]]:
    """Each recompile with the site that causes it, or None where it has a cause of its own.

    A recompile caused by a break guards on a value that the break handed to the code behind it. Its site
    stands in the recompiled function, or is reached through a call in it; of several, the one that assigns
    the guarded name, else the one on the line behind which the recompiled code begins.
    """
    return [(recompile, _cause(recompile, sites)) for recompile in recompiles]


def _cause(recompile: Recompile, sites: Sequence[Site]) -> Site | None:
    if not recompile.caused_by_break:
        return None
    inside = [
        (line, site)
        for site in sites
        if site.outcome is not Outcome.HIDDEN and (line := _line_in(site, recompile)) is not None
    ]
    guarded = {name for reason in recompile.reasons for name in _NAME.findall(reason.split("#", 1)[0])}
    assigning = [(line, site) for line, site in inside if guarded & _assigned(recompile.file, line)]
    begins = {int(line) for reason in recompile.reasons for line in _RESUMED.findall(reason)}
    handing = [(line, site) for line, site in inside if line in begins]
    resumed = [(line, site) for line, site in inside if site.outcome is Outcome.RESUMED]
    best = assigning or handing or resumed or inside
    return min(best, key=lambda pair: pair[0])[1] if best else None


def _assigned(file: str, line: int) -> set[str]:
    """Names left of ``=`` on a line: enough to tell the sites of one function apart."""
    left, equals, _ = statement_line(file, line).partition(" = ")
    return set(_NAME.findall(left)) if equals else set()


def _line_in(site: Site, recompile: Recompile) -> int | None:
    """The line of the recompiled function on which the site, or the call that leads to it, stands."""
    here = (recompile.file, recompile.function)
    if (site.span.file, site.function) == here:
        return site.span.line
    for break_ in site.breaks:
        for frame in break_.stack:
            if (frame.span.file, frame.function) == here:
                return frame.span.line
    return None
