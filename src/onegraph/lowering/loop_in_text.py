"""One loop in a text, and which statements leave it."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from onegraph.lowering import flow
from onegraph.lowering.predicate import Tests, is_tensor_test
from onegraph.lowering.source import Source
from onegraph.model import Predicate
from onegraph.rewrite import text as edit
from onegraph.rewrite.request import Facts

Loop = ast.For | ast.While
Exit = ast.Break | ast.Continue | ast.Return
_SCOPES = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | ast.Lambda


@dataclass(kw_only=True)
class LoopInText:
    """A loop of a function, and what every way to rewrite it needs. ``unused`` makes names."""

    source: Source
    facts: Facts
    function: ast.FunctionDef
    qualname: str
    loop: Loop
    tests: Tests
    torch: str
    unit: str
    unused: Callable[[str], str]
    predicates: list[Predicate] = field(default_factory=list)

    @property
    def head(self) -> ast.expr:
        return self.loop.iter if isinstance(self.loop, ast.For) else self.loop.test

    @property
    def head_end(self) -> int:
        """The last line of the header."""
        return edit.position(self.head)[2]

    def live_after(self) -> frozenset[str]:
        return flow.live_after(self.function, self.loop)

    def record(self, before: Sequence[str], code: str, *, endless: bool = False) -> None:
        """Tells verification where the conditions went."""
        after = ast.unparse(ast.parse(code, mode="eval"))
        self.predicates += [Predicate(self.qualname, text, after, endless) for text in before]


def exits(node: ast.AST | Iterable[ast.AST]) -> Iterator[Exit]:
    """The statements in the node that leave the loop around it, or its trip."""
    for part in [node] if isinstance(node, ast.AST) else node:
        if isinstance(part, Exit):
            yield part
        elif isinstance(part, Loop | ast.AsyncFor):
            yield from flow.inside(part, ast.Return)  # type: ignore[misc]
            yield from exits(part.orelse)
        elif not isinstance(part, _SCOPES):
            yield from exits(ast.iter_child_nodes(part))


def tensor_exits(loop: Loop, facts: Facts) -> list[ast.If]:
    """The tests on tensors in a loop's body on which it is left."""
    return [n for n in ifs(loop.body) if any(exits([n])) and is_tensor_test(facts, n.test, {})]


def ifs(block: Iterable[ast.AST]) -> Iterator[ast.If]:
    """Every ``if`` of a block that stands in no loop of its own."""
    for part in block:
        if isinstance(part, ast.If):
            yield part
        if not isinstance(part, Loop | ast.AsyncFor | _SCOPES):
            yield from ifs(ast.iter_child_nodes(part))
