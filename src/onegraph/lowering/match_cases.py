"""``match`` on a value becomes a chain of ``if``: literal cases, alternatives of them, a last one for the rest."""

from __future__ import annotations

import ast
from collections.abc import Iterable

from onegraph.lowering import flow
from onegraph.lowering.refused import Refused
from onegraph.lowering.source import Source
from onegraph.rewrite import text as edit
from onegraph.rewrite.request import Facts


def on_tensors(block: Iterable[ast.AST], facts: Facts) -> list[ast.Match]:
    """The ``match`` statements of a block that are on tensors, or that no recorded call reaches."""
    found = [n for n in flow.inside(block, ast.Match) if isinstance(n, ast.Match)]
    seen = [(n, facts.values(n.subject)[0]) for n in found]
    return [n for n, values in seen if not values or any(fact.is_tensor for fact in values)]


def as_ifs(text: str, match: ast.Match) -> str:
    """The text with the ``match`` written as ``if``, ``elif`` and ``else``. Raises Refused."""
    source = Source(text)
    subject, before = source.code(match.subject), ""
    if not isinstance(match.subject, ast.Name) or _rebinds(match, match.subject.id):
        name = edit.unused_name(source.tree, "subject")
        before, subject = f"{name} = {subject}\n", name
    unit = edit.indent_unit(text)
    code, word = before, "if"
    for case in match.cases:
        test, captured = _test(source, case, subject)
        body = captured + source.block(case.body, above=case.pattern.lineno)
        head = f"{word} {test}:" if test is not None else "else:"
        if test is None and word == "if":  # the first case takes everything
            code += body
            break
        code += f"{head}\n{edit.reindent(body, unit)}"
        word = "elif"
        if test is None:
            break
    indent = edit.indent_of(text, match.lineno)
    return edit.replace_lines(text, match.lineno, edit.position(match)[2], edit.reindent(code, indent))


def _rebinds(match: ast.Match, name: str) -> bool:
    return any(isinstance(n, ast.MatchAs) and n.name == name for n in ast.walk(match))


def _test(source: Source, case: ast.match_case, subject: str) -> tuple[str | None, str]:
    """The test of a case (None: it takes everything), and the line that binds the name it captures."""
    captured = ""
    pattern = case.pattern
    if isinstance(pattern, ast.MatchAs) and pattern.pattern is None:
        if pattern.name is not None and case.guard is not None:
            raise Refused(
                f"`case {pattern.name} if ...` binds a name for its guard", "Test the subject in the guard."
            )
        captured = f"{pattern.name} = {subject}\n" if pattern.name is not None else ""
        test = None
    else:
        test = _comparison(source, pattern, subject)
    if case.guard is not None:
        guard = source.code(case.guard)
        loose = isinstance(case.guard, ast.BoolOp | ast.IfExp | ast.Lambda | ast.NamedExpr)
        guard = f"({guard})" if loose and test is not None else guard
        test = guard if test is None else f"{_grouped(test)} and {guard}"
    return test, captured


def _comparison(source: Source, pattern: ast.pattern, subject: str) -> str:
    if isinstance(pattern, ast.MatchValue):
        return f"{subject} == {source.code(pattern.value)}"
    if isinstance(pattern, ast.MatchSingleton):
        return f"{subject} is {pattern.value!r}"
    if isinstance(pattern, ast.MatchOr):
        return " or ".join(_comparison(source, each, subject) for each in pattern.patterns)
    raise Refused("a `case` on a tensor takes more than a value apart", "Compare it with plain values.")


def _grouped(test: str) -> str:
    return f"({test})" if " or " in test else test
