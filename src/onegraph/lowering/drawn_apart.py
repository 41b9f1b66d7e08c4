"""What draws random numbers inside of a larger expression gets a name in front of the statement, and becomes an op."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import replace

from onegraph.lowering import effect_text, pure_code, streams
from onegraph.lowering.drawn import drawn_in_op, may_be_result
from onegraph.lowering.effect_scope import COMPREHENSIONS, Scope, scope_of
from onegraph.lowering.refused import Refused
from onegraph.model import Candidate, Declined, Span
from onegraph.rewrite import text as text_
from onegraph.rewrite.request import Request

_HELD = ast.IfExp | ast.BoolOp | ast.Lambda | ast.NamedExpr | ast.Compare  # may not evaluate what they hold


def drawn_apart(request: Request, kind: str) -> Iterator[Candidate | Declined]:
    """The largest expression around the site that only draws, as a statement of its own."""
    tree = text_.parse(request.text)
    statement = text_.statement_at(tree, request.site.span)
    if not isinstance(statement, ast.Return | ast.Assign | ast.AugAssign | ast.Expr | ast.AnnAssign):
        return
    scope = scope_of(tree, statement)
    node = _largest(request, tree, scope, statement)
    if scope.function is None or node is None or not effect_text.owns_lines(request.text, statement):
        return
    name = text_.unused_name(tree, "drawn")
    indent, at = text_.indent_of(request.text, statement.lineno), text_.first_line(statement)
    edits: list[text_.Edit] = [(*text_.position(node), name)]
    row = text_.wrap_call(f"{indent}{name} = {text_.segment(request.text, node)}")
    text = text_.replace_spans(request.text, [*edits, (at, 0, at, 0, f"{row}\n")])
    qualified = next(q for q, each in text_.functions(tree) if each is scope.function)
    assert request.measure is not None, "repairs in steps are measured"
    facts = request.measure(text, (qualified,))
    column = len(indent.encode())
    span = Span(request.site.span.file, at, column, at, column + len(name))
    named = replace(request, text=text, facts=facts, site=replace(request.site, span=span))
    yield from drawn_in_op(named, kind)


def _largest(request: Request, tree: ast.Module, scope: Scope, statement: ast.stmt) -> ast.expr | None:
    """An expression inside the statement's own that only draws, and that no condition guards."""
    found: ast.expr | None = None
    path = text_.path_at(tree, request.site.span)
    inside = path[next(n for n, each in enumerate(path) if each is statement) + 1 :]
    for node in reversed(inside):
        if not isinstance(node, ast.expr) or isinstance(node, _HELD):
            break
        if isinstance(node, COMPREHENSIONS):
            found = None
        if _only_draws(request, tree, scope, node):
            found = node
    whole = getattr(statement, "value", None)
    plain = isinstance(statement, ast.Assign) and all(isinstance(t, ast.Name) for t in statement.targets)
    return None if found is whole and (plain or isinstance(statement, ast.Expr)) else found


def _only_draws(request: Request, tree: ast.Module, scope: Scope, node: ast.expr) -> bool:
    (facts,) = request.facts.values(node)
    statement = ast.copy_location(ast.Expr(node), node)
    drawn = streams.drawn(request, tree, scope, [statement])
    if not drawn.draws or not facts or not all(map(may_be_result, facts)):
        return False
    try:
        pure_code.check(tree, [statement], scope.names, also=drawn.allowed)
        streams.check_values(request, scope, [statement])
    except Refused:
        return False
    return True
