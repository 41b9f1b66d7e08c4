"""Which other names hold the tensor of a name, or a view of it: a change in place reaches them all."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from onegraph.lowering import flow
from onegraph.lowering.state import key_of
from onegraph.lowering.written_behind import makes_new
from onegraph.rewrite import text as edit
from onegraph.rewrite.request import Facts


def sharing(name: str, at: ast.stmt, function: edit.Function, facts: Facts) -> frozenset[str]:
    """The names of the function that shared storage with ``name`` just before a statement, itself among them."""
    arguments = {a.arg for a in ast.walk(function.args) if isinstance(a, ast.arg)}
    body = function.body if isinstance(function.body, list) else []
    seen = facts.names(at, sorted(arguments | flow.binds(body) | {name}))
    mine = {fact.storage for fact in seen.get(name, ()) if fact.is_tensor}
    return frozenset(
        {name, *(other for other, found in seen.items() if mine & {f.storage for f in found if f.is_tensor})}
    )


def holders(code: str, function: edit.Function) -> frozenset[str]:
    """The names and attributes that hold what the code of an expression gives, or that it is a view of."""
    arguments = {a.arg for a in ast.walk(function.args) if isinstance(a, ast.arg)}
    own = arguments | flow.binds(function.body if isinstance(function.body, list) else [])
    return frozenset(key for key in _keys(ast.parse(code, mode="eval").body) if key.partition(".")[0] in own)


def linked(key: str, function: edit.Function) -> frozenset[str]:
    """The names and attributes that assignments of the function may let share memory with an attribute: nobody
    measured what it held where it is only written."""
    pairs = [
        (_keys(target), _keys(value)) for target, value in _assignments(function) if not makes_new(value)
    ]
    found = frozenset({key})
    while more := {k for t, v in pairs if (t | v) & found for k in t | v} - found:
        found |= more
    return found


def _assignments(function: edit.Function) -> Iterator[tuple[ast.expr, ast.expr]]:
    for node in ast.walk(function):
        if isinstance(node, ast.Assign):
            yield from ((target, node.value) for target in node.targets)
        elif isinstance(node, ast.NamedExpr | ast.AnnAssign) and node.value is not None:
            yield node.target, node.value


def _keys(node: ast.expr) -> frozenset[str]:
    """Whose memory the value of an expression may be."""
    if (key := key_of(node)) is not None:
        return frozenset({key})
    if isinstance(node, ast.Call):
        owner = [node.func.value] if isinstance(node.func, ast.Attribute) else []
        parts = [*owner, *node.args, *(keyword.value for keyword in node.keywords)]
    elif isinstance(node, ast.Subscript | ast.Starred | ast.NamedExpr | ast.Attribute):
        parts = [node.value]
    else:
        parts = [n for n in ast.iter_child_nodes(node) if isinstance(n, ast.expr)]
    return frozenset[str]().union(*map(_keys, parts))
