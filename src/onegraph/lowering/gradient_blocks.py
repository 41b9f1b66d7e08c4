"""``with torch.no_grad():`` around a branch moves into its arms.

The same program in Python. A choice in the graph that is made under ``no_grad`` would lose the gradient of a tensor
that the branch hands on as it is; behind the arms it keeps it. And what runs behind an early return is one block then.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from onegraph.lowering.branch_text import as_if
from onegraph.lowering.place import Place, without_gradients
from onegraph.lowering.refused import InGradientBlock, Refused
from onegraph.lowering.source import Source
from onegraph.rewrite import text as edit


def moved_in(place: Place, why: InGradientBlock, decided: Callable[[ast.If], bool]) -> str:
    """The text with the block inside the arms of its branches. ``decided``: by a tensor. Raises Refused."""
    block = _block_of(place, why)
    chosen = {id(n) for n in ast.walk(block) if isinstance(n, ast.If) and decided(n)}
    chosen |= {id(n) for n in place.around(why.node)}
    source = Source(place.text)
    head = source.code(block.items[0].context_expr)
    code = _Moved(source, f"with {head}:\n", place.unit, chosen).block(block.body, block.lineno)
    code = edit.reindent(code, edit.indent_of(place.text, block.lineno))
    return edit.replace_lines(place.text, block.lineno, edit.position(block)[2], code)


def _block_of(place: Place, why: InGradientBlock) -> ast.With:
    """The block that holds the branch, in its own statements or in the arms of other branches. Raises Refused."""
    for around in place.around(why.node):
        if isinstance(around, ast.With):
            plain = len(around.items) == 1 and around.items[0].optional_vars is None
            if plain and without_gradients(around.items[0].context_expr, of=("no_grad",)):
                return around
        if not isinstance(around, ast.If):
            break
    raise Refused(why.reason, why.next_step)


@dataclass
class _Moved:
    """Writes blocks; what is in no chosen branch keeps the ``head`` around it."""

    source: Source
    head: str
    unit: str
    chosen: set[int]

    def block(self, statements: Sequence[ast.stmt], above: int | None = None) -> str:
        lines, run = "", list[ast.stmt]()
        for statement in statements:
            if isinstance(statement, ast.If) and id(statement) in self.chosen:
                lines, run = lines + self._run(run, above) + self._branch(statement), []
                above = None
            else:
                run.append(statement)
        return lines + self._run(run, above)

    def _run(self, statements: Sequence[ast.stmt], above: int | None) -> str:
        code = self.source.block(statements, above=above) if statements else ""
        silent = all(isinstance(s, ast.Pass) for s in statements)
        return code if silent else self.head + edit.reindent(code, self.unit)

    def _branch(self, node: ast.If) -> str:
        if any(isinstance(n, ast.NamedExpr) for n in ast.walk(node.test)):
            raise Refused(
                f"`{self.source.code(node.test)}` binds a name inside the test",
                "Bind the name before the branch.",
            )
        first = self.block(node.body, node.test.end_lineno)
        code = f"if {self.source.code(node.test)}:\n{edit.reindent(first, self.unit)}"
        if not node.orelse:
            return code
        second = as_if(self.block(node.orelse))
        if second.startswith("if ") and len(node.orelse) == 1:
            return f"{code}el{second}"
        return f"{code}else:\n{edit.reindent(second, self.unit)}"
