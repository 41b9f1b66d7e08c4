"""A text made from a tensor and kept: ``NOTES.append(f"{t=}")``.

What happens: the text of a tensor exists only when its values do, so the graph ends at ``repr``, ``str``
or ``=``.
What else it causes: code behind it is a graph of its own.

Relaxed: where the text only goes into a container or file of the module, the statement becomes an op with
an ordered effect. What moves: the container is filled when the compiled program runs the op.
Declined: the text is used in the function (a key, a condition, a return value).
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from onegraph.kinds import tree
from onegraph.kinds.base import Example, Untouched
from onegraph.kinds.format_examples import EXAMPLES as _EXAMPLES
from onegraph.kinds.format_examples import UNTOUCHED as _UNTOUCHED
from onegraph.lowering import effect_repairs
from onegraph.lowering.effect_shapes import call_of, is_sink
from onegraph.model import Break, Candidate, Declined
from onegraph.rewrite.request import Request

NAME = "format_of_tensor"
TITLE = "A text made from a tensor and kept in Python"
GB_IDS = ("GB0020", "GB0021", "GB0569")
ORDER = 45
EXAMPLES: tuple[Example, ...] = _EXAMPLES
UNTOUCHED: tuple[Untouched, ...] = _UNTOUCHED

_NOTE = (
    "the text is kept when the compiled program runs the op; Python code of the function can't see it earlier"
)
_MAKERS = frozenset(("str", "repr", "format", "ascii"))


def recognises(break_: Break, node: ast.AST | None) -> bool:
    if break_.gb_type.startswith(("repr() on tensor", "BUILD_STRING")):
        return True
    return node is not None and (_makes_text(node) or any(map(_makes_text, _within_statement(node))))


def repairs(request: Request) -> Iterator[Candidate | Declined]:
    statement = effect_repairs.statement_of(request)
    call = call_of(statement)
    if call is None or not is_sink(call) or not effect_repairs.is_global(request, statement, call.func):
        yield Declined(
            NAME,
            "The text of a tensor is used inside the function, where the tensor has no value yet.",
            "Return the tensor and make the text outside, or print or log it in a statement of its own.",
        )
        return
    proposal = effect_repairs.Proposal(NAME, "Keep the text from an ordered op", (_NOTE,))
    yield from effect_repairs.moved(request, proposal, "note")


def _within_statement(node: ast.AST) -> Iterator[ast.AST]:
    for parent in tree.parents(node):
        if isinstance(parent, ast.stmt):
            return
        yield parent


def _makes_text(node: ast.AST) -> bool:
    if isinstance(node, ast.JoinedStr):
        return True
    return isinstance(node, ast.Call) and (
        (isinstance(node.func, ast.Name) and node.func.id in _MAKERS)
        or (isinstance(node.func, ast.Attribute) and node.func.attr == "format")
    )
