"""What a Python number that travels as a 0-dim tensor is, and when an operation on it means the same.

A float travels as float64, an int as int64, a bool as bool. Two rules differ between a number and a 0-dim
tensor:

- *promotion*: beside a tensor of one dimension or more both give way to its dtype when that is of the same
  category or a higher one (bool < int < float < complex). Beside a 0-dim tensor, or one of a lower category,
  a number gives way or takes the default dtype, and a 0-dim tensor doesn't. So it meets tensors through the helper
  `_beside`, which casts it, or reads the number where no cast is exact.
- *errors*: Python raises on a division by zero, ``math.sqrt(-1)``, ``int(nan)``; a tensor never does.

Measured bit for bit on every dtype: + - * / // % comparisons, clamp, where, masked_fill agree by these rules, but for
an int that an int8 or uint8 tensor can't hold, where eager raises.
``tensor ** number``, ``number ** tensor``, lerp, ``add(alpha=)`` don't; ``number / tensor`` is
``tensor.reciprocal() * number`` in eager mode and must be written so.
"""

from __future__ import annotations

import ast
from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum

from onegraph.rewrite.request import Fact

EXACT_INT = 2**53  # integers up to here are exact in double

_FLOATS = ("float", "bfloat", "half", "double")


class Number(IntEnum):
    """The Python type of a number, in the order of promotion. MIXED: an int or a float, as float64."""

    BOOL = 0
    INT = 1
    MIXED = 2
    FLOAT = 3

    @property
    def dtype(self) -> str:
        return ("torch.bool", "torch.int64", "torch.float64", "torch.float64")[self]


BUILTINS = {"float": Number.FLOAT, "int": Number.INT, "bool": Number.BOOL}


def taken_from(node: ast.AST | None) -> ast.expr | None:
    """The tensor of a call that takes a number out of one: ``t.item()``, ``t.tolist()``, ``float(t)``, ``int(t)``,
    ``bool(t)``."""
    if not isinstance(node, ast.Call) or node.keywords:
        return None
    if isinstance(node.func, ast.Attribute) and node.func.attr in ("item", "tolist") and not node.args:
        return node.func.value
    if isinstance(node.func, ast.Name) and node.func.id in BUILTINS and len(node.args) == 1:
        return None if isinstance(node.args[0], ast.Starred) else node.args[0]
    return None


@dataclass(frozen=True, slots=True)
class Carried:
    """A Python number that travels as a 0-dim tensor.

    ``certain`` is False where on another path the name holds a plain Python number: then nothing may be
    written that only a tensor understands. ``device`` is where the tensor lives. ``nonnegative`` is known by
    construction (or NaN).
    """

    number: Number
    device: str
    certain: bool = True
    nonnegative: bool = False


def join(left: Carried, right: Carried) -> Carried | None:
    """What a name holds that was carried in one way or the other; None where the two can't be one tensor."""
    if left.device != right.device or left.number.dtype != right.number.dtype:
        return None
    number = left.number if left.number is right.number else Number.MIXED
    return Carried(
        number, left.device, left.certain and right.certain, left.nonnegative and right.nonnegative
    )


def category(dtype: str) -> Number | None:
    """The category of a tensor dtype; None for complex, which is above all."""
    name = dtype.removeprefix("torch.")
    if name == "bool":
        return Number.BOOL
    if name.startswith("complex"):
        return None
    return Number.FLOAT if name.startswith(_FLOATS) else Number.INT


def of_dtype(dtype: str) -> Number | None:
    """The Python type that ``.item()`` gives; None for complex."""
    return category(dtype)


def of_type(type_name: str) -> Number | None:
    """The number of a Python type name; None for any other type."""
    return {"bool": Number.BOOL, "int": Number.INT, "float": Number.FLOAT}.get(type_name)


def arithmetic(left: Number, right: Number, *, division: bool = False) -> Number:
    """The Python type of ``left + right`` (or ``/``)."""
    if division or Number.FLOAT in (left, right):
        return Number.FLOAT
    return max(left, right, Number.INT)


class Unlike(Exception):
    """The operation means something else on a 0-dim tensor. ``str()`` is the end of a sentence."""


def check_beside(number: Number, others: Sequence[Fact]) -> None:
    """Raises Unlike where no dtype gives a 0-dim tensor beside these tensors the meaning of a Python number."""
    for fact in others:
        assert fact.dtype is not None and fact.shape is not None
        other = category(fact.dtype)
        if other is not None and number is Number.MIXED and other is not Number.FLOAT:
            raise Unlike(f"may be an int or a float, and meets a {fact.dtype} tensor")
        if fact.shape or other is None or other < number:
            continue
        if is_reduced(fact):
            raise Unlike(
                f"meets a {fact.dtype} tensor without dimensions: there the sum is rounded differently"
            )
        if other is Number.INT and fact.dtype != "torch.int64":
            raise Unlike(f"meets a {fact.dtype} tensor without dimensions, whose range it may exceed")


def is_reduced(fact: Fact) -> bool:
    return fact.dtype in ("torch.float16", "torch.bfloat16") or "float8" in (fact.dtype or "")
