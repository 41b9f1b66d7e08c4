"""Finding the syntax node at a reported position, with its parents; each text is parsed once."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import lru_cache

from onegraph.model import Span


@lru_cache(maxsize=64)
def parse(text: str) -> ast.Module | None:
    """The tree of ``text``, every node linked to its parent; None where the text isn't Python. Shared:
    don't edit."""
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError):
        return None
    for parent in ast.walk(tree):
        for child in ast.iter_child_nodes(parent):
            child.parent = parent  # type: ignore[attr-defined]
    return tree


def innermost(tree: ast.AST, span: Span) -> ast.stmt | ast.expr | None:
    """The smallest statement or expression that contains ``span``; None when no node does."""
    start, end = (span.line, span.column), (span.end_line, span.end_column)
    found: ast.stmt | ast.expr | None = None
    level = list(ast.iter_child_nodes(tree))
    while level:
        node = level.pop()
        if not isinstance(node, ast.stmt | ast.expr):
            if not isinstance(node, ast.expr_context | ast.operator | ast.boolop | ast.cmpop | ast.unaryop):
                level += ast.iter_child_nodes(
                    node
                )  # arguments, withitem, match_case, ...: no reliable position
        elif _start(node) <= start and end <= (node.end_lineno or 0, node.end_col_offset or 0):
            found = node
            level = list(ast.iter_child_nodes(node))
    return found


def parents(node: ast.AST) -> Iterator[ast.AST]:
    """The nodes around ``node`` from the inside out, up to the module. ``node`` comes from `parse`."""
    while (parent := getattr(node, "parent", None)) is not None:
        yield parent
        node = parent


def statement(node: ast.AST) -> ast.stmt | None:
    """The statement that ``node`` is, or belongs to."""
    for candidate in (node, *parents(node)):
        if isinstance(candidate, ast.stmt):
            return candidate
    return None


def function(node: ast.AST) -> ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda | None:
    """The innermost function that ``node`` stands in."""
    for candidate in parents(node):
        if isinstance(candidate, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            return candidate
    return None


def _start(node: ast.stmt | ast.expr) -> tuple[int, int]:
    """Where a node starts, its decorators included (``ast`` counts from ``def``)."""
    first = getattr(node, "decorator_list", None) or [node]
    return min((node.lineno, node.col_offset), (first[0].lineno, first[0].col_offset))
