"""The JSON reports hold what their published schema says."""

from __future__ import annotations

import dataclasses
import json
from importlib import resources
from typing import Any

import jsonschema
import pytest

from onegraph.model import Check, Evidence, Findings, FixResult
from onegraph.report.json import render, write_schema
from onegraph.report.rows import VERSION, fix_report, run_report


@pytest.fixture(scope="module")
def schema() -> Any:
    return json.loads(resources.files("onegraph.report").joinpath("schema.json").read_text(encoding="utf-8"))


def test_the_published_schema_is_that_of_the_code(schema: Any) -> None:
    assert schema == json.loads(write_schema()), (
        "run: python -m onegraph.report.json > src/onegraph/report/schema.json"
    )
    jsonschema.Draft202012Validator.check_schema(schema)


def test_a_run(findings: Findings, schema: Any) -> None:
    report = json.loads(render(run_report(findings, "model.py:make")))
    jsonschema.validate(report, schema)
    assert (report["command"], report["version"], report["target"]) == ("run", VERSION, "model.py:make")
    assert report["graphs"] == 2
    branch, hidden = report["sites"]
    assert (branch["line"], branch["column"], branch["end_column"]) == (2, 8, 19)
    assert branch["causes"] == ["Data-dependent branching"]
    assert (hidden["outcome"], hidden["owner"], hidden["package"]) == ("hidden", "dependency", "lib 1.2")
    assert [recompile["caused_by_break"] for recompile in report["recompiles"]] == [False, True]


def test_a_fix(fixed: FixResult, schema: Any) -> None:
    report = json.loads(render(fix_report(fixed, "model.py:make", "the patch")))
    jsonschema.validate(report, schema)
    assert (report["before"]["graphs"], report["after"]["graphs"]) == (2, 1)
    assert (len(report["before"]["sites"]), len(report["after"]["sites"])) == (2, 1)
    assert report["verified"] is True
    applied, declined = report["repairs"]
    wanted = {"kind": "branch_on_tensor", "level": "relaxed", "line": 2, "column": 8, "status": "applied"}
    assert wanted.items() <= applied.items()
    assert applied["evidence"]["checks"][1] == {
        "name": "inductor: gradients",
        "passed": True,
        "detail": "",
    }
    assert (declined["level"], declined["reason"]) == (None, "the logger is made inside")


def test_a_site_that_was_met_again_is_the_same_site(fixed: FixResult) -> None:
    before = fix_report(fixed, "t", "")
    again = dataclasses.replace(fixed.repairs[0], site=dataclasses.replace(fixed.repairs[0].site, count=7))
    after = fix_report(dataclasses.replace(fixed, repairs=(again, *fixed.repairs[1:])), "t", "")
    assert [each.site for each in after.repairs] == [None, None]
    assert [each.fingerprint for each in after.repairs] == [each.fingerprint for each in before.repairs]


def test_what_was_not_verified_is_said(fixed: FixResult, schema: Any) -> None:
    unproven = Evidence((Check("inductor", None, "no compiler"),), max_abs=float("nan"))
    report = json.loads(render(fix_report(dataclasses.replace(fixed, evidence=unproven), "t", "")))
    jsonschema.validate(report, schema)
    assert report["verified"] is False
    assert report["evidence"]["checks"][0]["passed"] is None
    assert report["evidence"]["max_abs"] is None


def test_the_schema_refuses_a_report_that_lacks_a_field(findings: Findings, schema: Any) -> None:
    report = json.loads(render(run_report(findings, "t")))
    del report["sites"][0]["kind"]
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(report, schema)
