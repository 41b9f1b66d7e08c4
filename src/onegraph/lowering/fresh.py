"""Whether nobody but one name can see the memory of a tensor, so that a new tensor may take the name."""

from __future__ import annotations

import ast

from onegraph.lowering import flow, ops
from onegraph.lowering.choice import called
from onegraph.lowering.place import Place
from onegraph.lowering.state import key_of
from onegraph.lowering.written_behind import makes_new
from onegraph.rewrite import text as edit
from onegraph.rewrite.request import Facts


def is_fresh(place: Place, name: str, node: ast.If, facts: Facts) -> bool:
    """Whether only this name can see the tensor's storage before the branch: it was computed here, and what it was
    given to doesn't need it any more."""
    behind = (node.lineno, node.col_offset) if not place.in_loop(node) else None
    if name in flow.captured(place.function, behind):
        return False
    start = _bound_at(place, name, node)
    arguments = {a.arg for a in ast.walk(place.function.args) if isinstance(a, ast.arg)}
    if name in arguments and start is None:
        return False
    first = edit.position(start)[:2] if start is not None else (0, 0)
    needed = flow.needed_first([node]) | place.live_after(node)
    for use in ast.walk(place.function):
        if not (isinstance(use, ast.Name) and use.id == name):
            continue
        at = (use.lineno, use.col_offset)
        if at < first or (behind is not None and at >= behind):
            continue
        parent = place.parents[use]
        if isinstance(use.ctx, ast.Store):
            if isinstance(parent, ast.AugAssign):
                continue
            value = _bound_to(place, use)
            if value is None or not makes_new(value):
                return False
        else:
            handed = _view_of(place, use)
            if _given_away(place, handed) and not _given_to_dead(place, handed, needed):
                return False
    locals_ = sorted(flow.binds(getattr(place.function, "body", [])) | arguments)
    seen = facts.names(node, locals_)
    mine = {fact.storage for fact in seen.get(name, ()) if fact.storage is not None}
    others = {f.storage for other, found in seen.items() if other in needed - {name} for f in found}
    return not mine & others


def _bound_at(place: Place, name: str, node: ast.If) -> ast.Assign | None:
    """The last statement of the function's own block in front of the branch that surely binds the name."""
    body = getattr(place.function, "body", [])
    around = {id(n) for n in place.around(node)}
    at = next((i for i, s in enumerate(body) if id(s) in around), 0)
    binding = (
        s
        for s in reversed(body[:at])
        if isinstance(s, ast.Assign) and any(key_of(t) == name for t in s.targets)
    )
    return next(binding, None)


def _given_to_dead(place: Place, use: ast.expr, needed: frozenset[str]) -> bool:
    """Whether the tensor only goes into local names that nobody reads from the branch on."""
    value: ast.AST = use
    parent = place.parents[use]
    if isinstance(parent, ast.Tuple):
        value, parent = parent, place.parents[parent]
    if isinstance(parent, ast.NamedExpr):
        return isinstance(parent.target, ast.Name) and parent.target.id not in needed
    if not isinstance(parent, ast.Assign) or parent.value is not value:
        return False
    parts = [part for target in parent.targets for part in ast.walk(target)]
    plain = all(isinstance(p, ast.Name | ast.Tuple | ast.Starred | ast.expr_context) for p in parts)
    return plain and not flow.binds(parent) & needed


def _view_of(place: Place, use: ast.Name) -> ast.expr:
    """The largest expression around a use that gives the tensor itself, or a view of it."""
    node: ast.expr = use
    while True:
        parent = place.parents[node]
        call = place.parents.get(parent)
        if isinstance(parent, ast.Subscript) and parent.value is node and isinstance(parent.ctx, ast.Load):
            node = parent
        elif isinstance(parent, ast.Attribute) and isinstance(call, ast.Call) and called(call) in ops.VIEWS:
            node = call
        else:
            return node


def _given_away(place: Place, use: ast.expr) -> bool:
    """Whether the tensor itself goes into another name, a container or a call for its effect."""
    parent = place.parents[use]
    if isinstance(parent, ast.Tuple):
        return not isinstance(place.parents[parent], ast.Return | ast.Subscript)
    if isinstance(parent, ast.Call):  # what changes a tensor in place keeps nothing of its arguments
        return isinstance(place.parents[parent], ast.Expr) and not called(parent).endswith("_")
    held = ast.Assign | ast.Starred | ast.List | ast.Set | ast.Dict | ast.keyword | ast.NamedExpr | ast.Yield
    return isinstance(parent, held)


def _bound_to(place: Place, name: ast.Name) -> ast.expr | None:
    """The value that an assignment binds to a name, also by position in a tuple."""
    parent = place.parents[name]
    if isinstance(parent, ast.Assign):
        return parent.value
    assign = place.parents.get(parent)
    if (
        isinstance(parent, ast.Tuple)
        and isinstance(assign, ast.Assign)
        and isinstance(assign.value, ast.Tuple)
    ):
        pairs = zip(parent.elts, assign.value.elts, strict=False)
        return next((value for target, value in pairs if target is name), None)
    return None
