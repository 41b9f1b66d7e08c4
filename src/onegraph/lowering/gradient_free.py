"""State that gets no gradient: by the text, nothing that is written to it brings one along.

Beside a value with a gradient torch.cond makes everything require one; such state is detached again.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence

from onegraph.lowering import state

_OFF = ("no_grad", "inference_mode")


def only_free_writes(key: str, block: Sequence[ast.stmt]) -> bool:
    """Whether the block writes to the attribute, and only what has no gradient if the attribute had none."""
    found = list(_judged(key, block))
    return bool(found) and all(found)


def _judged(key: str, block: Sequence[ast.stmt], *, off: bool = False) -> Iterator[bool]:
    """For each statement that writes to the attribute, whether it brings no gradient; ``off``: under ``no_grad``."""
    for statement in block:
        if key in written(statement):
            yield off or _is_free(statement, key)
        inside = off or (isinstance(statement, ast.With) and any(map(_switches_off, statement.items)))
        for name in ("body", "orelse", "finalbody"):
            yield from _judged(key, getattr(statement, name, []), off=inside)
        for case in getattr(statement, "cases", []):
            yield from _judged(key, case.body, off=inside)


def written(statement: ast.stmt) -> set[str]:
    """The attributes that a statement itself writes, as a whole or in place."""
    if isinstance(statement, ast.If | ast.For | ast.While | ast.With | ast.Match | ast.Try):
        return set()
    targets = statement.targets if isinstance(statement, ast.Assign) else [getattr(statement, "target", None)]
    found = {key for t in targets if isinstance(t, ast.expr) and (key := state.key_of(t))}
    return {key for key in found | state.written_in_place(statement) if "." in key}


def _switches_off(item: ast.withitem) -> bool:
    return ast.unparse(item.context_expr).removesuffix("()").rpartition(".")[2] in _OFF


def _is_free(statement: ast.stmt, key: str) -> bool:
    if isinstance(statement, ast.Assign | ast.AugAssign):
        return _free(statement.value, key)
    if isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Call):
        call = statement.value
        return all(_free(part, key) for part in (*call.args, *(k.value for k in call.keywords)))
    return False


def _free(value: ast.expr, key: str) -> bool:
    if isinstance(value, ast.Constant) or state.key_of(value) == key:
        return True
    if isinstance(value, ast.BinOp):
        return _free(value.left, key) and _free(value.right, key)
    if isinstance(value, ast.UnaryOp):
        return _free(value.operand, key)
    return (
        isinstance(value, ast.Call) and isinstance(value.func, ast.Attribute) and value.func.attr == "detach"
    )
