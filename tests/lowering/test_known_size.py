"""Sizes that follow from what goes in, and sizes that hang on values."""

from __future__ import annotations

import ast

import pytest

from onegraph.lowering.known_size import Sizes
from onegraph.rewrite.request import Fact

NUMBERS = ("i", "i + 1", "n")


def facts(node: ast.expr) -> tuple[Fact, ...]:
    """What was measured: the names of numbers are integers, the others are tensors."""
    code = ast.unparse(node)
    return (Fact("int", value="2"),) if code in NUMBERS else (Fact("torch.Tensor", (3,), "torch.int64"),)


@pytest.mark.parametrize(
    ("code", "known"),
    [
        ("y = x * 2", True),
        ("i = hits.nonzero()[0].item()\ny = x[i + 1] - x[i]", True),
        ("y = x[x > 0].sum()", True),
        ("y = x.nonzero()", False),
        ("n = t.sum().item()\ny = x[:n]", False),
        ("n = int(t)\ny = torch.zeros(n)", False),
        ("y = []\nfor r in x:\n    y.append(r)", False),
        ("rows = x.nonzero()\ny = rows * 2", False),
        ("y = torch.where(x > 0, x, 0)", True),
        ("places, = torch.where(x)\ny = x[places]", False),
        ("y = torch.repeat_interleave(x, t)", False),
    ],
)
def test_sizes(code: str, known: bool) -> None:
    assert ("y" not in Sizes(ast.parse(code).body, facts).unknown) is known
