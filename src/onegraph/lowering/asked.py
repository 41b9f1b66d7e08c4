"""A number or size as a symbol of the graph, or the code around it as one op?

A symbol keeps that code in the graph; but where Python asks for its value (in a condition, as the trips of a loop), the
graph ends there after all.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator

from onegraph.lowering.effect_scope import COMPREHENSIONS, loads, stores
from onegraph.lowering.written import written_in_op
from onegraph.model import Candidate, Declined
from onegraph.rewrite import text as text_
from onegraph.rewrite.request import Request


def captured_or_op(
    request: Request, kind: str, captured: Callable[[Request, str], Iterator[Candidate]]
) -> Iterator[Candidate | Declined]:
    """A symbol of the graph (``captured``), and the code around the site as an op: the symbol first, unless Python asks
    for its value."""
    op = written_in_op(request, kind)
    if is_asked(request):
        yield from op
        yield from captured(request, kind)
    else:
        yield from captured(request, kind)
        yield from op


def is_asked(request: Request) -> bool:
    """Whether what the site's statement binds, or what is made of that, decides something in its function. A symbol of
    the graph has no value to decide by."""
    tree = text_.parse(request.text)
    statement = text_.statement_at(tree, request.site.span)
    function = text_.find_function(tree, request.site.function, request.site.span.line)
    if statement is None or function is None:
        return False
    asked = _Asked(request, function)
    names = asked.made_of(stores(statement) if isinstance(statement, ast.Assign) else set())
    at = {n for n in text_.path_at(tree, request.site.span) if isinstance(n, ast.expr)}
    return any(at & set(ast.walk(each)) or names & _read(each) for each in asked.questions())


def _read(node: ast.AST) -> set[str]:
    return {name.id for name in loads(node)}


class _Asked:
    """What Python has to know in a function."""

    def __init__(self, request: Request, function: ast.AST) -> None:
        self._request = request
        self._nodes = list(ast.walk(function))

    def made_of(self, names: set[str]) -> set[str]:
        """The names, and those that their sizes and numbers go into: a tensor holds values, Python does not."""
        made = [(_read(n.value), stores(n), n.value) for n in self._nodes if isinstance(n, ast.Assign)]
        plain = [(read, bound) for read, bound, value in made if not self._is_tensor(value)]
        found = set(names)
        while more := {name for read, bound in plain if found & read for name in bound} - found:
            found |= more
        return found

    def questions(self) -> Iterator[ast.expr]:
        """Conditions that are no tensors, and what loops run over."""
        for node in self._nodes:
            if isinstance(node, ast.If | ast.While | ast.IfExp) and not self._is_tensor(node.test):
                yield node.test
            elif isinstance(node, ast.For):
                yield node.iter
            elif isinstance(node, COMPREHENSIONS):
                yield from (part.iter for part in node.generators)

    def _is_tensor(self, node: ast.expr) -> bool:
        (facts,) = self._request.facts.values(node)
        return bool(facts) and all(fact.is_tensor for fact in facts)
