"""The facts of each statement in a side of a branch, measured on the way that leads to it."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from contextlib import suppress

from onegraph.lowering.predicate import Force, Forced, Tests, is_tensor_test
from onegraph.lowering.refused import Refused
from onegraph.rewrite.request import Facts


class Reached:
    """What was measured in the sides of the branches of one function."""

    def __init__(self, facts: Facts, tests: Tests) -> None:
        self.facts, self.tests = facts, tests
        self._found: dict[int, Facts] = {}

    def measure(self, statements: Sequence[ast.stmt], force: Force) -> None:
        """Notes how each statement in a side is reached."""
        self._found.update(
            {id(node): Forced(self.facts, each) for node, each in self._forces(statements, force)}
        )

    def at(self, statement: ast.stmt) -> Facts:
        """The facts of a statement, measured on the way that leads to it."""
        return self._found.get(id(statement), self.facts)

    def _forces(self, statements: Sequence[ast.stmt], force: Force) -> Iterator[tuple[ast.stmt, Force]]:
        """Each statement in a side, with the outcomes of tensor conditions that lead to it."""
        for statement in statements:
            yield statement, force
            if isinstance(statement, ast.FunctionDef):
                continue
            yes = no = force
            if isinstance(statement, ast.If) and is_tensor_test(self.facts, statement.test, force):
                with suppress(Refused):  # the reason comes up when the branch is lowered
                    test = self.tests.split(statement.test, force)
                    yes, no = {**force, **test.when_true}, {**force, **test.when_false}
            for name in ("body", "orelse", "finalbody"):
                yield from self._forces(getattr(statement, name, []), no if name == "orelse" else yes)
            for case in getattr(statement, "cases", []):
                yield from self._forces(case.body, force)
