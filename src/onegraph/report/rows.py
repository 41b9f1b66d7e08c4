"""The report as data: what every format is made from, and what the JSON reports hold.

Lines and columns are counted from 1; columns are UTF-8 bytes, and an end column is the last one of the
expression's text plus 1. ``version`` grows when a field is removed or changes its meaning; new fields may
come without that.
"""

from __future__ import annotations

import platform
import sys
from collections.abc import Sequence
from importlib import metadata
from pathlib import Path
from typing import Any

import msgspec

from onegraph.diagnose import attributed
from onegraph.diagnose.source import text_of
from onegraph.gate.keys import fingerprint, keys_of
from onegraph.gate.statement import statement_at
from onegraph.model import (
    MENDED,
    Evidence,
    FileChange,
    Findings,
    FixResult,
    Key,
    Repair,
    Site,
    Span,
    Standing,
    Trace,
    Verdict,
)
from onegraph.report.calls import CallRow, calls_of
from onegraph.report.verdict import same_results, verified

VERSION = 1
CONTEXT = 3  # lines of source around a site


class KeyRow(msgspec.Struct, frozen=True):
    """What a site is called from one run to the next, and in the baseline."""

    kind: str
    file: str
    function: str
    statement: str
    occurrence: int


class ExcerptRow(msgspec.Struct, frozen=True):
    """Source around a site. ``first`` is the number of the first line."""

    first: int
    lines: list[str]


class SiteRow(msgspec.Struct, frozen=True):
    kind: str
    file: str
    line: int
    column: int
    end_line: int
    end_column: int
    source: str
    function: str
    outcome: str
    owner: str
    package: str
    count: int
    recompiles: int
    intended: bool
    reason: str
    causes: list[str]  # Dynamo's names of the causes (gb_type)
    key: KeyRow = KeyRow("", "", "", "", 0)
    fingerprint: str = ""  # of the key: follows the statement through edits elsewhere
    excerpt: ExcerptRow = ExcerptRow(0, [])
    standing: str = "new"  # how the gate takes it: new, baselined, suppressed, ignored or intended
    note: str = ""  # why the gate lets it pass


class RecompileRow(msgspec.Struct, frozen=True):
    function: str
    file: str
    line: int
    reasons: list[str]
    caused_by_break: bool
    site: int | None = None  # position in ``sites`` of the break that causes it


class GraphRow(msgspec.Struct, frozen=True):
    function: str
    file: str
    line: int
    nodes: int


class Observed(msgspec.Struct, frozen=True):
    graphs: int
    sites: list[SiteRow]
    graph_list: list[GraphRow]
    recompiles: list[RecompileRow]
    frames_given_up: list[str]
    limits_reached: list[str]
    disagreements: list[str]
    compiled_calls: int
    error: str | None
    seconds: float
    unseen: list[str] = []  # where looking behind the breaks ended early
    calls: list[CallRow] = []  # what was compiled, in time order


class CheckRow(msgspec.Struct, frozen=True):
    name: str
    passed: bool | None  # null: could not be verified
    detail: str


class EvidenceRow(msgspec.Struct, frozen=True):
    verified: bool
    inputs: int
    max_abs: float | None
    max_rel: float | None
    seconds: float
    checks: list[CheckRow]


class RepairRow(msgspec.Struct, frozen=True):
    kind: str
    level: str | None
    file: str
    line: int
    column: int
    status: str
    title: str
    reason: str
    notes: list[str]
    next_step: str
    evidence: EvidenceRow
    function: str = ""
    source: str = ""
    fingerprint: str = ""
    site: SiteRow | None = None  # where it is not one of those seen before mending


class ChangeRow(msgspec.Struct, frozen=True):
    file: str
    functions: list[str]
    original: str
    mended: str


class GateRow(msgspec.Struct, frozen=True):
    """What ``onegraph check`` decided."""

    passed: bool
    problems: list[str]  # why it doesn't pass
    new: int
    accepted: int  # in the baseline, suppressed, ignored, or intended
    recompiles: int  # those that count against the limit
    limits: dict[str, int | None]
    gone: list[KeyRow]  # entries of the baseline whose break is no more
    unused_suppressions: list[str]
    faulty_suppressions: list[str]


class RunReport(Observed, frozen=True, tag="run", tag_field="command", kw_only=True):
    version: int
    target: str
    onegraph: str
    torch: str
    python: str
    platform: str = ""
    arguments: list[str] = []  # the command


class CheckReport(RunReport, frozen=True, tag="check", tag_field="command", kw_only=True):
    gate: GateRow


class FixReport(msgspec.Struct, frozen=True, tag="fix", tag_field="command", kw_only=True):
    version: int
    target: str
    onegraph: str
    torch: str
    python: str
    before: Observed
    after: Observed
    repairs: list[RepairRow]
    verified: bool
    evidence: EvidenceRow
    changes: list[ChangeRow]
    diff: str
    seconds: dict[str, float]
    platform: str = ""
    arguments: list[str] = []


def sites_of(report: RunReport | FixReport) -> list[SiteRow]:
    """Every site of a report, worst first; of a fix those too that showed only while it was mended."""
    if isinstance(report, FixReport):
        return [*report.before.sites, *(each.site for each in report.repairs if each.site is not None)]
    return report.sites


AnyReport = RunReport | CheckReport | FixReport


def run_report(findings: Findings, target: str) -> RunReport:
    """What ``onegraph run`` found."""
    return RunReport(**_header(target), **_fields(observed(findings)))


def check_report(findings: Findings, verdict: Verdict, target: str, root: Path) -> CheckReport:
    """What ``onegraph check`` found and decided. Paths in keys are relative to ``root``."""
    seen = _fields(observed(findings, root))
    seen["sites"] = [
        msgspec.structs.replace(row, standing=each.standing.value, note=each.note)
        for row, each in zip(seen["sites"], verdict.judged, strict=True)
    ]
    new = len(verdict.new)
    gate = GateRow(
        passed=verdict.passed,
        problems=list(verdict.problems),
        new=new,
        accepted=len(verdict.judged) - new,
        recompiles=verdict.recompiles,
        limits={"breaks": verdict.limits.breaks, "recompiles": verdict.limits.recompiles},
        gone=[key_row(key) for key in verdict.gone],
        unused_suppressions=list(verdict.unused),
        faulty_suppressions=list(verdict.faulty),
    )
    return CheckReport(**_header(target), **seen, gate=gate)


def fix_report(result: FixResult, target: str, diff: str) -> FixReport:
    """What ``onegraph fix`` did; ``diff`` is the patch over all changed files."""
    return FixReport(
        **_header(target),
        before=observed(result.before),
        after=observed(result.after),
        repairs=[
            repair_row(repair, key, known=_place(repair.site) in map(_place, result.before.sites))
            for repair, key in zip(result.repairs, repair_keys(result), strict=True)
        ],
        verified=verified(result),
        evidence=evidence_row(result.evidence),
        changes=[change_row(change) for change in result.changes],
        diff=diff,
        seconds={stage: round(seconds, 4) for stage, seconds in result.seconds.items()},
    )


def observed(findings: Findings, root: Path | None = None) -> Observed:
    trace: Trace = findings.trace
    keys = keys_of(findings.sites, root or Path.cwd())
    return Observed(
        graphs=len(trace.graphs),
        sites=[site_row(site, key) for site, key in zip(findings.sites, keys, strict=True)],
        graph_list=[GraphRow(g.function, g.file, g.line, g.nodes) for g in trace.graphs],
        recompiles=[
            RecompileRow(
                r.function,
                r.file,
                r.line,
                list(r.reasons),
                r.caused_by_break,
                _position(cause, findings.sites),
            )
            for r, cause in attributed(trace.recompiles, findings.sites)
        ],
        frames_given_up=list(trace.frames_given_up),
        limits_reached=list(trace.limits_reached),
        disagreements=list(trace.disagreements),
        compiled_calls=trace.compiled_calls,
        error=None if trace.error is None else f"{type(trace.error).__name__}: {trace.error}",
        seconds=round(trace.seconds, 4),
        unseen=list(trace.unseen),
        calls=calls_of(findings),
    )


def _fields(row: msgspec.Struct) -> dict[str, Any]:
    return {name: getattr(row, name) for name in row.__struct_fields__}


def _position(site: Site | None, sites: Sequence[Site]) -> int | None:
    return None if site is None else list(sites).index(site)


def key_row(key: Key) -> KeyRow:
    return KeyRow(key.kind, key.file, key.function, key.statement, key.occurrence)


def site_row(site: Site, key: Key) -> SiteRow:
    span = site.span
    return SiteRow(
        kind=site.kind,
        file=span.file,
        line=span.line,
        column=span.column + 1,
        end_line=span.end_line,
        end_column=span.end_column + 1,
        source=site.source,
        function=site.function,
        outcome=site.outcome.value,
        owner=site.owner.value,
        package=site.package,
        count=site.count,
        recompiles=site.recompiles,
        intended=site.intended,
        reason=site.reason,
        causes=_unique(break_.gb_type for break_ in site.breaks),
        key=key_row(key),
        fingerprint=fingerprint(key),
        excerpt=excerpt(site),
        standing=(Standing.INTENDED if site.intended else Standing.NEW).value,
    )


def excerpt(site: Site) -> ExcerptRow:
    """The statement of a site and some lines around it."""
    lines = text_of(site.span.file.removeprefix(MENDED)).splitlines()
    statement = statement_at(site.span, site.source)
    first = max(1, statement.first - CONTEXT)
    last = min(len(lines), max(statement.last, site.span.end_line) + CONTEXT)
    return ExcerptRow(first, lines[first - 1 : last])


def repair_row(repair: Repair, key: Key, *, known: bool = True) -> RepairRow:
    span = repair.site.span
    return RepairRow(
        kind=repair.kind,
        level=None if repair.level is None else repair.level.value,
        file=span.file,
        line=span.line,
        column=span.column + 1,
        status=repair.status.value,
        title=repair.title,
        reason=repair.reason,
        notes=list(repair.notes),
        next_step=repair.next_step,
        evidence=evidence_row(repair.evidence),
        function=repair.site.function,
        source=repair.site.source,
        fingerprint=fingerprint(key),
        site=None if known else site_row(repair.site, key),
    )


def evidence_row(evidence: Evidence) -> EvidenceRow:
    return EvidenceRow(
        verified=same_results(evidence),
        inputs=evidence.inputs,
        max_abs=evidence.max_abs,
        max_rel=evidence.max_rel,
        seconds=round(evidence.seconds, 4),
        checks=[CheckRow(check.name, check.passed, check.detail) for check in evidence.checks],
    )


def change_row(change: FileChange) -> ChangeRow:
    return ChangeRow(change.path, list(change.functions), change.original, change.mended)


def _header(target: str) -> dict[str, Any]:
    return {
        "version": VERSION,
        "target": target,
        "onegraph": metadata.version("onegraph"),
        "torch": metadata.version("torch"),
        "python": platform.python_version(),
        "platform": platform.platform(),
        "arguments": [_program(sys.argv[0]), *sys.argv[1:]],
    }


def _program(path: str) -> str:
    """``onegraph``, also when it was started by ``python -m``; in a test run it is pytest."""
    name = Path(path).name
    return (Path(path).parent.name if name == "__main__.py" else name) or "python"


def repair_keys(result: FixResult) -> list[Key]:
    """The keys of the repaired sites. A site that showed only while mending counts after those before it."""
    sites = {_place(site): site for site in result.before.sites}
    for repair in result.repairs:  # a site looks otherwise when it was met again: its place tells it
        sites.setdefault(_place(repair.site), repair.site)
    keys = dict(zip(sites, keys_of(list(sites.values()), Path.cwd()), strict=True))
    return [keys[_place(repair.site)] for repair in result.repairs]


def _place(site: Site) -> tuple[str, Span]:
    return (site.kind, site.span)


def _unique(words: Any) -> list[str]:
    return list(dict.fromkeys(words))
