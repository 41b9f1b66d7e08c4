"""Loggers made in the function, and helpers that write once because a cache stands in front of them."""

from __future__ import annotations

import ast

from onegraph.lowering.effect_objects import GETTERS
from onegraph.lowering.effect_scope import free_names, scope_of
from onegraph.lowering.effect_shapes import SINKS, call_of, dotted
from onegraph.model import Candidate, Declined, Frame, Level
from onegraph.rewrite import text as text_
from onegraph.rewrite.request import Request

CACHES = ("lru_cache", "cache", "cached", "memoize", "once")


def made_in(statement: ast.stmt) -> ast.Call | None:
    """The call that makes the logger in ``logger = logging.getLogger(...)``."""
    match statement:
        case (
            ast.Assign(targets=[ast.Name()], value=ast.Call() as call)
            | ast.AnnAssign(target=ast.Name(), value=ast.Call() as call)
        ):
            return call if (dotted(call.func) or "").rpartition(".")[2] in GETTERS else None
    return None


def hoisted(request: Request, kind: str, statement: ast.stmt) -> Candidate | Declined:
    """``logger = _logger``, with ``_logger`` made once at module level."""
    call = made_in(statement)
    assert call is not None
    text, tree = request.text, text_.parse(request.text)
    scope = scope_of(tree, statement)
    if scope.function is None or free_names(call) & scope.names:
        return Declined(
            kind,
            f"The logger of line {statement.lineno} is made from values of the function.",
            "Make it at module level.",
        )
    name = text_.unused_name(tree, "_logger")
    made = f"{name} = {text_.segment(text, call)}"
    changed = text_.replace_spans(text, [(*text_.position(call), name)])
    changed = text_.insert_before_toplevel(changed, statement.lineno, made)
    qualified = next(n for n, node in text_.functions(tree) if node is scope.function)
    return Candidate(kind, Level.EXACT, "Make the logger once, at module level", changed, (qualified,))


def calls_once(request: Request) -> ast.stmt | None:
    """The statement that calls the helper in which the site stands, where the helper writes only once.

    What moves has to be the call: inside the compiler a cache in front of the helper is not asked again.
    None where the site is not in such a helper; raises LookupError where the call stands in another file.
    """
    tree = text_.parse(request.text)
    statement = text_.statement_at(tree, request.site.span)
    helper = scope_of(tree, statement).function if statement is not None else None
    if helper is None or not (is_cached(helper) or remembers(tree, helper)):
        return None
    caller = _caller(request)
    if caller is None:
        return None
    if caller.span.file != request.path:
        if is_cached(helper):
            raise LookupError(f"{caller.function} ({caller.span.file}:{caller.span.line})")
        return None
    outer = text_.statement_at(tree, caller.span)
    return outer if call_of(outer) is not None else None


def is_cached(function: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    """Whether a decorator caches the function."""
    for decorator in function.decorator_list:
        named = decorator.func if isinstance(decorator, ast.Call) else decorator
        if (dotted(named) or "").rpartition(".")[2] in CACHES:
            return True
    return False


def remembers(tree: ast.Module, function: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    """Whether a function writes to a global name: a home-made cache."""
    scope = scope_of(tree, function.body[0])
    for node in ast.walk(function):
        match node:
            case ast.Global():
                return True
            case ast.Call(func=ast.Attribute(value=ast.Name(id=name), attr=method)):
                if method in SINKS and name not in scope.names:
                    return True
            case ast.Subscript(value=ast.Name(id=name), ctx=ast.Store()) if name not in scope.names:
                return True
    return False


def _caller(request: Request) -> Frame | None:
    """The frame around the site's, without those of torch (its trace of a cached function)."""
    for break_ in request.site.breaks:
        stack = list(break_.stack)
        inner = [
            i for i, frame in enumerate(stack) if frame.span.file == request.path and _holds(frame, request)
        ]
        outer = [frame for frame in stack[: inner[-1]] if "/torch/" not in frame.span.file] if inner else []
        if outer:
            return outer[-1]
    return None


def _holds(frame: Frame, request: Request) -> bool:
    span = request.site.span
    return frame.span.line <= span.line and span.end_line <= max(frame.span.end_line, frame.span.line)
