"""A small, seeded share of benchmarks/fuzz.py: what is mended is one graph and equal to eager."""

from __future__ import annotations

import ast
import sys
from pathlib import Path

import pytest
import torch

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))
from fuzzing.grammar import generate
from fuzzing.oracle import Allowed, calls_of, difference, loaded, record
from fuzzing.shrinking import smallest
from fuzzing.tried import DECLINED, INVALID, ONE_GRAPH, REJECTED, WRONG, tried

GROUP = 8  # programs; one of them is captured, the others are compared uncompiled


@pytest.mark.parametrize("first", range(9000, 9000 + 4 * GROUP, GROUP))
def test_nothing_is_wrong(tmp_path: Path, first: int) -> None:
    verdicts = []
    for seed in range(first, first + GROUP):
        outcome = tried(generate(seed), tmp_path, ("eager",) if seed == first else ())
        assert outcome.verdict in (ONE_GRAPH, DECLINED, REJECTED, INVALID), (outcome.reason, outcome.text)
        verdicts.append(outcome.verdict)
    assert verdicts.count(ONE_GRAPH) >= 3, verdicts


def test_a_seed_is_a_program() -> None:
    texts = [generate(seed).text for seed in range(50)]
    assert texts == [generate(seed).text for seed in range(50)]
    assert len(set(texts)) == 50


BEFORE = "import torch\n\n\ndef f(x):\n    print('a')\n    y = x * 2\n    return y + 1\n"


@pytest.mark.parametrize(
    ("before", "after", "says"),
    [
        ("y + 1", "y + 2", "output"),
        ("x * 2", "x.detach() * 2", "requires_grad"),
        ("x * 2", "torch.where(x > 0, x, x.detach()) * 2", "gradient"),
        ("print('a')", "print('b')", "prints"),
        ("print('a')", "print('a'); torch.rand(1)", "random stream"),
        ("y + 1", "(y + 1).double()", "float64"),
        ("return y + 1", "raise ValueError('no')", "raises"),
    ],
)
def test_the_oracle_sees(tmp_path: Path, before: str, after: str, says: str) -> None:
    seen = []
    for text in (BEFORE, BEFORE.replace(before, after)):
        with loaded(text, tmp_path) as module:
            seen.append(record(module, module.f, calls_of(("x",), 0)))
    assert says in (difference(seen[0], seen[1], Allowed()) or "")
    assert difference(seen[0], seen[0], Allowed()) is None


def test_shrinking_keeps_what_fails() -> None:
    text = "import torch\n\n\ndef f(x):\n    y = x.exp() + 1\n    if x.sum() > 0:\n        y = y.bad()\n    return y\n"
    small = smallest(text, lambda each: "bad" in each, lambda: True)
    assert "bad" in small
    assert len(list(ast.walk(ast.parse(small)))) < len(list(ast.walk(ast.parse(text)))) / 2


def test_a_wrong_rewrite_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The comparison is independent of the tool: a tool that breaks a program is caught."""
    from fuzzing import tried as module

    def broken(mended: object, calls: object, observing: object) -> object:
        result, whole = real(mended, calls, observing)
        changed = tuple(module.replace(c, mended=c.mended.replace("x - 1", "x - 2")) for c in result.changes)
        return module.replace(result, changes=changed), whole

    real = module._mended
    monkeypatch.setattr(module, "_mended", broken)
    text = "import torch\n\n\ndef f(x):\n    if x.sum() > 0:\n        x = x - 1\n    return x\n"
    outcome = tried(module.Generated(0, text, ("x",), False), tmp_path, ())
    assert outcome.verdict == WRONG
    assert torch.get_default_dtype() is torch.float32
