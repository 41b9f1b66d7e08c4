"""Ops of code that begins with lists and iterators, calls methods of its class, gives positions of any number."""

from __future__ import annotations

import ast
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch

from imported import imported
from onegraph.lowering.written import written_in_op
from onegraph.model import Break, Call, Candidate, Declined, Level, Outcome, Owner, Program, Site
from onegraph.rewrite import text as edit
from onegraph.rewrite.facts import measure
from onegraph.rewrite.request import Request
from onegraph.rewrite.workspace import Workspace

LINES = iter(range(1000))
POSITIONS = """\
import itertools

import torch


class Model(torch.nn.Module):
    def of_image(self, start, grid, device=None):
        rows = torch.arange(grid[0].item(), device=device) + start
        columns = torch.arange(grid[1].item(), device=device) + start
        return torch.stack(torch.meshgrid(rows, columns, indexing="ij")).reshape(2, -1)

    def forward(self, kinds, grids, mask):
        offsets = []
        positions = torch.zeros(2, kinds.shape[0], kinds.shape[1], dtype=kinds.dtype)
        left = iter(grids)
        for row, current in enumerate(kinds):
            current = current[mask[row]]
            at, found = 0, []
            for kind, group in itertools.groupby(current.tolist(), lambda kind: kind):
                if kind == 0:
                    size = len(list(group))
                    found.append(torch.arange(size).expand(2, -1) + at)
                    at += size
                else:
                    grid = next(left)
                    found.append(self.of_image(at, grid))
                    at += max(grid[0], grid[1])
            positions[:, row, mask[row]] = torch.cat(found, dim=1)
            offsets.append(at - len(current))
        offsets = torch.tensor(offsets).unsqueeze(1)
        return positions * 2, offsets


class Other(Model):
    def of_image(self, start, grid, device=None):
        return super().of_image(start, grid) * 10
"""
BY_OBJECT = POSITIONS.replace("+ start\n        return", "+ start + self.training\n        return")
LOGS = POSITIONS.replace(
    "        return torch.stack(torch.mesh", "        print(rows)\n        return torch.stack(torch.mesh"
)


def module(folder: Path, text: str) -> ModuleType:
    return imported(folder, text + "\n" * next(LINES))


def inputs(images: int = 2) -> tuple[torch.Tensor, ...]:
    kinds = torch.tensor([[0, 1, 1, 1, 1, 0, 0], [0, 0, 1, 1, 1, 1, 0], [1, 1, 1, 1, 0, 0, 0]])[:images]
    mask = torch.ones(images, 7, dtype=torch.bool)
    mask[0, -1] = False
    return kinds, torch.tensor([[2, 2]]).repeat(images, 1), mask


def proposed(folder: Path, text: str, *, captured: bool = False) -> Candidate | Declined:
    made = module(folder, text)
    path = str(made.__file__)
    source = Path(path).read_text()
    breaks = (Break("GuardOnDataDependentSymNode", "", Outcome.RESUMED, ()),) if captured else ()
    listed = next(
        n
        for n in ast.walk(edit.parse(source))
        if isinstance(n, ast.Call) and ast.unparse(n) == "current.tolist()"
    )
    site = Site(
        "data_dependent_shape",
        edit.span_of(listed, path),
        "",
        "Model.forward",
        Outcome.RESUMED,
        Owner.USER,
        "",
        1,
        0,
        False,
        "",
        breaks,
    )
    program = Program("model", made.Model(), (Call(inputs()),))
    facts = measure(program, Workspace(), path)
    return next(written_in_op(Request(site, path, source, Level.RELAXED, facts), "data_dependent_shape"))


@pytest.fixture
def after(tmp_path: Path) -> Any:
    found = proposed(tmp_path, POSITIONS)
    assert isinstance(found, Candidate), found
    return module(tmp_path, found.text)


def test_one_graph_with_the_same_values(tmp_path: Path, after: Any) -> None:
    before = module(tmp_path, POSITIONS)
    torch._dynamo.reset()
    compiled = torch.compile(after.Model(), backend="aot_eager", fullgraph=True)
    for images in 2, 3:
        for ours, theirs in zip(compiled(*inputs(images)), before.Model()(*inputs(images)), strict=True):
            assert torch.equal(ours, theirs)


def test_a_class_that_overrides_the_method_runs_its_own(tmp_path: Path, after: Any) -> None:
    before = module(tmp_path, POSITIONS)
    for ours, theirs in zip(after.Other()(*inputs()), before.Other()(*inputs()), strict=True):
        assert torch.equal(ours, theirs)


@pytest.mark.parametrize("text", [BY_OBJECT, LOGS], ids=["it looks at its object", "it prints"])
def test_a_method_that_does_more_stays_outside(tmp_path: Path, text: str) -> None:
    found = proposed(tmp_path, text)
    assert isinstance(found, Declined)


WINDOWS = """\
import torch


class Model(torch.nn.Module):
    def forward(self, kinds, grids, mask):
        index: list = []
        ends = [0]
        current = grids[:, 0]
        for rows in current.tolist():
            index.append(torch.arange(rows) + ends[-1])
            ends.append(ends[-1] + rows)
        index = torch.cat(index)
        ends = torch.tensor(ends).unique_consecutive()
        return kinds.flatten()[index] * 2, ends
"""


def test_positions_of_any_number_where_sizes_are_captured(tmp_path: Path) -> None:
    found = proposed(tmp_path, WINDOWS, captured=True)
    assert isinstance(found, Candidate), found
    before, after = module(tmp_path, WINDOWS), module(tmp_path, found.text)
    torch._dynamo.reset()
    compiled = torch.compile(after.Model(), backend="aot_eager", fullgraph=True)
    for sizes in ([2, 3], [4, 1]):
        given = torch.arange(14).view(2, 7), torch.tensor(sizes)[:, None].repeat(1, 2), torch.ones(2, 7)
        for ours, theirs in zip(compiled(*given), before.Model()(*given), strict=True):
            assert torch.equal(ours, theirs)


def test_positions_of_any_number_are_left_where_sizes_break_the_graph(tmp_path: Path) -> None:
    found = proposed(tmp_path, WINDOWS)
    assert isinstance(found, Declined)
