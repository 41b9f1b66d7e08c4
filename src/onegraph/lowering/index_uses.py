"""Whether a list of ints is only used in ways that a tensor of them serves as well."""

from __future__ import annotations

import ast

from onegraph.lowering import pure_code
from onegraph.lowering.effect_shapes import dotted
from onegraph.rewrite import text as text_
from onegraph.rewrite.request import Request

_TAKES_BOTH = frozenset(("as_tensor", "asarray", "len"))


def only_indexes(request: Request, function: ast.AST, node: ast.expr) -> bool:
    """Whether what a node is used for is to index tensors, to make a tensor, or to count."""
    path = text_.path_at(text_.parse(request.text), text_.span_of(node))
    parent = _parent(path, node)
    match parent:
        case ast.Subscript(value=value, slice=ast.Slice()) if _is(value, node):
            return only_indexes(request, function, parent)
        case ast.Subscript(value=value, slice=index) if _is(index, node):
            return _is_tensor(request, value)
        case ast.Tuple():
            outer = _parent(path, parent)
            return (
                isinstance(outer, ast.Subscript)
                and _is(outer.slice, parent)
                and _is_tensor(request, outer.value)
            )
        case ast.Call(func=called, args=[first, *_]) if _is(first, node):
            return (dotted(called) or "").rpartition(".")[2] in _TAKES_BOTH
        case ast.For(iter=iterated, target=ast.Name(id=name), body=body) if _is(iterated, node):
            reads = [n for s in body for n in ast.walk(s) if isinstance(n, ast.Name) and n.id == name]
            behind = [n for n in ast.walk(function) if isinstance(n, ast.Name) and n.id == name]
            inside = {id(n) for n in ast.walk(parent)}
            if any(id(n) not in inside for n in behind) or any(isinstance(n.ctx, ast.Store) for n in reads):
                return False
            return all(only_indexes(request, function, n) for n in reads)
    return False


def _parent(path: tuple[ast.AST, ...], node: ast.AST) -> ast.AST | None:
    at = next((n for n, each in enumerate(path) if _is(each, node)), 0)
    return path[at - 1] if at else None


def _is(one: ast.AST, other: ast.AST) -> bool:
    """The same node, maybe in another tree of the text."""
    return type(one) is type(other) and text_.position(one) == text_.position(other)


def _is_tensor(request: Request, node: ast.expr) -> bool:
    (facts,) = request.facts.values(node)
    return (
        bool(facts)
        and all(fact.is_tensor for fact in facts)
        and not isinstance(pure_code.root_of(node), ast.Constant)
    )
