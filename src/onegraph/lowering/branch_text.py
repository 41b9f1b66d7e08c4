"""The lines that take the place of a branch, laid out as a person would."""

from __future__ import annotations

import ast

from onegraph.rewrite import text as edit


def spaced(code: str, text: str, line: int) -> str:
    """Blank lines before nested functions, as formatters set them."""
    rows = edit.lines(text)
    before = rows[line - 2] if line > 1 else ":"
    spaced: list[str] = []
    for row in code.splitlines(keepends=True):
        previous = spaced[-1] if spaced else before
        opens = previous.rstrip().endswith(":") or not previous.strip() or previous.lstrip().startswith("#")
        if row.lstrip().startswith("def ") and not opens:
            spaced.append("\n")
        spaced.append(row)
    return "".join(spaced)


def as_if(lines: str) -> str:
    """An ``elif`` that became the whole of a side is an ``if`` there; comments may stand above it."""
    rows = lines.splitlines(keepends=True)
    first = next((n for n, row in enumerate(rows) if row.strip() and not row.startswith("#")), None)
    if first is not None and rows[first].startswith("elif"):
        rows[first] = rows[first][2:]
    return "".join(rows)


def without_pass(lines: str) -> str:
    """The lines without a ``pass`` that stands next to other statements."""
    body = ast.parse(lines).body
    rows = lines.splitlines(keepends=True)
    passed = [s.lineno - 1 for s in body if isinstance(s, ast.Pass) and rows[s.lineno - 1].strip() == "pass"]
    if len(passed) == len(body):
        return lines
    return "".join(row for number, row in enumerate(rows) if number not in passed)
