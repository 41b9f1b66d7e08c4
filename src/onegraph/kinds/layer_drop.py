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

from onegraph.kinds import branch_on_tensor, loop_on_tensor, tree
from onegraph.kinds.base import Example, Untouched
from onegraph.kinds.layer_drop_examples import EXAMPLES as _EXAMPLES
from onegraph.kinds.layer_drop_examples import UNTOUCHED as _UNTOUCHED
from onegraph.lowering import layer_skip, ops
from onegraph.lowering.effect_shapes import dotted
from onegraph.lowering.refused import Refused
from onegraph.model import Break, Candidate, Declined, Level
from onegraph.rewrite import text as edit
from onegraph.rewrite.request import Request

NAME = "layer_drop"
TITLE = "A layer of a loop that a random number skips"
GB_IDS = ("GB0170",)
ORDER = 39  # in front of loop_on_tensor: a condition that is computed may save the layer's time
EXAMPLES: tuple[Example, ...] = _EXAMPLES
UNTOUCHED: tuple[Untouched, ...] = _UNTOUCHED

_NOTES = (
    "parameters of a skipped layer get a zero gradient instead of none: an optimizer with momentum or weight decay "
    "changes them all the same",
    "what a skipped layer leaves is a copy: what is written into it later does not show in what was there before",
    "a skipped layer is computed too; a NaN or Inf in it makes its gradients NaN",
    "inductor draws its own random numbers; with fallback_random it may draw them in another order, as it always may",
)
_WITHOUT_CACHE = "If the layer fills a cache, do without it in training (`use_cache=False` in many models)."


def recognises(break_: Break, node: ast.AST | None) -> bool:
    """A branch on a drawn number that skips the call of the loop's own variable."""
    if "data-dependent branch" not in break_.gb_type.lower() or node is None:
        return False
    loop = _layer_loop(node)
    return loop is not None and _drawn(node, loop)


def repairs(request: Request) -> Iterator[Candidate | Declined]:
    """The layer under ``_unless``; else what the branch, or the loop, can be."""
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
    test = tree.innermost(tree.parse(request.text) or ast.Module([], []), request.site.span)
    leaves = any(loop_on_tensor.recognises(break_, test) for break_ in request.site.breaks)
    found = list((loop_on_tensor if leaves else branch_on_tensor).repairs(request))
    yield from (each for each in found if isinstance(each, Candidate))
    yield declined or Declined(NAME, "The layer can't run where it is skipped.", _WITHOUT_CACHE)


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


def _drawn(node: ast.AST, loop: ast.For) -> bool:
    """Whether a condition comes from a call that draws, in the same round."""
    read = {n.id for n in ast.walk(node) if isinstance(n, ast.Name)}
    values: list[ast.AST] = [node]
    for _ in range(3):  # a flag of a comparison of a number
        for statement in ast.walk(loop):
            if isinstance(statement, ast.Assign) and any(
                isinstance(t, ast.Name) and t.id in read for t in statement.targets
            ):
                values.append(statement.value)
                read |= {n.id for n in ast.walk(statement.value) if isinstance(n, ast.Name)}
    calls = [c for value in values for c in ast.walk(value) if isinstance(c, ast.Call)]
    names = [dotted(c.func) or getattr(c.func, "attr", "") for c in calls]
    return any(str(name).rpartition(".")[2] in ops.RANDOM for name in names)
