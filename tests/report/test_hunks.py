"""Suggestions that are accepted one by one, or fixes applied as a whole, give the text that was verified."""

from __future__ import annotations

import json
import random
from collections.abc import Iterable

import msgspec
import pytest

from onegraph.report.formats import rendered
from onegraph.report.hunks import hunks_of
from onegraph.report.rows import AnyReport, ChangeRow

BEFORE = "import torch\n\n\ndef f(x):\n    print(x)\n    y = x\n    return y\n"
CASES = {
    "replaced": BEFORE.replace("print(x)", "show(x)"),
    "deleted": BEFORE.replace("    print(x)\n", ""),
    "inserted": BEFORE.replace("    return", "    y = y + 1\n    return"),
    "inserted at the top": "import os\n" + BEFORE,
    "inserted at the end": BEFORE + "\n\nx = 1\n",
    "many": "import os\n" + BEFORE.replace("print(x)", "show(x)\n    more(x)") + "x = 1\n",
    "without a last line break": BEFORE.rstrip("\n").replace("return y", "return y + 1"),
    "emptied": "",
}


def applied(text: str, edits: Iterable[tuple[int, int, str]]) -> str:
    """Replace lines first to last (inclusive), from the bottom up."""
    lines = text.splitlines(keepends=True)
    for first, last, new in sorted(edits, reverse=True):
        lines[first - 1 : last] = [new]
    return "".join(lines)


@pytest.mark.parametrize("case", CASES)
def test_hunks_give_the_mended_text(case: str) -> None:
    change = ChangeRow("f.py", ["f"], BEFORE, CASES[case])
    hunks = list(hunks_of(change))
    assert all(hunk.first <= hunk.last for hunk in hunks)
    assert applied(BEFORE, [(hunk.first, hunk.last, hunk.text) for hunk in hunks]) == CASES[case]


def test_any_edit() -> None:
    chance = random.Random(0)
    for _ in range(300):
        before = [f"line {chance.randrange(4)}\n" for _ in range(chance.randrange(1, 9))]
        after = [line for line in before if chance.random() < 0.7]
        for _ in range(chance.randrange(3)):
            after.insert(chance.randrange(len(after) + 1), f"new {chance.randrange(3)}\n")
        change = ChangeRow("f.py", ["f"], "".join(before), "".join(after))
        edits = [(hunk.first, hunk.last, hunk.text) for hunk in hunks_of(change)]
        assert applied(change.original, edits) == change.mended


@pytest.mark.parametrize("case", CASES)
def test_formats_bring_every_hunk_once(reports: dict[str, AnyReport], case: str) -> None:
    report = reports["fix"]
    old = report.changes[0]
    change = ChangeRow(old.file, old.functions, BEFORE, CASES[case])
    report = msgspec.structs.replace(report, changes=[change])
    edits = [
        (each["range"]["start"]["line"], each["range"]["end"]["line"] - 1, each["text"])
        for row in json.loads(rendered(report, "rdjson"))["diagnostics"]
        for each in row.get("suggestions", ())
    ]
    assert applied(BEFORE, edits) == CASES[case]
    fix, *_ = json.loads(rendered(report, "sarif"))["runs"][0]["results"]
    (file,) = fix["fixes"][0]["artifactChanges"]
    edits = [
        (
            each["deletedRegion"]["startLine"],
            each["deletedRegion"]["endLine"] - 1,
            each["insertedContent"]["text"],
        )
        for each in file["replacements"]
    ]
    assert applied(BEFORE, edits) == CASES[case]
