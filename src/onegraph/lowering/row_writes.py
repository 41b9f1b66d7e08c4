"""Whether statements of a trip do nothing where the rows that they select are none.

So it is where all that outlives the trip are writes into those rows, and nothing is noted or counted.
"""

from __future__ import annotations

import ast
from collections.abc import Sequence

from onegraph.lowering import choice, pure_code
from onegraph.lowering.effect_scope import loads, stores
from onegraph.lowering.refused import Refused

_BY_ROWS = frozenset((
    "index_add_", "index_copy_", "index_fill_", "index_put_", "index_reduce_", "scatter_", "scatter_add_",
))  # fmt: skip
_NOTED = frozenset(
    ("append", "extend", "insert", "print", "debug", "info", "warning", "warn", "error", "log")
)


def check(function: ast.AST, loop: ast.For, statements: Sequence[ast.stmt], rows: set[str]) -> None:
    """``statements`` are in the loop's body, up to its end. Raises Refused where they may do more."""
    bound = {name for s in statements for name in stores(s)}
    places = pure_code.names_stored(loop.target)
    carried = pure_code.exposed(loop.body, frozenset(places))[0] & bound
    inside = {id(n) for n in ast.walk(loop)}
    behind = {n.id for n in loads(function) if id(n) not in inside and n.lineno > loop.lineno}
    if left := sorted(carried | (behind & (bound | places))):
        raise Refused(
            f"`{left[0]}` goes from one trip of the loop to the next, or out of it.",
            "Add to a tensor in place.",
        )
    for place in pure_code.written_roots(statements):
        root = pure_code.root_of(place)
        if not (isinstance(root, ast.Name) and root.id in bound) and not _by_rows(loop, place, rows):
            raise Refused(
                f"Line {place.lineno} may write into other rows than the selected ones.",
                "Write into selected rows: index_add_, or out[rows] = ....",
            )
    for part in (n for s in statements for n in ast.walk(s)):
        if isinstance(part, ast.Attribute) and isinstance(part.ctx, ast.Store):
            raise Refused(f"Line {part.lineno} sets the attribute `{part.attr}`.", "Set it behind the loop.")
        if isinstance(part, ast.Call) and choice.called(part) in _NOTED:
            raise Refused(
                f"Line {part.lineno} calls `{choice.called(part)}` in each trip.", "Move it out of the loop."
            )
        if isinstance(
            part, ast.Break | ast.Return | ast.Raise | ast.Yield | ast.Global | ast.Nonlocal | ast.Delete
        ):
            raise Refused(
                f"Line {part.lineno} does more than compute in a trip of the loop.", "Let every trip run."
            )


def _by_rows(loop: ast.For, place: ast.expr, rows: set[str]) -> bool:
    """Whether a write goes to selected rows alone: ``out[rows] = ``, ``out.index_add_(0, rows, ...)``."""
    if isinstance(place, ast.Subscript):
        parts = place.slice.elts if isinstance(place.slice, ast.Tuple) else [place.slice]
        return any(isinstance(part, ast.Name) and part.id in rows for part in parts)
    for call in ast.walk(loop):
        if isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute) and call.func.value is place:
            given = [*call.args[:2], *(k.value for k in call.keywords if k.arg == "index")]
            return call.func.attr in _BY_ROWS and any(isinstance(g, ast.Name) and g.id in rows for g in given)
    return False
