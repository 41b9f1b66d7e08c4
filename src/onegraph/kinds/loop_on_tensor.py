"""A loop that a tensor ends: ``break``, ``continue`` or ``return`` on a tensor's value, ``while <tensor>``.

What happens: Python decides on a value that only the running program has, in a loop, where no graph can go on: the
whole function runs eager. (GB0170 data-dependent branching.)
What else it causes: breaks behind the loop are hidden until this one is gone.

Exact: the exit becomes a flag, and the trips behind it run in ``_cond(running, trip, kept)``: the loop keeps its
header, and each trip is one branch in the graph. The flag begins as Python's ``True``, so the first trip is no
branch. Where Python doesn't know the number of trips, or knows many, the loop becomes ``torch.while_loop`` through the
helper ``_while_loop``, if no gradient flows: the backward pass of ``torch.while_loop`` is wrong.
Python numbers that follow from the trips alone (the loop's variable, counters) go on as numbers; what is read behind
the loop is the value of the last trip that counts, taken by ``_last``: integers in the graph; other types break it,
as before. A list that grows with the trips, and is stacked or joined behind the loop, gets a value and a flag on every
trip; ``_stacked`` takes by the flags. Prints, log lines and checks in a trip become ordered ops under the loop's flag.
Relaxed: where a layer or parameter is used in some trips only, its gradient is zero instead of None when they
don't run.
Declined, with the reason: loops without a limit that Python knows while gradients flow, Python numbers that the loop
needs as such or that decide how Python goes on, lists of which the length is needed, values that change their shape
from trip to trip, random numbers in a trip.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from onegraph.kinds import tree
from onegraph.kinds.base import Example, Untouched
from onegraph.kinds.loop_examples import EXAMPLES as _EXAMPLES
from onegraph.kinds.loop_examples import UNTOUCHED as _UNTOUCHED
from onegraph.lowering import lower_loop
from onegraph.model import Break, Candidate, Declined
from onegraph.rewrite.request import Request

NAME = "loop_on_tensor"
TITLE = "A loop that a tensor's value ends"
GB_IDS = ("GB0170",)
ORDER = 40  # in front of branch_on_tensor: a branch that leaves a loop is no branch of its own
EXAMPLES: tuple[Example, ...] = _EXAMPLES
UNTOUCHED: tuple[Untouched, ...] = _UNTOUCHED

_LOOPS = ast.For | ast.While | ast.AsyncFor
_SCOPES = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda | ast.ClassDef


def recognises(break_: Break, node: ast.AST | None) -> bool:
    """A data-dependent branch at the test of a ``while``, or of an ``if`` that leaves a loop; ``range(int(t))``."""
    if node is None:
        return False
    if _counts_trips(node):
        return True
    if "data-dependent branch" not in break_.gb_type.lower():
        return False
    below: ast.AST = node
    for part in (node, *tree.parents(node)):
        if isinstance(part, _SCOPES):
            return False
        if isinstance(part, ast.While) and (below is part.test or part is node):
            return True
        if isinstance(part, ast.If) and (below is part.test or part is node):
            return _leaves_a_loop(part)
        if isinstance(part, ast.stmt) and part is not node:
            return False
        below = part
    return False


def repairs(request: Request) -> Iterator[Candidate | Declined]:
    """See `lowering.lower_loop`."""
    yield from lower_loop(request)


def _counts_trips(node: ast.AST) -> bool:
    """Whether the node is ``range(int(t))`` or the number in it, at the head of a ``for``."""
    for part in (node, *tree.parents(node)):
        if isinstance(part, ast.Call) and isinstance(part.func, ast.Name) and part.func.id == "range":
            head = next(iter(tree.parents(part)), None)
            return (
                isinstance(head, ast.For)
                and head.iter is part
                and len(part.args) == 1
                and _number(part.args[0])
            )
        if isinstance(part, ast.stmt):
            return False
    return False


def _number(node: ast.expr) -> bool:
    if not isinstance(node, ast.Call):
        return False
    name = node.func.id if isinstance(node.func, ast.Name) else getattr(node.func, "attr", "")
    return name in ("int", "item")


def _leaves_a_loop(node: ast.If) -> bool:
    """Whether an arm ends the trip or the loop around the ``if``, or returns from inside one."""
    looped = False
    for part in tree.parents(node):
        if isinstance(part, _SCOPES):
            break
        looped |= isinstance(part, _LOOPS)
    return looped and any(_exits(child) for child in [*node.body, *node.orelse])


def _exits(node: ast.AST) -> bool:
    if isinstance(node, ast.Break | ast.Continue | ast.Return):
        return True
    if isinstance(node, _SCOPES):
        return False
    if isinstance(node, _LOOPS):
        return any(isinstance(n, ast.Return) for n in ast.walk(node))
    return any(_exits(child) for child in ast.iter_child_nodes(node))
