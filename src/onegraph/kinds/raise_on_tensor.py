"""``if <tensor>: raise ...``: a check of values inside the compiled function.

What happens: Python has to know the value to decide, so the graph ends at the ``if``; where the frame
can't be resumed (a loop, a ``try``), the whole function runs without a graph.
What else it causes: on a GPU the host waits for the value.

Relaxed: the ``if`` becomes the body of an op with an ordered effect. Same exception type and text, in
eager mode and compiled; leading Python conjuncts, later ``elif`` arms and the ``else`` stay in the
function. What moves: the compiled program raises when the op runs, and in-place changes of inputs made
before it may not have happened.
Relaxed, second: ``torch._assert_async``, where the message is constant: no wait on a GPU, but a RuntimeError.
Declined: inside a ``try`` that may catch it; with objects that no op can take.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from onegraph.kinds import tree
from onegraph.kinds.base import Example, Untouched
from onegraph.kinds.raise_examples import EXAMPLES as _EXAMPLES
from onegraph.kinds.raise_examples import UNTOUCHED as _UNTOUCHED
from onegraph.lowering import effect_asserts, effect_repairs
from onegraph.lowering.effect_shapes import Effects, only_effects
from onegraph.model import Break, Candidate, Declined
from onegraph.rewrite.request import Request

NAME = "raise_on_tensor"
TITLE = "An exception raised on a tensor's value"
GB_IDS = ("GB0170", "GB0035")
ORDER = 40
EXAMPLES: tuple[Example, ...] = _EXAMPLES
UNTOUCHED: tuple[Untouched, ...] = _UNTOUCHED

NOTES = (
    "the compiled program raises when the op runs; in-place changes of inputs before it may be missing then",
)


def recognises(break_: Break, node: ast.AST | None) -> bool:
    statement = _check_around(tree.statement(node) if node is not None else None)
    if statement is None or node is None:
        return False
    raised = break_.gb_type.startswith("Observed exception")
    if not raised and node is not statement and node not in set(ast.walk(statement.test)):
        return False
    module = next((p for p in tree.parents(statement) if isinstance(p, ast.Module)), None)
    effects = Effects(module) if module is not None else None
    if effects is not None and effects.only(statement.body) and effects.leaves(statement.body):
        return True
    checks = any(isinstance(n, ast.Raise | ast.Assert) for n in ast.walk(statement))
    return checks and only_effects(statement, node)


def _check_around(statement: ast.stmt | None) -> ast.If | None:
    """The ``if`` that is the statement, or that holds this ``raise``."""
    if isinstance(statement, ast.Raise):
        statement = next((p for p in tree.parents(statement) if isinstance(p, ast.stmt)), None)
    return statement if isinstance(statement, ast.If) else None


def repairs(request: Request) -> Iterator[Candidate | Declined]:
    statement = effect_repairs.statement_of(request)
    if isinstance(statement, ast.Raise):
        statement = effect_repairs.check_around(request, statement)
        if statement is None:
            yield Declined(
                NAME,
                "The program itself raises here, whatever the tensors hold.",
                "Run the function without torch.compile to see the exception.",
            )
            return
    if statement is not None and effect_repairs.in_try(request, statement):
        yield effect_repairs.caught(NAME)
        return
    proposal = effect_repairs.Proposal(NAME, "Check in an ordered op", NOTES)
    yield from effect_repairs.moved(request, proposal, "check", statement)
    if statement is not None:
        yield from effect_asserts.asynchronous(request, NAME, statement)
