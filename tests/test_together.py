"""Several programs of one script, mended one by one, become one result."""

from __future__ import annotations

from dataclasses import replace

import pytest

from onegraph.model import (
    Check,
    Evidence,
    FileChange,
    Findings,
    FixResult,
    Graph,
    Level,
    Outcome,
    Owner,
    Repair,
    Site,
    Span,
    Status,
    Trace,
)
from onegraph.together import merged_text, one_result

TEXT = "import a\n\n\ndef f():\n    one\n    two\n\n\ndef g():\n    three\n"
NOTHING = Findings((), Trace())
PROVEN = Evidence((Check("outputs", True),), inputs=1)


def result(old: str, new: str, evidence: Evidence = PROVEN, line: int = 5) -> FixResult:
    span = Span("m.py", line, 0, line, 3)
    site = Site("kind", span, old, "f", Outcome.RESUMED, Owner.USER, "", 1, 0, False, "why")
    before = Findings((site,), Trace(graphs=(Graph("f", "m.py", 1, 1),) * 2))
    after = Findings((), Trace(graphs=(Graph("f", "m.py", 1, 1),)))
    repair = Repair(site, Status.APPLIED, "kind", Level.EXACT, "title", "", evidence=evidence)
    change = FileChange("m.py", TEXT, TEXT.replace(old, new), ("f",))
    return FixResult("f", before, after, (repair,), (change,), evidence, {"mend": 1.0})


def together(results: list[FixResult]) -> FixResult:
    return one_result("train.py", NOTHING, results)


@pytest.mark.parametrize(
    ("first", "second", "merged"),
    [
        (("one", "ONE"), ("three", "THREE"), {"one": "ONE", "three": "THREE"}),
        (("one", "ONE"), ("one", "ONE"), {"one": "ONE"}),
        (("one", "ONE"), ("one", "1"), None),
        (("a\n", "a\nimport b\n"), ("a\n", "a\nimport c\n"), {"a\n": "a\nimport b\nimport c\n"}),
        (("a\n", "a\nb = 1\n"), ("a\n", "a\nb = 2\n"), None),
        (
            ("import a\n", "import a\nimport b\n"),
            ("two", "2"),
            {"import a\n": "import a\nimport b\n", "two": "2"},
        ),
    ],
)
def test_changes_of_one_text(
    first: tuple[str, str], second: tuple[str, str], merged: dict[str, str] | None
) -> None:
    wanted: str | None = TEXT
    for old, new in (merged or {}).items():
        assert wanted is not None
        wanted = wanted.replace(old, new)
    assert merged_text(TEXT, TEXT.replace(*first), TEXT.replace(*second)) == (wanted if merged else None)


def test_programs_that_fit_are_added_up() -> None:
    both = together([result("one", "ONE"), result("three", "THREE", line=10)])
    assert [change.mended for change in both.changes] == [
        TEXT.replace("one", "ONE").replace("three", "THREE")
    ]
    assert (len(both.before.trace.graphs), len(both.after.trace.graphs)) == (4, 2)
    assert (len(both.repairs), len(both.before.sites), both.after.sites) == (2, 2, ())
    assert both.evidence.verified
    assert both.seconds == {"mend": 2.0}


def test_one_site_seen_by_two_programs_is_one_repair() -> None:
    both = together([result("one", "ONE"), result("one", "ONE")])
    assert (len(both.repairs), len(both.changes)) == (1, 1)


def test_a_program_that_does_not_fit_is_left_out_and_says_why() -> None:
    first, second = result("one", "ONE"), result("one", "1", line=6)
    both = together([first, second])
    assert [change.mended for change in both.changes] == [TEXT.replace("one", "ONE")]
    applied, rejected = both.repairs
    assert (applied.status, rejected.status) == (Status.APPLIED, Status.REJECTED)
    assert "run onegraph fix again" in rejected.next_step
    assert both.after.sites == second.before.sites


def test_one_unproven_program_leaves_all_unproven() -> None:
    unproven = result("three", "THREE", replace(PROVEN, checks=()))
    assert not together([result("one", "ONE"), unproven]).evidence.verified


HELPER = "\n\ndef helper(f):\n    return f\n"


def test_helpers_that_both_need_come_once() -> None:
    first = TEXT.replace("import a\n", f"import a\n{HELPER}\n\n@helper\ndef one():\n    pass\n")
    second = TEXT.replace("import a\n", f"import a\n{HELPER}\n\n@helper\ndef two():\n    pass\n")
    both = f"import a\n{HELPER}\n\n@helper\ndef one():\n    pass\n\n\n@helper\ndef two():\n    pass\n"
    assert merged_text(TEXT, first, second) == TEXT.replace("import a\n", both)


def test_helpers_of_one_name_and_two_bodies_do_not_fit() -> None:
    first = TEXT.replace("import a\n", f"import a\n{HELPER}")
    second = TEXT.replace("import a\n", f"import a\n{HELPER.replace('return f', 'return None')}")
    assert merged_text(TEXT, first, second) is None
