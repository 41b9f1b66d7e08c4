"""LayerDrop: a drawn number decides in a loop over layers whether a layer runs.

What happens: the number is a tensor, and Python decides on it, so the graph ends at every layer.
What else it causes: one graph a layer, each compiled for itself.

Relaxed: the layer runs always and ``torch.where`` takes its result or what was there before; the random numbers that
a skipped layer has drawn are taken back, so that those behind it are as in eager mode. What moves: parameters of a
skipped layer get a zero gradient instead of none, and its time is spent.
Declined: the skipped part does more than give tensors new values (it fills a list or a cache), or its result differs
in shape or dtype from what was there.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from onegraph.kinds import branch_on_tensor, tree
from onegraph.kinds.base import Example, Untouched
from onegraph.kinds.layer_drop_examples import EXAMPLES as _EXAMPLES
from onegraph.kinds.layer_drop_examples import UNTOUCHED as _UNTOUCHED
from onegraph.lowering import layer_skip
from onegraph.lowering.refused import Refused
from onegraph.model import Break, Candidate, Declined, Level
from onegraph.rewrite import text as edit
from onegraph.rewrite.request import Request

NAME = "layer_drop"
TITLE = "A layer of a loop that a random number skips"
GB_IDS = ("GB0170",)
ORDER = 44
EXAMPLES: tuple[Example, ...] = _EXAMPLES
UNTOUCHED: tuple[Untouched, ...] = _UNTOUCHED

_NOTES = (
    "parameters of a skipped layer get a zero gradient instead of none: an optimizer with momentum or weight decay "
    "changes them all the same",
    "a skipped layer is computed too; a NaN or Inf in it makes its gradients NaN",
)


def recognises(break_: Break, node: ast.AST | None) -> bool:
    """A branch on a tensor that skips the call of the loop's own variable."""
    if "data-dependent branch" not in break_.gb_type.lower() or node is None:
        return False
    return _layer_loop(node) is not None


def repairs(request: Request) -> Iterator[Candidate | Declined]:
    """The layer under ``_unless``; else what a branch on a tensor can be."""
    node = edit.node_at(edit.parse(request.text), request.site.span)
    skip = layer_skip.find(request.text, node)
    declined: Declined | None = None
    if skip is not None:
        try:
            made = layer_skip.rewrite(request, skip)
            yield Candidate(
                kind=NAME,
                level=Level.RELAXED,
                title="Run the layer always, and select its result",
                text=made.text,
                functions=(made.function,),
                notes=_NOTES,
                predicates=(made.predicate,),
            )
        except Refused as why:
            declined = Declined(NAME, why.reason, why.next_step)
    found = list(branch_on_tensor.repairs(request))
    if declined is not None and not any(isinstance(each, Candidate) for each in found):
        yield declined
    yield from found


def _layer_loop(node: ast.AST) -> ast.For | None:
    """The loop around a condition, if its variable is called in it."""
    test: ast.AST = node
    for parent in tree.parents(node):
        if isinstance(parent, ast.If) and (test is parent.test or node is parent):
            break
        if isinstance(parent, ast.stmt):
            return None
        test = parent
    else:
        return None
    loop = next((p for p in tree.parents(node) if isinstance(p, ast.For)), None)
    if loop is None:
        return None
    names = {n.id for n in ast.walk(loop.target) if isinstance(n, ast.Name)}
    called = {n.func.id for n in ast.walk(loop) if isinstance(n, ast.Call) and isinstance(n.func, ast.Name)}
    skips = isinstance(parent.body[0], ast.Continue) or isinstance(parent.test, ast.UnaryOp | ast.BoolOp)
    flags = isinstance(parent.body[0], ast.Assign) and isinstance(parent.body[0].value, ast.Constant)
    return loop if names & called and (skips or flags) and not parent.orelse else None
