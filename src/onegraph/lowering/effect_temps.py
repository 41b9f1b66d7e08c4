"""Names that a statement binds beside its effect: they live on in the op only."""

from __future__ import annotations

import ast

from onegraph.lowering.effect_facts import expressions
from onegraph.lowering.effect_scope import Scope, free_names, loads, stores
from onegraph.lowering.refused import Refused


def check(statement: ast.stmt, names: frozenset[str], scope: Scope) -> None:
    """Raises Refused where such a name is needed outside, or has a value before the statement."""
    function = scope.function
    if not names or function is None:
        return
    inside = set(ast.walk(statement))
    used = {node.id for node in loads(function) if node not in inside} & names
    if used and not _always_raises(statement):
        raise Refused(
            f"`{', '.join(sorted(used))}` is set beside the effect and used after it.",
            "Set it before the effect, in a statement of its own.",
        )
    first: dict[str, ast.Name] = {}
    for node in expressions(statement, every=True):
        if isinstance(node, ast.Name) and node.id in names:
            first.setdefault(node.id, node)
    for name, node in first.items():
        # the value of an assignment comes behind its target in the tree, before it in time
        if isinstance(node.ctx, ast.Load) or _reads_itself(statement, name):
            raise Refused(f"`{name}` is changed beside the effect.", "Use a new name for the changed value.")


def _always_raises(statement: ast.stmt) -> bool:
    match statement:
        case ast.Raise():
            return True
        case ast.If(body=then, orelse=otherwise):
            return _always_raises(then[-1]) and (not otherwise or _always_raises(otherwise[-1]))
    return False


def _reads_itself(statement: ast.stmt, name: str) -> bool:
    return any(
        isinstance(node, ast.Assign | ast.AugAssign)
        and name in stores(node)
        and (isinstance(node, ast.AugAssign) or name in free_names(node.value))
        and not any(
            isinstance(before, ast.Assign) and name in stores(before) and before.lineno < node.lineno
            for before in ast.walk(statement)
        )
        for node in ast.walk(statement)
    )
