"""Instructions that can be run for real: how many values each takes from the stack, and what it makes of
them."""

from __future__ import annotations

import dis
import operator
from collections.abc import Callable
from typing import Any

Run = Callable[..., Any]

_BY_SYMBOL: dict[str, Run] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "/": operator.truediv,
    "//": operator.floordiv,
    "%": operator.mod,
    "@": operator.matmul,
    "**": operator.pow,
    "&": operator.and_,
    "|": operator.or_,
    "^": operator.xor,
    "<<": operator.lshift,
    ">>": operator.rshift,
    "[]": operator.getitem,
    "<": operator.lt,
    "<=": operator.le,
    "==": operator.eq,
    "!=": operator.ne,
    ">": operator.gt,
    ">=": operator.ge,
}
_UNARY: dict[str, Run] = {
    "UNARY_NEGATIVE": operator.neg,
    "UNARY_INVERT": operator.invert,
    "UNARY_NOT": operator.not_,
    "UNARY_POSITIVE": operator.pos,
    "FORMAT_SIMPLE": format,
}
_CONVERSIONS: dict[int, Run] = {0: lambda value: value, 1: str, 2: repr, 3: ascii}


def operation(instruction: Any) -> tuple[int, Run] | None:
    """(operands, function of them) of an instruction that pushes one result, else None."""
    name = instruction.opname
    if name in _UNARY:
        return 1, _UNARY[name]
    match name:
        case "BINARY_SUBSCR":
            return 2, operator.getitem
        case "BINARY_SLICE":
            return 3, lambda owner, start, stop: owner[start:stop]
        case "BINARY_OP":
            return _binary(dis._nb_ops[instruction.arg][1])  # type: ignore[attr-defined]
        case "COMPARE_OP":
            return _binary(str(instruction.argval).removeprefix("bool(").removesuffix(")"))
        case "IS_OP":
            return 2, lambda left, right: (left is right) != bool(instruction.arg)
        case "CONTAINS_OP":
            return 2, lambda item, owner: (item in owner) != bool(instruction.arg)
        case "BUILD_SLICE":
            return instruction.arg, lambda *bounds: slice(*bounds)
        case "BUILD_STRING":
            return instruction.arg, lambda *parts: "".join(parts)
        case "FORMAT_VALUE":
            convert = _CONVERSIONS[instruction.arg & 3]
            with_spec = bool(instruction.arg & 4)
            return 1 + with_spec, lambda value, spec="": format(convert(value), spec)
        case "FORMAT_WITH_SPEC":
            return 2, format
        case "CONVERT_VALUE":
            return 1, _CONVERSIONS[instruction.arg]
    return None


def effect(instruction: Any) -> tuple[int, Run] | None:
    """(operands, function of them) of an instruction that pushes nothing, else None."""
    match instruction.opname:
        case "STORE_ATTR":
            return 2, lambda value, owner: setattr(owner, instruction.argval, value)
        case "DELETE_ATTR":
            return 1, lambda owner: delattr(owner, instruction.argval)
        case "STORE_SUBSCR":
            return 3, lambda value, owner, key: operator.setitem(owner, key, value)
        case "DELETE_SUBSCR":
            return 2, operator.delitem
    return None


def _binary(symbol: str) -> tuple[int, Run] | None:
    run = _BY_SYMBOL.get(symbol) or _BY_SYMBOL.get(symbol.removesuffix("="))
    return None if run is None else (2, run)
