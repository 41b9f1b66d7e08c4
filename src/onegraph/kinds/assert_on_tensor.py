"""``assert <tensor>, message``: an assertion on values inside the compiled function.

What happens: an assertion with a constant message is captured by torch itself (as a RuntimeError); one
that formats its message, or combines conditions in Python, ends the graph.
What else it causes: on a GPU the host waits for the value.

Relaxed: the assertion becomes the body of an op with an ordered effect: AssertionError and text stay, in
eager mode and compiled. What moves is the time of the exception; see ``raise_on_tensor``.
Relaxed, second: ``torch._assert_async``, where the message is constant.
Declined: inside a ``try`` that may catch it; with objects that no op can take.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from onegraph.kinds import tree
from onegraph.kinds.assert_examples import EXAMPLES as _EXAMPLES
from onegraph.kinds.assert_examples import UNTOUCHED as _UNTOUCHED
from onegraph.kinds.base import Example, Untouched
from onegraph.kinds.raise_on_tensor import NOTES
from onegraph.lowering import effect_asserts, effect_repairs
from onegraph.model import Break, Candidate, Declined
from onegraph.rewrite.request import Request

NAME = "assert_on_tensor"
TITLE = "An assertion on a tensor's value"
GB_IDS = ("GB0034", "GB0171")
ORDER = 40
EXAMPLES: tuple[Example, ...] = _EXAMPLES
UNTOUCHED: tuple[Untouched, ...] = _UNTOUCHED


def recognises(break_: Break, node: ast.AST | None) -> bool:
    return node is not None and isinstance(tree.statement(node), ast.Assert)


def repairs(request: Request) -> Iterator[Candidate | Declined]:
    statement = effect_repairs.statement_of(request)
    proposal = effect_repairs.Proposal(NAME, "Assert in an ordered op", NOTES)
    if statement is not None and effect_repairs.in_try(request, statement):
        yield effect_repairs.caught(NAME)
        return
    yield from effect_repairs.moved(request, proposal, "check")
    if statement is not None:
        yield from effect_asserts.asynchronous(request, NAME, statement)
