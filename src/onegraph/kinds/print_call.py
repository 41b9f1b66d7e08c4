"""``print(...)`` inside the compiled function.

What happens: printing is no tensor operation, so the graph ends there; in a loop or a ``try`` the whole
function runs without a graph.
What else it causes: what is printed has to leave the graph, and fusion stops at the call.

Relaxed: the call becomes an op with an ordered effect. Same text, same order, as often as before; in eager
mode the statement runs as it did. ``if t.any(): print(...)`` moves as a whole.
Lossy (on request only): skipped while compiling.
Declined: the call gets an object that no op can take, or its result is used.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from onegraph.kinds import tree
from onegraph.kinds.base import Example, Untouched
from onegraph.kinds.print_examples import EXAMPLES as _EXAMPLES
from onegraph.kinds.print_examples import UNTOUCHED as _UNTOUCHED
from onegraph.lowering import effect_repairs
from onegraph.lowering.effect_shapes import call_of, everything_in, first_call, is_print, only_effects
from onegraph.model import Break, Candidate, Declined
from onegraph.rewrite.request import Request

NAME = "print_call"
TITLE = "print inside the compiled function"
GB_IDS = ("GB0059",)
ORDER = 40
EXAMPLES: tuple[Example, ...] = _EXAMPLES
UNTOUCHED: tuple[Untouched, ...] = _UNTOUCHED


def recognises(break_: Break, node: ast.AST | None) -> bool:
    if isinstance(node, ast.Call) and is_print(node):
        return True
    statement = tree.statement(node) if node is not None else None
    if isinstance(statement, ast.If) and only_effects(statement, node):
        inner = list(everything_in(statement))
        checks = any(isinstance(n, ast.Raise | ast.Assert) for n in inner)
        return not checks and any(isinstance(n, ast.Call) and is_print(n) for n in inner)
    call = call_of(statement) if not isinstance(statement, ast.If) else first_call(statement, node)
    return call is not None and is_print(call)


def repairs(request: Request) -> Iterator[Candidate | Declined]:
    proposal = effect_repairs.Proposal(NAME, "Print from an ordered op")
    yield from effect_repairs.moved(request, proposal, "print")
