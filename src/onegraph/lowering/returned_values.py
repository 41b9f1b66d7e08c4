"""What code that returns on every path gives: one row of values for each ``return``."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence

from onegraph.lowering import flow
from onegraph.lowering.refused import Refused
from onegraph.rewrite.request import Fact, Request

Rows = Sequence[Sequence[ast.expr]]


def rows(statements: Sequence[ast.stmt]) -> list[Sequence[ast.expr]]:
    """The values of each ``return``. Raises Refused where they are not as many everywhere."""
    found = [value.elts if isinstance(value, ast.Tuple) else [value] for value in _values(statements)]
    if len({len(row) for row in found}) > 1:
        raise Refused(
            f"The code from line {statements[0].lineno} on returns several numbers of values.",
            "Return as many on every path.",
        )
    return list(found)


def facts(
    request: Request, statements: Sequence[ast.stmt], found: Rows
) -> list[tuple[str, tuple[Fact, ...]]]:
    """For each value its text, in the last ``return``, and what it was in any of them; a ``return`` that no input
    reaches is reached by force. Raises Refused where that is not possible."""
    seen = [request.facts.values(*row) for row in found]
    for number, row in enumerate(found):
        if not all(seen[number]):
            seen[number] = request.facts.values(*row, force=_way_to(statements, row[0]) or None)
        if not all(seen[number]):
            raise Refused(
                f"No recorded input reaches line {row[0].lineno}.", "Give inputs that run this line."
            )
    names = [ast.unparse(value) for value in found[-1]]
    columns = zip(*seen, strict=True)
    return [
        (name, tuple(fact for each in column for fact in each))
        for name, column in zip(names, columns, strict=True)
    ]


def _values(statements: Sequence[ast.stmt]) -> Iterator[ast.expr]:
    for node in flow.inside(statements, ast.Return):
        assert isinstance(node, ast.Return) and node.value is not None
        yield node.value


def _way_to(block: Sequence[ast.stmt], value: ast.expr) -> dict[ast.expr, bool]:
    """The outcomes of tests with which a value is reached."""
    force: dict[ast.expr, bool] = {}
    for statement in block:
        inside = any(node is value for node in ast.walk(statement))
        if not isinstance(statement, ast.If):
            if inside:
                return force
            continue
        if inside:
            first = any(node is value for s in statement.body for node in ast.walk(s))
            arm = statement.body if first else statement.orelse
            return {**force, statement.test: first, **_way_to(arm, value)}
        if flow.always_leaves(statement.body):
            force[statement.test] = False
    return force
