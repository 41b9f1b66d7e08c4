"""SARIF 2.1.0: for GitHub code scanning and editors. Fingerprints are the baseline's keys, so an alert follows
its statement through edits."""

from __future__ import annotations

from typing import Any
from urllib.parse import quote

from onegraph.kinds import registry
from onegraph.report.hunks import Hunk, hunks_of
from onegraph.report.json import indented
from onegraph.report.problems import Problem, nothing_compiled, observed_of, problems, summary
from onegraph.report.rows import AnyReport, FixReport

SCHEMA = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"
PROJECT, PACKAGES = "PROJECT", "PACKAGES"


def render(report: AnyReport) -> str:
    found = problems(report)
    hunks = [hunk for change in _changes(report) for hunk in hunks_of(change)]
    kinds = sorted({each.kind for each in found})
    run = {
        "tool": {"driver": _driver(report, kinds)},
        "invocations": [_invocation(report)],
        "originalUriBaseIds": {
            PROJECT: {"description": {"text": "The folder of the project."}},
            PACKAGES: {"description": {"text": "The folder in which Python packages are installed."}},
        },
        "columnKind": "unicodeCodePoints",
        "results": [_result(each, kinds, hunks, report) for each in found],
    }
    return indented({"$schema": SCHEMA, "version": "2.1.0", "runs": [run]})


def _driver(report: AnyReport, kinds: list[str]) -> dict[str, Any]:
    return {
        "name": "onegraph",
        "version": report.onegraph,
        "semanticVersion": report.onegraph,
        "properties": {"torch": report.torch, "python": report.python},
        "rules": [_rule(kind) for kind in kinds],
    }


def _rule(kind: str) -> dict[str, Any]:
    title = registry.get(kind).TITLE if kind in registry.names() else "The recompile limit is reached"
    return {
        "id": kind,
        "shortDescription": {"text": title},
        "help": {"text": f"onegraph explain {kind}"},
        "defaultConfiguration": {"level": "warning"},
    }


def _invocation(report: AnyReport) -> dict[str, Any]:
    failed = nothing_compiled(report)
    row: dict[str, Any] = {"executionSuccessful": not failed}
    if failed:
        row["toolExecutionNotifications"] = [{"level": "error", "message": {"text": summary(report)}}]
    return row


def _result(problem: Problem, kinds: list[str], hunks: list[Hunk], report: AnyReport) -> dict[str, Any]:
    row: dict[str, Any] = {
        "ruleId": problem.kind,
        "ruleIndex": kinds.index(problem.kind),
        "level": problem.level,
        "message": {"text": f"{problem.message} Next: {problem.next_step}"},
        "locations": [_location(problem)],
        "partialFingerprints": {"onegraph/v1": problem.fingerprint},
    }
    if problem.standing == "suppressed":
        row["suppressions"] = [{"kind": "inSource", "justification": problem.note}]
    elif problem.standing in ("baselined", "ignored", "intended"):
        row["suppressions"] = [{"kind": "external", "justification": problem.note or problem.standing}]
    related = _effects(problem, report)
    if related:
        row["relatedLocations"] = related
    mine = _hunks_for(problem, hunks)
    if mine:
        row["fixes"] = [_fix(problem, mine)]
    return row


def _location(problem: Problem) -> dict[str, Any]:
    return {
        "physicalLocation": {
            "artifactLocation": _artifact(problem),
            "region": {
                "startLine": problem.line,
                "startColumn": problem.column,
                "endLine": problem.end_line,
                "endColumn": problem.end_column,
                **({"snippet": {"text": problem.source}} if problem.source else {}),
            },
        },
        "logicalLocations": [{"fullyQualifiedName": problem.function, "kind": "function"}],
    }


def _artifact(problem: Problem) -> dict[str, Any]:
    return {"uri": quote(problem.path), "uriBaseId": PACKAGES if problem.whose else PROJECT}


def _effects(problem: Problem, report: AnyReport) -> list[dict[str, Any]]:
    """The recompiles that the break causes."""
    seen = observed_of(report)
    if problem.site is None or problem.site not in seen.sites:
        return []
    at = seen.sites.index(problem.site)
    caused = [each for each in seen.recompiles if each.site == at]
    return [
        {
            "id": number,
            "message": {"text": f"{each.function} is compiled again: {'; '.join(each.reasons)}"},
            "physicalLocation": {
                "artifactLocation": {"uri": quote(each.file)},
                "region": {"startLine": max(1, each.line)},
            },
        }
        for number, each in enumerate(caused)
    ]


def _changes(report: AnyReport) -> list[Any]:
    return list(report.changes) if isinstance(report, FixReport) and report.verified else []


def _hunks_for(problem: Problem, hunks: list[Hunk]) -> list[Hunk]:
    """All changes of the problem's file where one of them is at its lines: a fix is used as a whole."""
    if problem.site is None or problem.repair is None or problem.repair.status != "applied":
        return []
    return [each for each in hunks if each.file == problem.site.file]


def _fix(problem: Problem, hunks: list[Hunk]) -> dict[str, Any]:
    replacements = [
        {
            "deletedRegion": {
                "startLine": each.first,
                "startColumn": 1,
                "endLine": each.last + 1,
                "endColumn": 1,
            },
            "insertedContent": {"text": each.text},
        }
        for each in hunks
    ]
    title = problem.repair.title if problem.repair is not None else ""
    return {
        "description": {"text": title},
        "artifactChanges": [{"artifactLocation": _artifact(problem), "replacements": replacements}],
    }
