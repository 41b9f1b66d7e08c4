"""A whole number out of a tensor as a symbol of the graph: ``x[:n]``, ``torch.zeros(n)``, ``return n``.

An op takes the number out. What is known of it from the expression (how often a mask is set, a place) goes along;
nothing is taken for granted that was only observed.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping

from onegraph.lowering import choice, sized_ops
from onegraph.lowering.numbers import taken_from
from onegraph.model import Candidate, Level
from onegraph.rewrite import text as text_
from onegraph.rewrite.request import Fact, Request

_INTEGERS = frozenset(f"torch.{name}" for name in ("int64", "int32", "int16", "int8", "uint8"))
_MOST_NUMBERS = 16  # that are taken out one by one
_PLACES = frozenset(("argmax", "argmin"))


def as_symbol(request: Request, kind: str) -> Iterator[Candidate]:
    """``t.item()``, ``int(t)`` or ``t.tolist()`` at the site by such an op; nothing where it is no whole number."""
    text = request.text
    node = text_.node_at(text_.parse(text), request.site.span)
    tensor = taken_from(node)
    if tensor is None or not isinstance(node, ast.Call):
        return
    (facts,) = request.facts.values(tensor)
    if not facts or any(not fact.is_tensor for fact in facts):
        return
    names = sized_ops.names_in(text)
    listed = isinstance(node.func, ast.Attribute) and node.func.attr == "tolist"
    code, used = _list(text, tensor, facts, names) if listed else _number(request, node, tensor, facts, names)
    if not used:
        return
    shown = " ".join(text_.segment(text, node).split())
    changed = sized_ops.with_ops(text, [(*text_.position(node), code)], (used,))
    title = f"`{shown}` by an op that makes it a symbol of the graph"
    functions = (request.site.function,)
    yield Candidate(kind, Level.EXACT, title, changed, functions, sized_ops.NOTES, symbols=True)


def _list(text: str, tensor: ast.expr, facts: tuple[Fact, ...], names: Mapping[str, str]) -> tuple[str, str]:
    """Numbers of a tensor of one dimension, each by an op."""
    short = all(
        fact.shape is not None and len(fact.shape) == 1 and fact.shape[0] <= _MOST_NUMBERS for fact in facts
    )
    if not short or not _are_whole(facts):
        return "", ""
    each = text_.unused_name(text_.parse(text), "each")
    return f"[{names['_item']}({each}) for {each} in {text_.segment(text, tensor)}]", "_item"


def _number(
    request: Request, node: ast.Call, tensor: ast.expr, facts: tuple[Fact, ...], names: Mapping[str, str]
) -> tuple[str, str]:
    """The code of one number, and the op that it calls; empty where it is none."""
    builtin = node.func.id if isinstance(node.func, ast.Name) else ""
    flags = not builtin and all(fact.dtype == "torch.bool" for fact in facts)
    if builtin == "bool" or flags:
        return f"({names['_flag']}({text_.segment(request.text, tensor)}) == 1)", "_flag"
    if builtin not in ("", "int") or not (builtin or _are_whole(facts)):
        return "", ""
    counted = _counted(request, tensor)
    if counted is not None:
        return f"{names['_count']}({text_.segment(request.text, counted)})", "_count"
    if isinstance(tensor, ast.Call) and choice.called(tensor) in _PLACES:
        used = "_place_of"
    else:
        used = "_whole" if builtin else "_item"
    return f"{names[used]}({text_.segment(request.text, tensor)})", used


def _are_whole(facts: tuple[Fact, ...]) -> bool:
    return all(fact.dtype in _INTEGERS for fact in facts)


def _counted(request: Request, tensor: ast.expr) -> ast.expr | None:
    """``mask`` of ``mask.sum()`` and ``torch.sum(mask)``."""
    match tensor:
        case ast.Call(func=ast.Attribute(value=ast.Name(id="torch"), attr="sum"), args=[mask], keywords=[]):
            found = mask
        case ast.Call(func=ast.Attribute(value=mask, attr="sum"), args=[], keywords=[]):
            found = mask
        case _:
            return None
    (facts,) = request.facts.values(found)
    return found if facts and all(fact.dtype == "torch.bool" for fact in facts) else None
