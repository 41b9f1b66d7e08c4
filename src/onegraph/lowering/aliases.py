"""Which other names hold the tensor of a name, or a view of it: a change in place reaches them all."""

from __future__ import annotations

import ast

from onegraph.lowering import flow
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
