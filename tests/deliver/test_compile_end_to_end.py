"""``onegraph.compile`` with the real mending behind it: the whole pipeline, once."""

import importlib
from pathlib import Path

import pytest
import torch

import onegraph

PROGRAM = """
import os


def step(x):
    if x.sum() > 0:
        x = x * 2
    return x + 1


def placed(x):
    return x, os.getcwd()
"""


@pytest.fixture
def program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> object:
    (tmp_path / "end_to_end_program.py").write_text(PROGRAM)
    monkeypatch.syspath_prepend(str(tmp_path))
    return importlib.reload(importlib.import_module("end_to_end_program"))


def test_a_branch_on_a_tensor_is_mended_on_the_first_call(program: object) -> None:
    step = program.step  # type: ignore[attr-defined]
    code = step.__code__
    graphs = []
    compiled = onegraph.compile(step, backend=lambda gm, inputs: graphs.append(gm) or gm.forward)
    for x in (torch.ones(3), -torch.ones(3)):
        torch.testing.assert_close(compiled(x), step(x))
    assert len(graphs) == 1
    assert step.__code__ is code


def test_what_no_kind_mends_is_one_error_that_names_the_place(program: object) -> None:
    with pytest.raises(onegraph.GraphBreaksLeft, match=r"end_to_end_program\.py:12:\d+ ") as raised:
        onegraph.compile(program.placed, backend="eager")(torch.ones(3))  # type: ignore[attr-defined]
    assert all(site.reason and site.next_step for site in raised.value.sites)
