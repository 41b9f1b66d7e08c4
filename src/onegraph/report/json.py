"""The JSON reports. Their schema is ``schema.json``, made from the structs here by ``schema()``.

Lines and columns are counted from 1; columns are UTF-8 bytes, and an end column is the last one of the
expression's text plus 1. ``version`` grows when a field is removed or changes its meaning; new fields may
come without that.
"""

from __future__ import annotations

import platform
from importlib import metadata
from typing import Any

import msgspec

from onegraph.model import Evidence, FileChange, Findings, FixResult, Repair, Site, Trace
from onegraph.report.verdict import same_results, verified

VERSION = 1


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


class RecompileRow(msgspec.Struct, frozen=True):
    function: str
    file: str
    line: int
    reasons: list[str]
    caused_by_break: bool


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


class ChangeRow(msgspec.Struct, frozen=True):
    file: str
    functions: list[str]
    original: str
    mended: str


class RunReport(Observed, frozen=True, tag="run", tag_field="command", kw_only=True):
    version: int
    target: str
    onegraph: str
    torch: str
    python: str


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


def run_report(findings: Findings, target: str) -> RunReport:
    """What ``onegraph run`` and ``onegraph check`` found."""
    return RunReport(**_header(target), **msgspec.structs.asdict(observed(findings)))


def fix_report(result: FixResult, target: str, diff: str) -> FixReport:
    """What ``onegraph fix`` did; ``diff`` is the patch over all changed files."""
    return FixReport(
        **_header(target),
        before=observed(result.before),
        after=observed(result.after),
        repairs=[repair_row(repair) for repair in result.repairs],
        verified=verified(result),
        evidence=evidence_row(result.evidence),
        changes=[change_row(change) for change in result.changes],
        diff=diff,
        seconds={stage: round(seconds, 4) for stage, seconds in result.seconds.items()},
    )


def encode(report: RunReport | FixReport) -> str:
    """The report as indented JSON with a newline at the end. NaN becomes null."""
    return msgspec.json.format(msgspec.json.encode(report), indent=2).decode() + "\n"


def schema() -> dict[str, Any]:
    """The JSON Schema of both reports."""
    (run, fix), parts = msgspec.json.schema_components([RunReport, FixReport], ref_template="#/$defs/{name}")
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": f"onegraph report, version {VERSION}",
        "oneOf": [run, fix],
        "$defs": parts,
    }


def observed(findings: Findings) -> Observed:
    trace: Trace = findings.trace
    return Observed(
        graphs=len(trace.graphs),
        sites=[site_row(site) for site in findings.sites],
        graph_list=[GraphRow(g.function, g.file, g.line, g.nodes) for g in trace.graphs],
        recompiles=[
            RecompileRow(r.function, r.file, r.line, list(r.reasons), r.caused_by_break)
            for r in trace.recompiles
        ],
        frames_given_up=list(trace.frames_given_up),
        limits_reached=list(trace.limits_reached),
        disagreements=list(trace.disagreements),
        compiled_calls=trace.compiled_calls,
        error=None if trace.error is None else f"{type(trace.error).__name__}: {trace.error}",
        seconds=round(trace.seconds, 4),
        unseen=list(trace.unseen),
    )


def site_row(site: Site) -> SiteRow:
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
    )


def repair_row(repair: Repair) -> RepairRow:
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
    }


def _unique(words: Any) -> list[str]:
    return list(dict.fromkeys(words))


def write_schema() -> str:
    """The text of ``schema.json``."""
    import json

    return json.dumps(schema(), indent=2) + "\n"


if __name__ == "__main__":
    print(write_schema(), end="")
