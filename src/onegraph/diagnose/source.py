"""The text at a position: what a site shows."""

from __future__ import annotations

import linecache
import sys

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


def statement_line(file: str, line: int) -> str:
    """One whole line of a file, without its indentation."""
    lines = text_of(file).splitlines()
    return lines[line - 1].strip() if 1 <= line <= len(lines) else ""
