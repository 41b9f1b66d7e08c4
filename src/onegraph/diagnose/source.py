"""The text at a position: what a site shows."""

from __future__ import annotations

import ast
import linecache
import sys
from functools import lru_cache

from onegraph.model import Span


def text_of(file: str) -> str:
    """The whole text of a Python file, also of one in a zip or a notebook; "" where there is none."""
    lines = linecache.getlines(file)
    if not lines:
        for module in list(sys.modules.values()):
            if getattr(module, "__file__", None) == file:
                lines = linecache.getlines(file, vars(module))  # asks the module's loader
                break
    return "".join(lines)


def snippet(span: Span) -> str:
    """The first line of the text in a span; the whole line where the span has no columns."""
    lines = text_of(span.file).splitlines()
    if not 1 <= span.line <= len(lines):
        return ""
    line = lines[span.line - 1].encode()
    end = span.end_column if span.end_line == span.line and span.end_column > span.column else len(line)
    return line[span.column : end].decode(errors="replace").strip()


def guarded_by(file: str, inner: Span, test: Span) -> bool:
    """Whether ``inner`` stands in the body of an ``if`` whose condition holds ``test``."""
    tree = _tree(text_of(file))
    if tree is None or inner.file != test.file:
        return False
    return any(
        isinstance(node, ast.If)
        and _covers(node.test, node.test, test)
        and (_covers(node.body[0], node.body[-1], inner))
        for node in ast.walk(tree)
    )


def _covers(first: ast.stmt | ast.expr, last: ast.stmt | ast.expr, span: Span) -> bool:
    start, end = (first.lineno, first.col_offset), (last.end_lineno or 0, last.end_col_offset or 0)
    return start <= (span.line, span.column) and (span.end_line, span.end_column) <= end


@lru_cache(maxsize=32)
def _tree(text: str) -> ast.Module | None:
    try:
        return ast.parse(text)
    except (SyntaxError, ValueError):
        return None


def statement_line(file: str, line: int) -> str:
    """One whole line of a file, without its indentation."""
    lines = text_of(file).splitlines()
    return lines[line - 1].strip() if 1 <= line <= len(lines) else ""
