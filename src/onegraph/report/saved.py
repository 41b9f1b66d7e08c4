"""A saved report becomes findings again, for the pages that people read. Imports no torch."""

from __future__ import annotations

from collections.abc import Sequence

from onegraph.model import (
    Break,
    Check,
    Evidence,
    FileChange,
    Findings,
    FixResult,
    Graph,
    Judged,
    Key,
    Level,
    Limits,
    Outcome,
    Owner,
    Recompile,
    Repair,
    Site,
    Span,
    Standing,
    Status,
    Trace,
    Verdict,
)
from onegraph.report.check_text import check_text
from onegraph.report.fix_text import fix_text
from onegraph.report.problems import nothing_compiled
from onegraph.report.rows import (
    AnyReport,
    CheckReport,
    EvidenceRow,
    FixReport,
    KeyRow,
    Observed,
    RepairRow,
    SiteRow,
)
from onegraph.report.text import Page, run_text
from onegraph.report.text import nothing_compiled as nothing_compiled_text


def page(report: AnyReport) -> Page:
    """What the command that wrote the report showed in its terminal."""
    if isinstance(report, FixReport):
        return fix_text(_fix(report), report.target, report.diff, torch=report.torch)
    found = _findings(report)
    if nothing_compiled(report):
        return nothing_compiled_text(report.target, found.trace, "No graph was made.", "see the command")
    if isinstance(report, CheckReport):
        return check_text(found, _verdict(report, found), report.target, torch=report.torch)
    return run_text(found, report.target, torch=report.torch)


def _findings(seen: Observed) -> Findings:
    recompiles = tuple(
        Recompile(each.function, each.file, each.line, tuple(each.reasons), each.caused_by_break)
        for each in seen.recompiles
    )
    trace = Trace(
        graphs=tuple(Graph(each.function, each.file, each.line, each.nodes) for each in seen.graph_list),
        recompiles=recompiles,
        frames_given_up=tuple(seen.frames_given_up),
        limits_reached=tuple(seen.limits_reached),
        disagreements=tuple(seen.disagreements),
        compiled_calls=seen.compiled_calls,
        error=None if seen.error is None else _error(seen.error),
        seconds=seen.seconds,
        unseen=tuple(seen.unseen),
    )
    return Findings(tuple(_site(row) for row in seen.sites), trace)


def _error(words: str) -> BaseException:
    """An exception that reads as the one that was saved, "Name: message"."""
    name, _, message = words.partition(": ")
    error: BaseException = type(name, (Exception,), {})(message)
    return error


def _site(row: SiteRow) -> Site:
    outcome = Outcome(row.outcome)
    return Site(
        kind=row.kind,
        span=Span(row.file, row.line, row.column - 1, row.end_line, row.end_column - 1),
        source=row.source,
        function=row.function,
        outcome=outcome,
        owner=Owner(row.owner),
        package=row.package,
        count=row.count,
        recompiles=row.recompiles,
        intended=row.intended,
        reason=row.reason,
        breaks=tuple(Break(cause, "", outcome, ()) for cause in row.causes),
    )


def _verdict(report: CheckReport, found: Findings) -> Verdict:
    gate = report.gate
    judged = tuple(
        Judged(site, _key(row.key), Standing(row.standing), row.note)
        for row, site in zip(report.sites, found.sites, strict=True)
    )
    return Verdict(
        judged=judged,
        gone=tuple(_key(row) for row in gate.gone),
        unused=tuple(gate.unused_suppressions),
        faulty=tuple(gate.faulty_suppressions),
        recompiles=gate.recompiles,
        limits=Limits(gate.limits.get("breaks") or 0, gate.limits.get("recompiles")),
        compiled=True,
        problems=tuple(gate.problems),
    )


def _key(row: KeyRow) -> Key:
    return Key(row.kind, row.file, row.function, row.statement, row.occurrence)


def _fix(report: FixReport) -> FixResult:
    return FixResult(
        program=report.target,
        before=_findings(report.before),
        after=_findings(report.after),
        repairs=tuple(_repair(row, report.before.sites) for row in report.repairs),
        changes=tuple(FileChange(c.file, c.original, c.mended, tuple(c.functions)) for c in report.changes),
        evidence=_evidence(report.evidence),
        seconds=report.seconds,
    )


def _repair(row: RepairRow, sites: Sequence[SiteRow]) -> Repair:
    same = (row.kind, row.file, row.line, row.column)
    known = next(
        (_site(each) for each in sites if (each.kind, each.file, each.line, each.column) == same), None
    )
    return Repair(
        site=_site(row.site) if row.site is not None else known or _unseen(row),
        status=Status(row.status),
        kind=row.kind,
        level=None if row.level is None else Level(row.level),
        title=row.title,
        reason=row.reason,
        notes=tuple(row.notes),
        next_step=row.next_step,
        evidence=_evidence(row.evidence),
    )


def _unseen(row: RepairRow) -> Site:
    """A report of an older onegraph doesn't hold the sites that showed only while mending."""
    span = Span(row.file, row.line, row.column - 1, row.line, row.column - 1)
    return Site(
        kind=row.kind,
        span=span,
        source=row.source,
        function=row.function,
        outcome=Outcome.HIDDEN,
        owner=Owner.USER,
        package="",
        count=1,
        recompiles=0,
        intended=False,
        reason="",
    )


def _evidence(row: EvidenceRow) -> Evidence:
    return Evidence(
        checks=tuple(Check(each.name, each.passed, each.detail) for each in row.checks),
        inputs=row.inputs,
        max_abs=float("nan") if row.max_abs is None else row.max_abs,
        max_rel=float("nan") if row.max_rel is None else row.max_rel,
        seconds=row.seconds,
    )
