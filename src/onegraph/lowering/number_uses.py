"""What a Python number is used for that a tensor can't serve, and what the text says of the numbers in it."""

from __future__ import annotations

import ast
from enum import Enum

from onegraph.lowering.numbers import Number
from onegraph.rewrite import text as source

KEEP = "Keep the value a tensor there, or compute it outside the compiled function."


class Bound(Enum):
    """A use that only a Python number can serve: what it is, and the next step."""

    RETURN = ("is returned", "Return the tensor, and call .item() on it outside the compiled function.")
    RAISED = (
        "is part of an exception",
        "Raise with a constant message, or check outside the compiled function.",
    )
    CONDITION = ("decides a condition", "Test the tensor itself: onegraph mends branches on tensors.")
    LOOP = ("sets the course of a loop", "Loop a fixed number of times, and mask what is too much.")
    INDEX = (
        "is used as an index or a bound",
        "Index with the tensor: x.index_select(0, i.view(1)).squeeze(0).",
    )
    SIZE = (
        "is used as a size",
        "Use the largest size and a mask, or set torch._dynamo.config.capture_scalar_outputs.",
    )
    TEXT = ("is put into a text", "Make the text outside the compiled function.")
    PRINT = ("is printed", "Print outside the compiled function.")
    LOG = ("is logged", "Log outside the compiled function.")
    COLLECTED = ("is kept in a list, tuple, set or dict", KEEP)
    STORED = ("is stored outside the function's own variables", "Store the detached tensor instead.")
    ATTRIBUTE = ("is asked for an attribute of Python numbers", KEEP)
    INNER = ("is read by an inner function", "Pass the tensor to it as an argument.")
    CALL = ("is passed to a function", KEEP)
    PATHS = ("has another type on another path", KEEP)
    OTHER = ("is used in a way that needs a Python number", KEEP)


class NotAlike(Exception):
    """A use that a 0-dim tensor can't serve exactly. ``use`` ends the sentence "the number ..."."""

    def __init__(self, node: ast.AST, use: Bound | str, next_step: str = KEEP) -> None:
        self.node = node
        self.use, self.next_step = use.value if isinstance(use, Bound) else (use, next_step)
        super().__init__(self.use)


def targets(node: ast.Assign) -> list[str]:
    return [part.id for target in node.targets for part in ast.walk(target) if isinstance(part, ast.Name)]


def bound_in(function: ast.AST) -> set[str]:
    """The names that a function binds."""
    stored = {n.id for n in ast.walk(function) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}
    return stored | {n.arg for n in ast.walk(function) if isinstance(n, ast.arg)}


def literal_of(node: ast.expr) -> int | float | None:
    """The value of a literal number, with its sign."""
    sign = 1
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub | ast.UAdd):
        sign, node = (-1 if isinstance(node.op, ast.USub) else 1), node.operand
    value = node.value if isinstance(node, ast.Constant) else None
    return sign * value if isinstance(value, int | float) and not isinstance(value, bool) else None


def literal_numbers(tree: ast.Module, function: ast.AST, node: ast.expr) -> Number | None:
    """The type of the numbers in a list or tuple that is written out where its name is bound, once."""
    if not isinstance(node, ast.Name):
        return None
    inside = [n for n in ast.walk(function) if isinstance(n, ast.Assign) and node.id in targets(n)]
    if not inside and node.id in bound_in(function):
        return None
    bound: list[ast.stmt] = [*inside] or [
        s for s in source.toplevel(tree) if node.id in source.bound_names(s)
    ]
    value = bound[0].value if len(bound) == 1 and isinstance(bound[0], ast.Assign) else None
    uses = [n for n in ast.walk(tree) if isinstance(n, ast.Name) and n.id == node.id]
    read = {
        id(n.value) for n in ast.walk(tree) if isinstance(n, ast.Subscript) and isinstance(n.ctx, ast.Load)
    }
    if any(id(n) not in read and isinstance(n.ctx, ast.Load) for n in uses):
        return None  # somebody may change it
    if not isinstance(value, ast.List | ast.Tuple) or not value.elts:
        return None
    found = {type(literal_of(element)) for element in value.elts}
    return {float: Number.FLOAT, int: Number.INT}.get(found.pop()) if len(found) == 1 else None


def repeatable(node: ast.expr) -> bool:
    """An expression that can be written twice: a name, or attributes of one."""
    while isinstance(node, ast.Attribute):
        node = node.value
    return isinstance(node, ast.Name)


def sign_of(op: ast.operator) -> str:
    return ast.unparse(ast.BinOp(ast.Name("a"), op, ast.Name("b")))[2:-2]
