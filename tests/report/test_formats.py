"""Every format: the same text as before (snapshots), and what its readers accept (schemas).

A snapshot that is meant to change is written anew with ``ONEGRAPH_SNAPSHOTS=write pytest tests/report``.
"""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import jsonschema
import msgspec
import pytest

from onegraph.report.formats import MODULES, rendered
from onegraph.report.rows import AnyReport

from .hostile import hostile

HERE = Path(__file__).parent
CASES = [
    (form, name)
    for form in MODULES
    for name in ("run", "check", "fix", "clean", "nothing")
    if form not in ("json", "html")
]

RDJSON = {  # reviewdog's proto/rdf/reviewdog.proto, the parts that are written
    "type": "object",
    "additionalProperties": False,
    "required": ["source", "diagnostics"],
    "properties": {
        "source": {"type": "object", "properties": {"name": {"type": "string"}}},
        "severity": {"enum": ["ERROR", "WARNING", "INFO"]},
        "diagnostics": {
            "type": "array",
            "items": {
                "type": "object",
                "additionalProperties": False,
                "required": ["message", "location"],
                "properties": {
                    "message": {"type": "string"},
                    "severity": {"enum": ["ERROR", "WARNING", "INFO"]},
                    "code": {"type": "object", "properties": {"value": {"type": "string"}}},
                    "location": {
                        "type": "object",
                        "required": ["path", "range"],
                        "properties": {"path": {"type": "string"}, "range": {"$ref": "#/$defs/range"}},
                    },
                    "suggestions": {
                        "type": "array",
                        "items": {
                            "type": "object",
                            "additionalProperties": False,
                            "required": ["range", "text"],
                            "properties": {"range": {"$ref": "#/$defs/range"}, "text": {"type": "string"}},
                        },
                    },
                },
            },
        },
    },
    "$defs": {
        "position": {
            "type": "object",
            "required": ["line"],
            "properties": {
                "line": {"type": "integer", "minimum": 1},
                "column": {"type": "integer", "minimum": 1},
            },
        },
        "range": {
            "type": "object",
            "required": ["start"],
            "properties": {"start": {"$ref": "#/$defs/position"}, "end": {"$ref": "#/$defs/position"}},
        },
    },
}
GITLAB = {  # GitLab's documentation of the code quality report
    "type": "array",
    "items": {
        "type": "object",
        "required": ["description", "check_name", "fingerprint", "severity", "location"],
        "properties": {
            "severity": {"enum": ["info", "minor", "major", "critical", "blocker"]},
            "fingerprint": {"type": "string", "minLength": 1},
            "location": {
                "type": "object",
                "required": ["path", "lines"],
                "properties": {
                    "path": {"type": "string", "not": {"pattern": "^(\\./|/)"}},
                    "lines": {"type": "object", "required": ["begin"]},
                },
            },
        },
    },
}


@pytest.fixture(scope="module")
def sarif() -> Any:
    return json.loads((HERE / "schemas" / "sarif-2.1.0.json").read_text(encoding="utf-8"))


@pytest.mark.parametrize(("form", "name"), CASES)
def test_snapshot(reports: dict[str, AnyReport], tmp_path: Path, form: str, name: str) -> None:
    text = rendered(reports[name], form).replace(str(tmp_path), "/project")
    file = HERE / "snapshots" / f"{name}.{form}"
    if os.environ.get("ONEGRAPH_SNAPSHOTS") == "write":
        file.write_text(text, encoding="utf-8")
    assert text == file.read_text(encoding="utf-8")


@pytest.fixture(params=["run", "check", "fix", "clean", "nothing", "hostile"])
def report(request: pytest.FixtureRequest, reports: dict[str, AnyReport]) -> AnyReport:
    if request.param != "hostile":
        return reports[request.param]
    return hostile(reports["fix"])


def test_sarif_is_valid(report: AnyReport, sarif: Any) -> None:
    jsonschema.Draft4Validator(sarif).validate(json.loads(rendered(report, "sarif")))


def test_sarif_fingerprints_follow_the_statement(reports: dict[str, AnyReport]) -> None:
    run, check = (
        json.loads(rendered(reports[name], "sarif"))["runs"][0]["results"] for name in ("run", "check")
    )
    assert [each["partialFingerprints"] for each in run] == [each["partialFingerprints"] for each in check]
    assert check[1]["suppressions"][0]["kind"] == "external"
    assert "suppressions" not in check[0]


def test_sarif_brings_the_verified_fix_and_no_other(reports: dict[str, AnyReport]) -> None:
    fixed, declined, _ = json.loads(rendered(reports["fix"], "sarif"))["runs"][0]["results"]
    (replacement,) = fixed["fixes"][0]["artifactChanges"][0]["replacements"]
    assert replacement["deletedRegion"]["startLine"] == 3
    assert replacement["insertedContent"]["text"] == "        x = x * 3\n"
    assert "fixes" not in declined
    unproven = msgspec.structs.replace(reports["fix"], verified=False)
    assert "fixes" not in json.loads(rendered(unproven, "sarif"))["runs"][0]["results"][0]


def test_rdjson_is_valid(report: AnyReport) -> None:
    jsonschema.validate(json.loads(rendered(report, "rdjson")), RDJSON)


def test_gitlab_is_valid(report: AnyReport) -> None:
    rows = json.loads(rendered(report, "gitlab"))
    jsonschema.validate(rows, GITLAB)
    prints = [row["fingerprint"] for row in rows]
    assert len(prints) == len(set(prints))


def test_junit_is_xml_and_counts_itself(report: AnyReport) -> None:
    root = ElementTree.fromstring(rendered(report, "junit"))
    for word, tag in (
        ("tests", "testcase"),
        ("failures", "failure"),
        ("errors", "error"),
        ("skipped", "skipped"),
    ):
        assert root.get(word) == str(len(root.findall(f".//{tag}")))
    assert root.get("tests") != "0"


def test_jsonlines_are_objects(report: AnyReport) -> None:
    rows = [json.loads(line) for line in rendered(report, "jsonl").splitlines()]
    assert rows[0]["type"] == "report"
    assert "totals" in {row["type"] for row in rows}


def test_github_has_one_command_a_line(report: AnyReport) -> None:
    for line in rendered(report, "github").split("\n"):
        assert line.count("::") in (0, 2) or line.startswith(("::error ", "::warning "))
        assert "\r" not in line


def test_concise_has_one_line_a_break(report: AnyReport) -> None:
    text = rendered(report, "concise")
    assert len(text.splitlines()) == text.count("\n")
    assert not any(ord(character) < 32 and character != "\n" for character in text)


def test_chrome_trace_has_what_viewers_need(report: AnyReport) -> None:
    events = json.loads(rendered(report, "chrome-trace"))["traceEvents"]
    for event in events:
        assert {"ph", "name", "pid", "tid"} <= event.keys()
        assert event["ph"] != "X" or (event["ts"] >= 0 and event["dur"] >= 0)


def test_markdown_keeps_text_text(reports: dict[str, AnyReport]) -> None:
    text = rendered(hostile(reports["fix"]), "markdown")
    outside = re.sub(r"(?<!\\)(`+).*?(?<!`)\1(?!`)", "", text.split("```")[0])
    assert "\\<img" in outside
    assert not re.search(r"(?<!\\)<img", outside)
    table = [line for line in text.split("```")[0].splitlines() if line.startswith("| ")]
    assert all(line.replace("\\|", "").count("|") == 5 for line in table)


def test_nothing_compiled_never_looks_like_a_pass(reports: dict[str, AnyReport]) -> None:
    nothing = reports["nothing"]
    assert "nothing was compiled" in rendered(nothing, "concise")
    assert rendered(nothing, "github").startswith("::error")
    assert 'errors="1"' in rendered(nothing, "junit")
    assert json.loads(rendered(nothing, "sarif"))["runs"][0]["invocations"][0]["executionSuccessful"] is False
    assert "nothing was compiled" in rendered(nothing, "markdown")


@pytest.mark.parametrize("form", [form for form in MODULES if form != "chrome-trace"])
def test_a_break_that_showed_only_while_mending_is_not_left_out(
    reports: dict[str, AnyReport], form: str
) -> None:
    text = rendered(reports["late"], form)
    assert "print(x.shape)" in text or "4:5: log_call" in text or "model.py:4" in text or '"line": 4' in text


@pytest.mark.parametrize("form", MODULES)
def test_a_path_that_is_no_text(reports: dict[str, AnyReport], form: str) -> None:
    report = msgspec.structs.replace(reports["fix"], target="caf\udce9.py", diff="--- a/caf\udce9.py\n")
    rendered(report, form).encode("utf-8")
