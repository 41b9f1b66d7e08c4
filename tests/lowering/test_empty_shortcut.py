"""A shortcut for an empty selection: dropped where the recorded calls show that it changes nothing."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest
import torch

from imported import imported
from onegraph.kinds import registry
from onegraph.lowering.empty_shortcut import without_empty_shortcut, without_unset_shortcut
from onegraph.model import Break, Call, Candidate, Declined, Frame, Level, Outcome, Owner, Program, Site, Span
from onegraph.rewrite.facts import measure
from onegraph.rewrite.request import Request
from onegraph.rewrite.workspace import Workspace

CONTINUES = """\
import torch


def program(x, groups):
    out = torch.zeros_like(x)
    for group in range(3):
        rows = torch.where(groups == group)[0]
        if rows.numel() == 0:
            continue
        out.index_add_(0, rows, x[rows] * group)
    return out
"""
GUARDS = CONTINUES.replace(
    """\
        if rows.numel() == 0:
            continue
        out""",
    """\
        if len(rows) > 0:
            out""",
)
AFTER = CONTINUES.replace("        if rows.numel() == 0:\n            continue\n", "")


def proposed(folder: Path, text: str, groups: list[int]) -> Candidate | Declined:
    module = imported(folder, text)
    path = str(module.__file__)
    node = next(n for n in ast.walk(ast.parse(text)) if isinstance(n, ast.If))
    span = Span(path, node.lineno, node.test.col_offset, node.lineno, node.test.end_col_offset or 0)
    site = Site("branch_on_size", span, "", "program", Outcome.RESUMED, Owner.USER, "", 1, 0, False, "")
    calls = (Call((torch.ones(4, 2), torch.tensor(groups))),)
    facts = measure(Program("program", module.program, calls), Workspace(), path)
    request = Request(site, path, text, Level.RELAXED, facts)
    return next(iter(without_empty_shortcut(request, node, "branch_on_size")))


@pytest.mark.parametrize("text", [CONTINUES, GUARDS], ids=["continue", "guarded"])
def test_it_is_dropped(tmp_path: Path, text: str) -> None:
    found = proposed(tmp_path, text, [0, 0, 2, 0])
    assert isinstance(found, Candidate)
    assert found.text == AFTER
    assert found.level is Level.RELAXED


def test_without_such_a_call_where_it_only_guards_writes_into_the_rows(tmp_path: Path) -> None:
    found = proposed(tmp_path, CONTINUES, [0, 1, 2, 0])
    assert isinstance(found, Candidate)
    assert found.text == AFTER


def test_not_where_no_call_shows_it(tmp_path: Path) -> None:
    found = proposed(tmp_path, CONTINUES.replace("out.index_add_(0, rows, x", "out.add_(x"), [0, 1, 2, 0])
    assert isinstance(found, Declined)
    assert "one outcome on every recorded call" in found.reason


ANY = """\
import torch


def program(x, groups):
    out = torch.zeros_like(x)
    for group in range(3):
        mask = groups == group
        if mask.any():
            out[mask] = x[mask] * group
    return out
"""


def any_dropped(folder: Path, text: str) -> list[Candidate]:
    module = imported(folder, text)
    path = str(module.__file__)
    node = next(n for n in ast.walk(ast.parse(text)) if isinstance(n, ast.If))
    span = Span(path, node.lineno, node.test.col_offset, node.lineno, node.test.end_col_offset or 0)
    site = Site("branch_on_tensor", span, "", "program", Outcome.RESUMED, Owner.USER, "", 1, 0, False, "")
    calls = (Call((torch.ones(4, 2), torch.tensor([0, 1, 2, 0]))),)
    facts = measure(Program("program", module.program, calls), Workspace(), path)
    return list(without_unset_shortcut(Request(site, path, text, Level.RELAXED, facts), node, site.kind))


def test_a_mask_that_is_nowhere_set_needs_no_shortcut(tmp_path: Path) -> None:
    (found,) = any_dropped(tmp_path, ANY)
    assert "if mask" not in found.text
    assert "\n        out[mask] = x[mask] * group\n" in found.text


@pytest.mark.parametrize("write", ["out[~mask] = x[~mask]", "out = x[mask].sum()", "out += 1"])
def test_what_writes_elsewhere_keeps_it(tmp_path: Path, write: str) -> None:
    assert not any_dropped(tmp_path, ANY.replace("out[mask] = x[mask] * group", write))


@pytest.mark.parametrize(
    ("test", "body", "kind"),
    [
        ("rows.numel() == 0", "continue", "branch_on_size"),
        ("len(rows) > 1", "y = 1", "branch_on_size"),
        ("rows.sum() == 0", "y = 1", "branch_on_tensor"),
        ("len(rows) == 0", "raise ValueError", "raise_on_tensor"),
        ("len(rows) == 0", "break", "loop_on_tensor"),
    ],
)
def test_which_kind_it_is(test: str, body: str, kind: str) -> None:
    text = f"def program(rows):\n    for _ in rows:\n        if {test}:\n            {body}\n"
    span = Span("program.py", 3, 11, 3, 11 + len(test))
    break_ = Break("Data-dependent branching", "", Outcome.RESUMED, (Frame(span, "program"),))
    assert registry.classify(break_, text) == kind
