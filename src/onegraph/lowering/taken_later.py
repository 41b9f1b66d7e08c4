"""A number with a name, ``loss = t.item()``, that is only kept, printed and logged is taken out of its tensor there."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator

from onegraph.lowering import choice
from onegraph.lowering.effect_scope import loads, scope_of
from onegraph.lowering.effect_shapes import Effects
from onegraph.lowering.effects import HELPER
from onegraph.lowering.kept_numbers import place_of
from onegraph.lowering.numbers import taken_from
from onegraph.model import Candidate, Level
from onegraph.rewrite import text as text_
from onegraph.rewrite.request import Request


def taken_later(request: Request, kind: str) -> Iterator[Candidate]:
    """A first step: ``loss = t.item()`` becomes a copy of the tensor where the number is only kept, printed and logged.
    Each of these statements takes the number out itself.
    """
    tree = text_.parse(request.text)
    at = text_.statement_at(tree, request.site.span)
    match at:
        case ast.Assign(targets=[ast.Name(id=name)], value=ast.Call() as call):
            pass
        case _:
            return
    if isinstance(call.func, ast.Name) and call.func.id != "float":
        return
    scope, tensor = scope_of(tree, at), taken_from(call)
    if scope.function is None or tensor is None or len(scope.bindings(name)) != 1:
        return
    inside = [node for node in loads(scope.function) if node.id == name]
    read = [_number_of(tree, node, call, first=node is inside[0]) for node in inside]
    floating = all(f.is_tensor and "float" in str(f.dtype) for f in request.facts.values(tensor)[0])
    if not inside or None in read or not floating or _in_inner_function(scope.function, inside):
        return
    # torch warns where float() meets a tensor that requires grad, once as before; .item() never does
    detached = ".detach()" if isinstance(call.func, ast.Attribute) else ""
    torch_copy = f"{text_.segment(request.text, tensor)}{detached}.clone()"
    text = text_.replace_spans(
        request.text,
        [(*text_.position(call), torch_copy), *(edit for edits in read for edit in edits or ())],
    )
    title = f"`{name}` is taken out of its tensor where it is kept or shown"
    function = request.site.function
    yield Candidate(kind, Level.RELAXED, title, text, (function,), partial=True)


def _number_of(tree: ast.Module, node: ast.Name, call: ast.Call, *, first: bool) -> list[text_.Edit] | None:
    """The edits that make a read of the number one of the tensor; None where it is more than kept or shown."""
    at = statement_of(tree, node)
    op = op_called(tree, at)
    if op is not None:
        return given_the_tensor(op, at, node)
    if not (place_of(at) is not None or Effects(tree).only([at])):
        return None
    method = call.func.attr if isinstance(call.func, ast.Attribute) else "item"
    if first and isinstance(call.func, ast.Name):
        return read_as(at, node, f"{call.func.id}({node.id})")
    return read_as(at, node, f"{node.id}.{method}()")


def read_as(
    at: ast.AST, node: ast.Name, words: str, stays: Callable[[ast.expr], bool] | None = None
) -> list[text_.Edit] | None:
    """The edits that write ``words`` for a name. In a formatted string it stays: a tensor without dimensions is
    formatted as its number. ``stays`` tells for which values it may, else for the name alone. (Positions in there are
    not to be trusted.)
    """
    for part in ast.walk(at):
        if isinstance(part, ast.FormattedValue) and node in ast.walk(part):
            alike = part.value is node if stays is None else stays(part.value)
            return [] if alike and part.conversion == -1 else None
    return [(*text_.position(node), words)]


def op_called(tree: ast.Module, at: ast.stmt) -> ast.FunctionDef | None:
    """The op of an earlier repair that a statement calls, and nothing else calls."""
    match at:
        case ast.Expr(value=ast.Call(func=ast.Name(id=name))):
            calls = [n for n in ast.walk(tree) if isinstance(n, ast.Call) and choice.called(n) == name]
            ops = [s for s in tree.body if isinstance(s, ast.FunctionDef) and s.name == name]
            made = [d.id for s in ops for d in s.decorator_list if isinstance(d, ast.Name)]
            return ops[0] if len(calls) == 1 and made and made[0].startswith(HELPER) else None
    return None


def given_the_tensor(op: ast.FunctionDef, at: ast.stmt, node: ast.Name) -> list[text_.Edit] | None:
    """The op gets the tensor as it is, and takes the number out of it."""
    assert isinstance(at, ast.Expr) and isinstance(at.value, ast.Call)
    if node not in at.value.args:
        return None
    parameter = op.args.args[at.value.args.index(node)]
    annotation = parameter.annotation
    if not isinstance(annotation, ast.Attribute) or annotation.attr != "Number":
        return None
    torch = ast.unparse(annotation).partition(".")[0]
    read = [read_as(op, name, f"{name.id}.item()") for name in loads(op) if name.id == parameter.arg]
    if None in read:
        return None
    return [
        (*text_.position(annotation), f"{torch}.Tensor"),
        *(edit for edits in read for edit in edits or ()),
    ]


def statement_of(tree: ast.Module, node: ast.AST) -> ast.stmt:
    """The innermost statement around a node; by the node itself, for positions in formatted strings are not to be
    trusted.
    """
    return next(part for part in ast.walk(tree) if isinstance(part, ast.stmt) and node in _own(part))


def _own(statement: ast.stmt) -> Iterator[ast.AST]:
    """The nodes of a statement, without those of statements in it."""
    for child in ast.iter_child_nodes(statement):
        if not isinstance(child, ast.stmt):
            yield from ast.walk(child)


def _in_inner_function(function: ast.AST, nodes: list[ast.Name]) -> bool:
    inner = [
        part
        for part in ast.walk(function)
        if part is not function and isinstance(part, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)
    ]
    return any(node in ast.walk(part) for part in inner for node in nodes)
