"""Who holds a tensor behind a branch, and what changes it in place. The tensor is `x`, the branch `if mark`."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest
import torch

from onegraph.lowering.written_behind import written_behind
from onegraph.rewrite import text as edit
from onegraph.rewrite.facts import measure

from .lowered import load

WRITTEN = {
    "itself": "x.add_(1)",
    "a view of it": "y = x.view(-1)\ny.add_(1)",
    "a row of it": "x[0].mul_(2)",
    "its transpose": "x.T.mul_(2)",
    "by a function": "torch.relu_(x)",
    "by an argument": "F.relu(x, inplace=True)",
    "as the place of a result": "torch.add(x, 1, out=x)",
    "what a call hands on": "y = F.dropout(x, training=False)\ny.add_(1)",
    "one of two names": "y, z = x * 2, x\nz += 1",
    "a name bound in an expression": "y = (z := x) * 2\nz.add_(1)",
    "a list that got it": "kept = []\nkept.append(x)\nkept[0].add_(1)",
    "a list that it was added to": "kept = []\nkept += [x]\nkept[0].add_(1)",
    "an element of a tuple": "pair = (x, x)\na, b = pair\na.add_(1)",
    "on one path": "if n > 5:\n    x = x * 2\nx.add_(1)",
    "behind a loop that may make no trip": "for _ in range(n):\n    x = x * 2\nx.add_(1)",
    "in the next trip": "y = x * 2\nfor _ in range(n):\n    y.add_(1)\n    y = x",
    "behind a break": "for _ in range(n):\n    y = x\n    if n:\n        break\n    y = x * 2\ny.add_(1)",
    "in a handler": "y = x\ntry:\n    y = x * 2\nexcept ValueError:\n    y.add_(1)",
}
NOT_WRITTEN = {
    "a new value under its name": "x = x * 2\nx.add_(1)",
    "a new value on each path": "if n > 5:\n    x = x * 2\nelse:\n    x = x.clone()\nx.add_(1)",
    "what a call computes": "y = F.linear(x, x)\ny.add_(1)",
    "a name that was bound anew": "y = x\ny = y + 1\ny.add_(1)",
    "a size": "n = x.shape[0]\nn += 1",
    "another path": "if n > 5:\n    y = x\n    return y\nelse:\n    y = x * 2\ny.add_(1)",
}


def found(folder: Path, lines: str) -> str | None:
    """The statement, as it stands in the text."""
    body = "".join(f"    {line}\n" for line in ("y = x * 1", "if mark:", "    pass", *lines.split("\n")))
    loaded = load(folder, f"def f(x, mark, n):\n{body}    return x\n", [(torch.ones(4, 4), True, 2)])
    tree = edit.parse(loaded.text)
    function = next(f for name, f in edit.functions(tree) if name == "f")
    branch = next(n for n in ast.walk(function) if isinstance(n, ast.If))
    facts = measure(loaded.program, loaded.workspace, loaded.path)
    written = written_behind(function, branch, ["x"], facts)
    return None if written is None else ast.unparse(written)


@pytest.mark.parametrize("lines", WRITTEN.values(), ids=WRITTEN)
def test_a_change_in_place_is_found(tmp_path: Path, lines: str) -> None:
    statement = found(tmp_path, lines)
    assert statement is not None
    assert statement in "\n".join(line.strip() for line in lines.split("\n"))


@pytest.mark.parametrize("lines", NOT_WRITTEN.values(), ids=NOT_WRITTEN)
def test_a_change_of_something_else_is_none(tmp_path: Path, lines: str) -> None:
    assert found(tmp_path, lines) is None
