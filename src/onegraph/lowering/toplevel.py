"""New definitions at the top level of a file: a helper behind the imports, and an op before the function that uses
it."""

from __future__ import annotations

import ast
from dataclasses import dataclass

from onegraph.lowering import written_helpers
from onegraph.rewrite import text as text_


@dataclass(frozen=True, slots=True)
class Helper:
    """A decorator that ops of a file share."""

    name: str
    text: str
    line: int | None  # where the file already defines it


def helper_in(text: str, base: str, body: str, torch: str) -> Helper:
    """The file's own helper where an earlier repair left one, else a new one. ``body`` has the places ``{name}`` and
    ``{torch}``."""
    name = written_helpers.name_of(text, base, body)
    own = [s.lineno for s in text_.parse(text).body if isinstance(s, ast.FunctionDef) and s.name == name]
    return Helper(name, body.format(name=name, torch=torch), own[0] if own else None)


def with_definition(text: str, line: int, helper: Helper, block: str) -> str:
    """The op before the top-level statement that uses it; its helper above, behind the imports."""
    if helper.line is not None:
        target = next(
            s for s in text_.parse(text).body if text_.first_line(s) <= line <= text_.position(s)[2]
        )
        if helper.line < text_.first_line(target):
            return text_.insert_before_toplevel(text, line, block)
        return behind(text, helper.name, block)
    changed = text_.insert_after_imports(text_.insert_before_toplevel(text, line, block), helper.text)
    defined = [s.name for s in text_.parse(changed).body if isinstance(s, ast.FunctionDef)]
    name = ast.parse(block).body[0]
    assert isinstance(name, ast.FunctionDef)
    if defined.index(helper.name) < defined.index(name.name):
        return changed
    return text_.insert_before_toplevel(text, line, f"{helper.text}\n\n{block}")


def behind(text: str, helper: str, block: str) -> str:
    """The op right behind its helper, above every function that may use it."""
    statements = text_.parse(text).body
    at = next(i for i, s in enumerate(statements) if isinstance(s, ast.FunctionDef) and s.name == helper)
    if at + 1 < len(statements):
        return text_.insert_before_toplevel(text, text_.first_line(statements[at + 1]), block)
    return text.rstrip("\r\n") + text_.newline(text) * 3 + block
