"""The breaks of a report as a linter's problems: one list for every format that has lines and messages."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

import msgspec

from onegraph.gate.keys import LIMIT, fingerprint, limit_key
from onegraph.report.rows import AnyReport, CheckReport, FixReport, Observed, RepairRow, SiteRow, sites_of
from onegraph.words import counted, runnable

ERROR, WARNING, NOTE = "error", "warning", "note"
_OURS = "user"
_CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")


class Problem(msgspec.Struct, frozen=True):
    """Lines and columns count from 1; columns are characters. ``path`` is relative to the project, or to the
    folder of packages where ``whose`` names one."""

    kind: str
    level: str
    path: str
    whose: str  # "" for the user's code, else the package
    line: int
    column: int
    end_line: int
    end_column: int
    function: str
    source: str
    message: str  # what happens, one sentence
    next_step: str
    fingerprint: str
    standing: str
    note: str
    site: SiteRow | None = None
    repair: RepairRow | None = None

    @property
    def counts(self) -> bool:
        return self.level != NOTE


def problems(report: AnyReport) -> list[Problem]:
    """Of a fix: what was there before, with what became of it."""
    seen: Observed = report.before if isinstance(report, FixReport) else report
    repairs = report.repairs if isinstance(report, FixReport) else ()
    level = ERROR if isinstance(report, CheckReport) else WARNING
    found = [_problem(site, level, _repair(site, repairs), report.target) for site in sites_of(report)]
    return found + [_limit(place, level, _accepted(place, report)) for place in seen.limits_reached]


def observed_of(report: AnyReport) -> Observed:
    """What was seen of the program as it is."""
    return report.before if isinstance(report, FixReport) else report


def nothing_compiled(report: AnyReport) -> bool:
    seen = observed_of(report)
    return not seen.graphs and not seen.sites


def summary(report: AnyReport) -> str:
    """One line of totals, and for a check whether it passed."""
    if nothing_compiled(report):
        return "nothing was compiled"
    if isinstance(report, FixReport):
        words = f"{counted(report.before.graphs, 'graph')} → {report.after.graphs}, "
        words += f"{counted(_live(report.before), 'break')} → {_live(report.after)}"
        return words + (", verified" if report.verified and report.changes else "")
    breaks = len(report.sites) if isinstance(report, CheckReport) else _live(report)
    words = f"{counted(report.graphs, 'graph')}, {counted(breaks, 'break')}"
    words += f", {counted(len(report.recompiles), 'recompile')}" if report.recompiles else ""
    if isinstance(report, CheckReport):
        accepted = f" ({report.gate.accepted} accepted)" if report.gate.accepted else ""
        return f"{'passed' if report.gate.passed else 'failed'}: {words}{accepted}"
    return words


def character(line: str, column: int) -> int:
    """A column of UTF-8 bytes, from 1, as one of characters."""
    return len(line.encode()[: column - 1].decode(errors="ignore")) + 1


def printable(text: str) -> str:
    """Text of a program without what steers a terminal."""
    return _CONTROL.sub("\N{REPLACEMENT CHARACTER}", text)


def _live(seen: Observed) -> int:
    return sum(not site.intended for site in seen.sites)


def _repair(site: SiteRow, repairs: Sequence[RepairRow]) -> RepairRow | None:
    same = (site.kind, site.file, site.line, site.column)
    return next((each for each in repairs if (each.kind, each.file, each.line, each.column) == same), None)


def _problem(site: SiteRow, level: str, repair: RepairRow | None, target: str) -> Problem:
    return Problem(
        kind=site.kind,
        level=level if site.standing == "new" else NOTE,
        path=printable(site.key.file or site.file),
        whose="" if site.owner == _OURS else printable(site.package or site.owner),
        line=site.line,
        column=character(_line(site, site.line), site.column),
        end_line=site.end_line,
        end_column=character(_line(site, site.end_line), site.end_column),
        function=printable(site.function.replace("<locals>.", "")),
        source=printable(site.source),
        message=printable(site.reason) or "The graph breaks here.",
        next_step=_next_step(site, repair, target),
        fingerprint=site.fingerprint,
        standing=site.standing,
        note=site.note,
        site=site,
        repair=repair,
    )


def _line(site: SiteRow, number: int) -> str:
    at = number - site.excerpt.first
    return site.excerpt.lines[at] if 0 <= at < len(site.excerpt.lines) else ""


def _next_step(site: SiteRow, repair: RepairRow | None, target: str) -> str:
    if repair is not None and repair.status == "applied":
        return printable(repair.title)
    if repair is not None and repair.next_step:
        return printable(repair.next_step)
    return printable(f"onegraph fix {runnable(target)}, or onegraph explain {site.kind}")


def _limit(place: str, level: str, accepted: bool) -> Problem:
    key = limit_key(place, Path.cwd())
    line = place.removesuffix(")").rpartition(":")[2]
    number = int(line) if line.isdigit() else 1
    return Problem(
        kind=LIMIT,
        level=NOTE if accepted else level,
        path=printable(key.file or "<unknown>"),
        whose="",
        line=number,
        column=1,
        end_line=number,
        end_column=1,
        function=printable(key.function),
        source="",
        message="The recompile limit was reached; from then on the function runs eagerly.",
        next_step="mark what varies as dynamic, or make it a tensor",
        fingerprint=fingerprint(key),
        standing="baselined" if accepted else "new",
        note="",
    )


def _accepted(place: str, report: AnyReport) -> bool:
    return isinstance(report, CheckReport) and not any(place in each for each in report.gate.problems)
