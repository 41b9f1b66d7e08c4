"""A value for a name that one path of a branch leaves unset: nothing reads it, but a graph needs one."""

from __future__ import annotations

import ast

from onegraph.lowering import flow
from onegraph.lowering.predicate import Force
from onegraph.rewrite.request import UNDEFINED, Fact, Facts


def filler(facts: Facts, torch: str, node: ast.If, name: str, force: Force) -> str | None:
    """Zeros like what the other path makes, shaped by a tensor that is there before the branch; None where
    there is none. ``force`` leads to the path that sets the name."""
    made = facts.names(node, [name], after=True, force=force)[name]
    if not made or not all(fact.is_tensor for fact in made) or len({fact.dtype for fact in made}) > 1:
        return None
    for other in _near(node, name):
        known = facts.names(node, [other], force=force)[other]
        if not known or not all(fact.is_tensor for fact in known):
            continue
        if {fact.device for fact in known} != {fact.device for fact in made}:
            continue
        same = {fact.dtype for fact in known} == {fact.dtype for fact in made}
        dtype = "" if same else f", dtype={_dtype(made[0], torch)}"
        if {fact.shape for fact in known} == {fact.shape for fact in made}:
            return f"{torch}.zeros_like({other}{dtype})"
        if all(fact.shape == () for fact in made):
            return f"{other}.new_zeros((){dtype})"
    return None


def _near(node: ast.If, name: str) -> list[str]:
    """Names to take the shape from: first those that the branch reads."""
    return [other for other in sorted(flow.reads(node)) if other not in (name, UNDEFINED)]


def _dtype(fact: Fact, torch: str) -> str:
    return str(fact.dtype).replace("torch.", f"{torch}.", 1)
