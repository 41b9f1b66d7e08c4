"""The statement around a position: its text, normalised so that layout and comments don't matter, and its
lines."""

from __future__ import annotations

import ast
import copy
from dataclasses import dataclass
from functools import lru_cache

from onegraph.diagnose.source import text_of
from onegraph.model import MENDED, Span

_BLOCKS = ("body", "orelse", "finalbody", "handlers", "cases")


@dataclass(frozen=True, slots=True)
class Statement:
    """Of a compound statement (``if``, ``for``, ``def``) it is the header alone."""

    text: str
    first: int
    last: int


def statement_at(span: Span, fallback: str) -> Statement:
    """The innermost statement that holds ``span``; ``fallback`` is its text where the file can't be read."""
    file = span.file.removeprefix(MENDED)
    best: ast.stmt | None = None
    for node in _statements(text_of(file)):
        if _holds(node, span) and (best is None or _place(node) >= _place(best)):
            best = node
    if best is None:
        return Statement(" ".join(fallback.split()), span.line, span.end_line)
    return Statement(_header(best), best.lineno, _last_line(best))


@lru_cache(maxsize=64)
def _statements(text: str) -> tuple[ast.stmt, ...]:
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError):
        return ()
    return tuple(node for node in ast.walk(tree) if isinstance(node, ast.stmt))


def _place(node: ast.stmt) -> tuple[int, int]:
    return (node.lineno, node.col_offset)


def _holds(node: ast.stmt, span: Span) -> bool:
    """By line and column, for several statements may share a line; a span without columns is its lines."""
    first: list[ast.stmt | ast.expr] = [node, *getattr(node, "decorator_list", [])]
    start = min((each.lineno, each.col_offset) for each in first)
    end = (node.end_lineno or node.lineno, node.end_col_offset or 0)
    if (span.line, span.column) == (span.end_line, span.end_column):
        return start[0] <= span.line <= end[0]
    if start[0] < node.lineno:  # from the @ of the first decorator on
        start = (start[0], 0)
    return start <= (span.line, span.column) and (span.end_line, span.end_column) <= end


def _header(node: ast.stmt) -> str:
    if not any(getattr(node, name, None) for name in _BLOCKS):
        return ast.unparse(node)
    bare = copy.copy(node)
    for name in (*_BLOCKS, "decorator_list"):
        if hasattr(bare, name):
            setattr(bare, name, [])
    if isinstance(bare, ast.Try | ast.TryStar):
        return "try:"
    return ast.unparse(bare)


def _last_line(node: ast.stmt) -> int:
    """The last line of the header: the one before the first statement of its block."""
    inner = [
        child.lineno
        for name in ("body", "cases")
        for child in getattr(node, name, [])
        if hasattr(child, "lineno")
    ]
    inner += [case.pattern.lineno for case in getattr(node, "cases", [])]
    return max(node.lineno, min(inner) - 1) if inner else node.end_lineno or node.lineno
