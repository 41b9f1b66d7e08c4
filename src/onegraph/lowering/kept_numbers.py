"""Numbers that are only kept: ``self.losses.append(loss.item())``, ``self.last = float(x)``, ``N["x"] += x.item()``.

The statement runs in an ordered op: the tensor goes in, Python does the rest when the compiled program gets there, so
the graph needs no number. No op takes an object such as ``self``: it gets the ``id``, for which the compiler has a
guard, and finds the object by it. Nothing else that runs compiled may read what is kept, for the compiler doesn't know
of the op's write.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from onegraph.lowering import choice, effect_text
from onegraph.lowering.effect_repairs import Proposal, propose, statement_of
from onegraph.lowering.effect_scope import scope_of
from onegraph.lowering.effects import Effect, move_to_op
from onegraph.lowering.numbers import taken_from
from onegraph.lowering.streams import sets_torch_state
from onegraph.model import Candidate, Declined
from onegraph.rewrite import text as text_
from onegraph.rewrite.request import Request

_ADDING = frozenset(("append", "extend", "appendleft", "add", "insert", "update"))
_PLAIN = frozenset(("int", "float", "bool", "str", "NoneType"))
_NOTES = (
    "it runs in Python when the compiled program gets there; a CUDA graph is split at it",
    "each object that keeps numbers so has a graph of its own, where the compiled function starts at it",
)


def kept(request: Request, kind: str) -> Iterator[Candidate | Declined]:
    """The statement at the site as an ordered op, where all it does is to keep something."""
    statement = statement_of(request)
    place = place_of(statement)
    if statement is None or place is None or not effect_text.owns_lines(request.text, statement):
        return
    tree = text_.parse(request.text)
    scope = scope_of(tree, statement)
    root = _root(place)
    if root is None or scope.function is None:
        return
    if any(fact.is_tensor for fact in request.facts.values(place.value)[0]):
        return  # a write into a tensor
    owner = root.id if root.id in scope.names else ""
    if owner and not scope.is_first_argument(owner):
        return
    what = _name(place, owner)
    if what is None or not all(_holds_no_tensor(request, part) for part in _written(statement, place)):
        return
    if (line := _read_elsewhere(request, tree, statement, what, owner)) is not None:
        yield Declined(
            kind,
            f"`{what}` is read in line {line} too, where the compiler would not see what was kept.",
            "Keep the tensor (detached), and take the number out of it outside of the compiled function.",
        )
        return
    effect = Effect(statement, "keep", [what], keep_eager=bool(owner), owner=owner, calls=False)
    proposal = Proposal(kind, f"Keep `{what}` from an ordered op", _NOTES[: 2 if owner else 1])
    yield from propose(request, proposal, lambda: move_to_op(request, effect))


def place_of(statement: ast.stmt | None) -> ast.Attribute | ast.Subscript | None:
    """What a statement writes to: ``self.losses.append`` of a call, the target of an assignment."""
    match statement:
        case ast.Expr(value=ast.Call(func=ast.Attribute(attr=name) as place)) if name in _ADDING:
            return place
        case (
            ast.Assign(targets=[ast.Attribute() | ast.Subscript() as place])
            | ast.AugAssign(target=ast.Attribute() | ast.Subscript() as place)
        ):
            return place
    return None


def _written(statement: ast.stmt, place: ast.Attribute | ast.Subscript) -> list[ast.expr]:
    """What is put there: the arguments of an append, the value of an assignment, and the key."""
    key = [place.slice] if isinstance(place, ast.Subscript) else []
    match statement:
        case ast.Expr(value=ast.Call() as call):
            return [*call.args, *(keyword.value for keyword in call.keywords), *key]
        case ast.Assign(value=value) | ast.AugAssign(value=value):
            return [value, *key]
    return key


def _holds_no_tensor(request: Request, node: ast.expr) -> bool:
    """Whether what is kept is made of numbers and texts: a tensor would lose its gradient, and what it shares."""
    if isinstance(node, ast.Dict | ast.List | ast.Tuple):
        parts = [*node.values, *(k for k in node.keys if k)] if isinstance(node, ast.Dict) else node.elts
        return all(_holds_no_tensor(request, part) for part in parts)
    if isinstance(node, ast.Call) and choice.called(node) == "tolist":
        return True
    facts = request.facts.values(node)[0]
    return isinstance(node, ast.Constant) or (bool(facts) and all(fact.type in _PLAIN for fact in facts))


def _root(node: ast.expr) -> ast.Name | None:
    """The name that ``a.b[c].d`` starts at."""
    while isinstance(node, ast.Attribute | ast.Subscript):
        node = node.value
    return node if isinstance(node, ast.Name) else None


def _name(place: ast.Attribute | ast.Subscript, owner: str) -> str | None:
    """The attribute of the owner (or the name in the module) that holds what is kept."""
    chain: list[ast.expr] = [place]
    while isinstance(chain[-1], ast.Attribute | ast.Subscript):
        chain.append(chain[-1].value)
    first = chain[-2]
    if not owner:
        return chain[-1].id if isinstance(chain[-1], ast.Name) and len(chain) > 1 else None
    return first.attr if isinstance(first, ast.Attribute) else None


def _read_elsewhere(
    request: Request, tree: ast.Module, statement: ast.stmt, what: str, owner: str
) -> int | None:
    """The line of another statement of the same function, or of one that runs, that reads the place."""
    inside = set(ast.walk(statement))
    reads = [
        node
        for node in ast.walk(tree)
        if node not in inside
        and isinstance(node, ast.Attribute if owner else ast.Name)
        and isinstance(node.ctx, ast.Load)
        and (node.attr if isinstance(node, ast.Attribute) else node.id) == what
    ]
    function = scope_of(tree, statement).function
    own = set(ast.walk(function)) if function is not None else set()
    for node, facts in zip(reads, request.facts.values(*reads), strict=True):
        if (facts or node in own) and not _keeps_too(tree, node):
            return node.lineno
    return None


def _keeps_too(tree: ast.Module, node: ast.expr) -> bool:
    """Whether a read only leads to another place that something is kept in, or to a seed: it becomes an op as well."""
    at = text_.statement_at(tree, text_.span_of(node))
    if (
        isinstance(at, ast.Expr)
        and isinstance(at.value, ast.Call)
        and sets_torch_state(tree, scope_of(tree, at), at.value)
    ):
        return True
    place = place_of(at)
    return (
        place is not None
        and node in ast.walk(place)
        and at is not None
        and any(map(taken_from, ast.walk(at)))
    )
