"""Names for what generated code defines: they say when the value holds, or what was done to it."""

from __future__ import annotations

import ast
from collections.abc import Sequence

from onegraph.lowering.choice import called

_DONE = {
    "clamp": "clamped", "clip": "clamped", "nan_to_num": "finite", "detach": "detached",
    "masked_fill": "masked", "softmax": "normalized", "normalize": "normalized",
    "layer_norm": "normalized", "round": "rounded", "zeros_like": "zeroed", "zeros": "zeroed",
    "relu": "rectified", "mul": "scaled", "neg": "negated",
}  # fmt: skip
_SIGNS = {
    ast.Gt: "positive",
    ast.GtE: "nonnegative",
    ast.Lt: "negative",
    ast.LtE: "nonpositive",
    ast.Eq: "zero",
}


def condition(test: ast.expr) -> str:
    """An adjective for the test: ``score > 0`` is "positive", ``torch.isnan(h).any()`` is "nonfinite"."""
    if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        return f"not_{condition(test.operand)}"
    names = {called(n) for n in ast.walk(test) if isinstance(n, ast.Call)}
    if names & {"isnan", "isinf"}:
        return "nonfinite"
    if names & {"isfinite"}:
        return "finite"
    if isinstance(test, ast.Name):
        return test.id.removeprefix("is_").removeprefix("_") or "true"
    if isinstance(test, ast.Attribute):
        return test.attr
    if isinstance(test, ast.Call) and called(test) in {"any", "all"}:
        inner = (
            test.func.value
            if isinstance(test.func, ast.Attribute) and not test.args
            else (test.args or [test])[0]
        )
        if isinstance(inner, ast.Name) and inner.id != "torch":
            return f"{called(test)}_{inner.id}"
        return f"{called(test)}_{condition(inner)}" if isinstance(inner, ast.Compare) else "true"
    if isinstance(test, ast.Compare) and len(test.ops) == 1:
        right = test.comparators[0]
        if isinstance(right, ast.Constant) and right.value == 0 and type(test.ops[0]) in _SIGNS:
            return _SIGNS[type(test.ops[0])]
        if isinstance(test.ops[0], ast.Gt | ast.GtE):
            return "large"
        if isinstance(test.ops[0], ast.Lt | ast.LtE):
            return "small"
        return "equal" if isinstance(test.ops[0], ast.Eq) else "different"
    return "true"


def conditions(tests: Sequence[ast.expr]) -> str:
    """An adjective for several conditions joined: theirs where they share one."""
    words = {condition(test) for test in tests}
    return words.pop() if len(words) == 1 else "true"


def done(expression: ast.expr | None) -> str | None:
    """A participle for what an expression does: ``torch.clamp(h, ...)`` is "clamped"."""
    if isinstance(expression, ast.Call):
        return _DONE.get(called(expression))
    return None


def flag(tests: Sequence[ast.expr]) -> str:
    """A name for the value of the test."""
    word = conditions(tests)
    return (
        word if word.startswith(("any_", "all_", "not_")) else f"is_{word}" if word != "true" else "condition"
    )


def what(keys: list[str]) -> str:
    """The stem of a closure's name: the last part of the one thing that it makes."""
    return keys[0].rpartition(".")[2].strip("_") if len(keys) == 1 else "values"
