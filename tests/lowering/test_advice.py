"""A refusal that tells how to write the program: written so, it is mended."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from onegraph.lowering import lower_branch, lower_loop
from onegraph.lowering.written import written_in_op
from onegraph.model import Candidate, Declined

from .lowered import load, lower

X = torch.tensor([[1.0, -2.0], [3.0, 4.0]])
ON_SIDES = """\
def f(x, y):
    if x.sum() > 0:
        z = {handed}
    else:
        z = x * 2
    y.add_(1)
    return z
"""
WITHOUT_ELSE = """\
def f(x, y):
    z = y
    if x.sum() > 0:
        z = x * 2
{other}\
    z.add_(1)
    return z
"""
LOOP = """\
def f(x, y):
{before}\
    while {name}.norm() > 0.5:
        {name} = {name} * 0.5
    {behind}
    return {name}
"""
OP = """\
def helper(y):
    return torch.sin(y)


def f(x, y):
    y = x.tolist()[0][0] * x
    z = helper(y)
{change}
    return y * z
"""


@pytest.mark.parametrize(
    ("lowering", "condition", "refused", "advice", "followed"),
    [
        pytest.param(
            lower_branch,
            "x.sum() > 0",
            ON_SIDES.format(handed="y"),
            "Hand a copy on, on that side of the branch (`else:`, where it has none): `y.clone()`.",
            [ON_SIDES.format(handed="y.clone()")],
            id="a side that hands a tensor on",
        ),
        pytest.param(
            lower_branch,
            "x.sum() > 0",
            WITHOUT_ELSE.format(other=""),
            "Hand a copy on, on that side of the branch (`else:`, where it has none): `z.clone()`.",
            [WITHOUT_ELSE.format(other="    else:\n        z = z.clone()\n")],
            id="no else",
        ),
        pytest.param(
            lower_loop,
            "x.norm() > 0.5",
            LOOP.format(before="", name="x", behind="x.add_(1)"),
            "Loop over a copy with a name of its own, `copy = x.clone()`, or bind a new value in line 9.",
            [
                LOOP.format(before="    copy = x.clone()\n", name="copy", behind="copy.add_(1)"),
                LOOP.format(before="", name="x", behind="x = x + 1"),
            ],
            id="a loop that may make no trip",
        ),
        pytest.param(
            lambda request: written_in_op(request, "item_call"),
            "x.tolist()",
            OP.format(change="    y.add_(1)"),
            "Write into a copy with a name of its own: `copy = y.clone()`.",
            [OP.format(change="    copy = y.clone()\n    copy.add_(1)")],
            id="what an op gives, written later",
        ),
    ],
)
def test_the_advice_helps(
    tmp_path: Path,
    lowering: Callable[..., Any],
    condition: str,
    refused: str,
    advice: str,
    followed: list[str],
) -> None:
    def proposed(program: str) -> list[Candidate | Declined]:
        test = condition if condition in program else condition.replace("x", "copy", 1)
        loaded = load(tmp_path, program, [(X.clone(), X + 1), (-X, X.clone())])
        return lower(loaded, test, lowering=lowering)

    declined = proposed(refused)
    assert not any(isinstance(each, Candidate) for each in declined)
    assert any(isinstance(each, Declined) and each.next_step == advice for each in declined), declined
    for program in followed:
        found = proposed(program)
        assert any(isinstance(each, Candidate) for each in found), found
