"""Names of its own for what a mended text adds to a module that goes on running.

In a file a helper is called ``_cond`` or ``_log_loss``. In a live module several mended texts meet (two
programs compiled from one file, two overlays), each with its own idea of ``_log_loss``: there the name
carries a hash of what it stands for, and never takes the place of another one.
"""

from __future__ import annotations

import ast
import hashlib
import re
from collections.abc import Iterator
from dataclasses import replace

from onegraph.model import FileChange
from onegraph.rewrite import text


def private(change: FileChange) -> FileChange:
    """The change with helpers, ops and other new top-level names renamed (imports keep theirs)."""
    statements = list(_added(change))
    names = {name for statement in statements for name in text.bound_names(statement)}
    if not names:
        return change
    words = "\n".join(text.segment(change.mended, statement) for statement in statements)
    mark = hashlib.sha256(words.encode()).hexdigest()[:8]
    edits = _renames(change.mended, {name: f"{name}_{mark}" for name in names})
    return replace(change, mended=text.replace_spans(change.mended, edits))


def _added(change: FileChange) -> Iterator[ast.stmt]:
    """The new top-level statements that bind names which the original does not bind."""
    known = {name for s in text.toplevel(text.parse(change.original)) for name in text.bound_names(s)}
    for statement in text.parse(change.mended).body:
        if not isinstance(statement, ast.Import | ast.ImportFrom) and text.bound_names(statement) - known:
            yield statement


def _renames(content: str, names: dict[str, str]) -> Iterator[text.Edit]:
    for node in ast.walk(text.parse(content)):
        if isinstance(node, ast.Name) and node.id in names:
            yield (*text.position(node), names[node.id])
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) and node.name in names:
            yield _within(content, node, rf"(?:def|class)\s+({node.name})\b", names)
        elif isinstance(node, ast.Global):
            for name in set(node.names) & names.keys():
                yield _within(content, node, rf"\b({name})\b", names)


def _within(content: str, node: ast.stmt, pattern: str, names: dict[str, str]) -> text.Edit:
    """The edit of the first match in a statement: where a definition or ``global`` has the name itself."""
    start = text.offset(content, node.lineno, node.col_offset)
    found = re.compile(pattern).search(content, start)
    assert found is not None
    before = content[: found.start(1)]
    line = before.count("\n") + 1
    column = len(before.rpartition("\n")[2].encode())
    return line, column, line, column + len(found[1].encode()), names[found[1]]
