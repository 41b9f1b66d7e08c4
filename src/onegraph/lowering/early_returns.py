"""``if p: return a`` and what runs behind it become two arms that bind one name, which is returned once.

The same program in Python. For a branch in the graph that is needed where the paths change attributes or tensors: these
are then written back behind the branch, in front of the one ``return``.
"""

from __future__ import annotations

import ast
from collections.abc import Sequence
from dataclasses import dataclass

from onegraph.lowering import flow
from onegraph.lowering.branch_text import as_if
from onegraph.lowering.place import Place
from onegraph.lowering.refused import Refused
from onegraph.lowering.source import Source
from onegraph.rewrite import text as edit

TITLE = "what the paths of a branch return is returned once, behind it"


def joined(place: Place) -> str:
    """The text in which the branch, and all that runs behind it, end in one return. Raises Refused."""
    root = place.root
    assert isinstance(root, ast.If)
    if place.is_elif(root):
        raise Refused("an `elif` returns early", "Return once, behind the branch.")
    whole = [root, *(() if flow.always_leaves([root]) else place.rest(root))]
    source = Source(place.text)
    returns = [n for n in flow.inside(whole, ast.Return) if isinstance(n, ast.Return)]
    name = edit.unused_name(source.tree, "result")
    names = [
        name,
        *(edit.unused_name(source.tree, f"result_{n}", {name}) for n in range(2, _length(returns) + 1)),
    ]
    target = ", ".join(names)
    bound: dict[ast.AST, str] = {
        node: f"{target} = {', '.join(source.code(v) for v in _values(node))}" for node in returns
    }
    code = _Joined(source, bound, place.unit).block(whole) + f"return {target}\n"
    last = edit.position(whole[-1])[2]
    block = edit.reindent(code, edit.indent_of(place.text, root.lineno))
    return edit.replace_lines(place.text, root.lineno, last, block)


def _values(node: ast.Return) -> list[ast.expr]:
    assert node.value is not None
    return list(node.value.elts) if isinstance(node.value, ast.Tuple) else [node.value]


def _length(returns: Sequence[ast.Return]) -> int:
    """How many values every path returns. Raises Refused."""
    if any(node.value is None for node in returns):
        raise Refused("one path returns None", "Return a tensor on every path.")
    tuples = {isinstance(node.value, ast.Tuple) for node in returns}
    lengths = {len(_values(node)) for node in returns}
    starred = any(isinstance(value, ast.Starred) for node in returns for value in _values(node))
    if len(tuples) > 1 or len(lengths) > 1 or starred or (tuples == {True} and lengths == {1}):
        raise Refused("the sides return different numbers of values", "Return the same tuple on every path.")
    return lengths.pop()


@dataclass
class _Joined:
    """Writes blocks in which each path ends with the assignment that ``bound`` has for its return."""

    source: Source
    bound: dict[ast.AST, str]
    unit: str

    def block(self, statements: Sequence[ast.stmt], above: int | None = None) -> str:
        """The lines of a block that every path leaves by a return. Raises Refused."""
        for index, statement in enumerate(statements):
            if not any(flow.inside(statement, ast.Return)):
                continue
            front = self.source.block(statements[:index], above=above) if index else ""
            if isinstance(statement, ast.Return):
                return front + self.bound[statement] + "\n"
            if not isinstance(statement, ast.If):
                word = type(statement).__name__.lower()
                raise Refused(
                    f"an early return inside a `{word}`", "Assign the result and return it at the end."
                )
            return front + self._branch(statement, statements[index + 1 :])
        if flow.always_leaves(statements):  # it raises
            return self.source.block(statements, above=above)
        raise Refused("one path returns a value and the other returns None", "Return a tensor on every path.")

    def _branch(self, node: ast.If, rest: Sequence[ast.stmt]) -> str:
        arms = [list(node.body), list(node.orelse)]
        if rest and not any(flow.always_leaves(arm) for arm in arms):
            raise Refused(
                f"the arm at line {node.body[0].lineno} returns on some of its paths only",
                "Give each path of the arm its own return, or return once, behind the branch.",
            )
        arms = [arm if flow.always_leaves(arm) else [*arm, *rest] for arm in arms]
        first, second = self.block(arms[0], node.test.end_lineno), as_if(self.block(arms[1]))
        head = f"if {self.source.code(node.test)}:\n{edit.reindent(first, self.unit)}"
        if second.startswith("if ") and len(arms[1]) == 1:
            return f"{head}el{second}"
        return f"{head}else:\n{edit.reindent(second, self.unit)}"
