"""What statements read of a tensor when they need none of its values: its shape, sizes, dtype or device."""

from __future__ import annotations

import ast
from collections.abc import Container, Iterator, Sequence

from onegraph.lowering import effect_names
from onegraph.lowering.effect_scope import Scope, loads
from onegraph.lowering.host_shapes import annotation
from onegraph.lowering.op_given import Given
from onegraph.rewrite import text as text_
from onegraph.rewrite.request import Request

_ATTRIBUTES = frozenset(("device", "dtype", "ndim", "shape"))
_METHODS = frozenset(("dim", "numel", "size"))


def described(
    request: Request, scope: Scope, statements: Sequence[ast.stmt], reads: Container[str]
) -> list[Given]:
    """A parameter for each ``x.shape``, ``len(x)``, ... of a tensor that is read in no other way."""
    found: dict[str, list[ast.expr]] = {}
    for name, nodes in _by_name(statements, reads).items():
        if all(node is not None for node in nodes):
            found[name] = [node for node in nodes if node is not None]
    every = [node for nodes in found.values() for node in nodes]
    names = [next(n for n in ast.walk(node) if isinstance(n, ast.Name) and n.id in found) for node in every]
    facts = dict(zip(every, request.facts.values(*every), strict=True))
    roots = dict(zip(every, request.facts.values(*names), strict=True))
    taken = {n for s in statements for n in text_.names(s)}
    given: dict[str, Given] = {}
    for node, root in zip(every, names, strict=True):
        kind = annotation(facts[node])
        if kind is None or not all(fact.is_tensor for fact in roots[node]):
            continue
        code = ast.unparse(node)
        if code in given:
            before = given[code]
            given[code] = Given(before.name, kind, code, facts[node], (*before.nodes, node), root.id)
            continue
        name = text_.unused_name(ast.Module([], []), effect_names.of_value(node, scope.names), taken)
        taken.add(name)
        given[code] = Given(name, kind, code, facts[node], (node,), root.id)
    return list(given.values())


def _by_name(
    statements: Sequence[ast.stmt], reads: Container[str]
) -> dict[str, list[ast.Attribute | ast.Call | None]]:
    """For each name the descriptions that it is read in; None for a read that is none."""
    found: dict[str, list[ast.Attribute | ast.Call | None]] = {}
    around = {id(name): node for s in statements for name, node in descriptions(s)}
    for statement in statements:
        for name in loads(statement):
            if name.id in reads:
                found.setdefault(name.id, []).append(around.get(id(name)))
    return found


def descriptions(statement: ast.stmt) -> Iterator[tuple[ast.Name, ast.Attribute | ast.Call]]:
    """Names, and the descriptions of their values that they stand in."""
    for node in ast.walk(statement):
        match node:
            case ast.Call(func=ast.Attribute(value=ast.Name() as name, attr=attr), args=args, keywords=[]):
                if attr in _METHODS and all(isinstance(arg, ast.Constant) for arg in args):
                    yield name, node
            case ast.Call(func=ast.Name(id="len"), args=[ast.Name() as name], keywords=[]):
                yield name, node
            case ast.Attribute(value=ast.Name() as name, attr=attr) if attr in _ATTRIBUTES:
                yield name, node
