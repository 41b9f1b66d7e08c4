"""A loop over the places where a condition holds becomes a loop over all places: ``for expert in hit.nonzero():``.

Python then knows the trips, and the index is a number. It is the same program where a trip does nothing for a place at
which the condition does not hold: all that it changes are rows that it selects itself, from what the condition was
computed of, and there are none. The judge runs it on the smallest inputs, too, where most conditions fail.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass

from onegraph.lowering import choice, row_writes, written_helpers
from onegraph.lowering.effect_scope import loads, stores
from onegraph.lowering.effect_text import owns_lines
from onegraph.lowering.refused import Refused
from onegraph.model import Candidate, Declined, Level
from onegraph.rewrite import text as text_
from onegraph.rewrite.request import Request

Def = ast.FunctionDef | ast.AsyncFunctionDef
_SELECTS = frozenset(("where", "nonzero", "argwhere"))
_PLACES = '''\
def {name}(holds, indexed):
    """How many places there are in what is ``indexed``; at none behind them does the condition hold."""
    size = min(holds.shape[0], indexed.shape[0])
    {torch}._assert_async((holds[size:] == 0).all(), "index is out of bounds")
    return size
'''
_BODIES = {"_places": _PLACES}
_NOTES = (
    "every place gets a trip, on no rows where the condition does not hold; what is called there (an expert) must only "
    "compute",
    "a layer or parameter that only trips without rows use gets zeros in place of None as its gradient",
)


@dataclass(frozen=True, slots=True)
class _Loop:
    node: ast.For
    place: str  # the loop's variable
    holds: ast.Call  # ``condition.nonzero()``
    condition: ast.expr
    held: str  # the name that the places are bound to; "" where the loop's head has them


def over_every_place(request: Request, kind: str) -> Iterator[Candidate | Declined]:
    """The loop around the site, over all places; nothing where there is no such loop."""
    tree = text_.parse(request.text)
    statement = text_.statement_at(tree, request.site.span)
    function = text_.find_function(tree, request.site.function, request.site.span.line)
    if statement is None or not isinstance(function, Def):
        return
    loop = next(_loops(request, function, statement), None)
    if loop is None:
        return
    try:
        _check(request, function, loop)
        text = _text(request, loop)
    except Refused as why:
        yield Declined(kind, why.reason, why.next_step)
        return
    name = next(name for name, node in text_.functions(tree) if node is function)
    shown = " ".join(text_.segment(request.text, loop.node.iter).split())
    title = f"a trip for every place in the loop over `{shown}`"
    yield Candidate(kind, Level.RELAXED, title, text, (name,), _NOTES)


# --- which loop? ----------------------------------------------------------------------------------------------


def _loops(request: Request, function: Def, statement: ast.stmt) -> Iterator[_Loop]:
    """The loops over places that the statement is a part of, or makes the places of."""
    for node in ast.walk(function):
        if not isinstance(node, ast.For) or not isinstance(node.target, ast.Name):
            continue
        made, held = node.iter, ""
        if isinstance(made, ast.Name):
            held = made.id
            bound = [n for n in ast.walk(function) if isinstance(n, ast.Assign) and held in stores(n)]
            if len(bound) != 1 or not isinstance(bound[0].targets[0], ast.Name):
                continue
            made = bound[0].value
            part = bound[0] is statement
        else:
            part = False
        condition = _condition(made)
        if condition is None or not (part or any(each is statement for each in ast.walk(node))):
            continue
        (facts,) = request.facts.values(condition)
        if facts and all(f.is_tensor and len(f.shape or ()) == 1 for f in facts):
            assert isinstance(made, ast.Call)
            yield _Loop(node, node.target.id, made, condition, held)


def _condition(node: ast.expr) -> ast.expr | None:
    """``c`` of ``c.nonzero()`` and ``torch.nonzero(c)``."""
    match node:
        case ast.Call(
            func=ast.Attribute(value=ast.Name(id="torch"), attr="nonzero" | "argwhere"), args=[condition]
        ):
            found = condition
        case ast.Call(func=ast.Attribute(value=condition, attr="nonzero" | "argwhere"), args=[]):
            found = condition
        case _:
            return None
    plain = all(k.arg == "as_tuple" and getattr(k.value, "value", True) is False for k in node.keywords)
    return found if plain else None


# --- does a trip without rows do nothing? ---------------------------------------------------------------------


def _check(request: Request, function: Def, loop: _Loop) -> None:
    """Raises Refused where a trip may do something at a place where the condition does not hold."""
    node = loop.node
    if node.orelse:
        raise Refused("The loop has an `else`.", "Put what stands there behind the loop.")
    for name in (n for n in ast.walk(function) if isinstance(n, ast.Name) and n.id == loop.held):
        if isinstance(name.ctx, ast.Load) and name is not node.iter:
            raise Refused(f"`{name.id}` is also used in line {name.lineno}.", "Use the condition there.")
    row_writes.check(function, node, node.body, _rows(request, function, loop))


def _rows(request: Request, function: Def, loop: _Loop) -> set[str]:
    """The names of selected rows: where the mask, at the loop's place, is set. The condition holds where it is set at
    all."""
    mask = _counted(loop.condition)
    if mask is None or not _is_mask(request, function, mask):
        return set()
    bound = {name for s in loop.node.body for name in stores(s)}
    found: set[str] = set()
    for each in (n for n in ast.walk(loop.node) if isinstance(n, ast.Assign)):
        selects = any(isinstance(n, ast.Call) and choice.called(n) in _SELECTS for n in ast.walk(each.value))
        read = {n.id for n in loads(each.value)} - {"torch"}
        if selects and mask in read and read <= {mask, loop.place, *_numbers(loop, bound)}:
            found |= stores(each)
    return found


def _numbers(loop: _Loop, bound: set[str]) -> set[str]:
    """Other names of the place: ``index = int(place.item())``."""
    made = [n for s in loop.node.body for n in ast.walk(s) if isinstance(n, ast.Assign)]
    return {name for n in made if _taken(n.value, loop.place) for name in stores(n) & bound}


def _counted(node: ast.expr) -> str | None:
    """The mask of which a condition tells where it is set at all: ``mask.sum((-1, -2)) > 0``, ``mask.any(-1)``."""
    match node:
        case ast.Name(id=name):
            return name
        case ast.Compare(left=left, ops=[ast.Gt() | ast.NotEq()], comparators=[ast.Constant(value=0)]):
            return _counted(left)
        case ast.Call(
            func=ast.Attribute(value=ast.Name(id="torch"), attr="greater" | "gt" | "ne" | "not_equal"),
            args=[left, ast.Constant(value=0)],
        ):
            return _counted(left)
        case ast.Call(
            func=ast.Attribute(value=ast.Name(id="torch"), attr="sum" | "any" | "amax"), args=[left, *_]
        ):
            return _counted(left)
        case ast.Call(func=ast.Attribute(value=inner, attr="sum" | "any" | "amax" | "bool")):
            return _counted(inner)
        case ast.Call(
            func=ast.Attribute(value=inner, attr="greater" | "gt" | "ne"), args=[ast.Constant(value=0)]
        ):
            return _counted(inner)
    return None


def _is_hot(node: ast.expr, name: str) -> bool:
    """``F.one_hot(...).permute(2, 1, 0)``, or the mask itself, its elements elsewhere."""
    match node:
        case ast.Name(id=other):
            return other == name
        case ast.Call(func=ast.Attribute(attr="one_hot")) | ast.Call(func=ast.Name(id="one_hot")):
            return True
        case ast.Call(
            func=ast.Attribute(value=inner, attr="permute" | "transpose" | "to" | "view" | "reshape")
        ):
            return _is_hot(inner, name)
    return False


def _is_mask(request: Request, function: Def, name: str) -> bool:
    """Whether a name holds bools, or the zeros and ones of ``one_hot``: nothing that adds up to nothing."""
    made = [n for n in ast.walk(function) if isinstance(n, ast.Assign) and name in stores(n)]
    if made and all(_is_hot(each.value, name) for each in made):
        return True
    uses = [
        n
        for n in ast.walk(function)
        if isinstance(n, ast.Name) and n.id == name and isinstance(n.ctx, ast.Load)
    ]
    facts = [fact for seen in request.facts.values(*uses) for fact in seen]
    return bool(facts) and all(fact.dtype == "torch.bool" for fact in facts)


# --- text -----------------------------------------------------------------------------------------------------


def _text(request: Request, loop: _Loop) -> str:
    text, node = request.text, loop.node
    condition = text_.segment(text, loop.condition)
    if "\n" in condition or not isinstance(
        loop.condition, ast.Name | ast.Attribute | ast.Call | ast.Subscript
    ):
        condition = f"({condition})"
    edits: list[text_.Edit] = [(*text_.position(loop.holds), condition)] if loop.held else []
    shorter = _shorter(request, loop)
    helper = written_helpers.names_in(text, _BODIES)["_places"]
    holds = loop.held or condition
    head = f"{holds}.shape[0]" if shorter is None else f"{helper}({holds}, {text_.segment(text, shorter)})"
    edits.append((*text_.position(node.iter), f"range({head})"))
    named = False  # whether the program made the variable a number, or a tensor without dimensions
    for statement in node.body:
        if _is_place(statement, loop.place):
            if not owns_lines(text, statement):
                raise Refused(
                    f"Line {statement.lineno} holds several statements.", "Put them on lines of their own."
                )
            edits.append((statement.lineno, 0, text_.position(statement)[2] + 1, 0, ""))
            named = True
        else:
            edits += _uses(request, loop, statement, named=named)
    return written_helpers.complete(text_.replace_spans(text, edits), {"_places": helper}, _BODIES)


def _shorter(request: Request, loop: _Loop) -> ast.expr | None:
    """What the places index and has fewer of them than the condition."""
    (facts,) = request.facts.values(loop.condition)
    size = min((fact.shape[0] for fact in facts if fact.shape), default=0)
    found: list[tuple[int, ast.expr]] = []
    for node in (n for s in loop.node.body for n in ast.walk(s)):
        if (
            isinstance(node, ast.Subscript)
            and isinstance(node.ctx, ast.Load)
            and _taken(node.slice, loop.place)
        ):
            sizes = [f.shape[0] for f in request.facts.values(node.value)[0] if f.shape]
            own = {name for s in loop.node.body for name in stores(s)}
            if sizes and max(sizes) < size and not own & {n.id for n in loads(node.value)}:
                found.append((max(sizes), node.value))
    return min(found, key=lambda each: each[0])[1] if found else None


def _is_place(statement: ast.stmt, place: str) -> bool:
    """``expert = expert[0]``, ``expert = expert.item()``."""
    match statement:
        case ast.Assign(targets=[ast.Name(id=name)], value=value) if name == place:
            return _taken(value, place)
    return False


def _taken(node: ast.expr, place: str) -> bool:
    """Whether an expression is the loop's variable itself, maybe without its dimension."""
    match node:
        case ast.Name(id=name):
            return name == place
        case ast.Subscript(value=inner, slice=ast.Constant(value=0)):
            return _taken(inner, place)
        case ast.Call(func=ast.Attribute(value=inner, attr="item" | "squeeze"), args=[], keywords=[]):
            return _taken(inner, place)
        case ast.Call(func=ast.Name(id="int"), args=[inner], keywords=[]):
            return _taken(inner, place)
    return False


def _uses(request: Request, loop: _Loop, statement: ast.stmt, *, named: bool) -> Iterator[text_.Edit]:
    """What becomes of the loop's variable, a tensor of one index, where it is a number. Raises Refused."""
    parents = {child: node for node in ast.walk(statement) for child in ast.iter_child_nodes(node)}
    for name in (n for n in ast.walk(statement) if isinstance(n, ast.Name) and n.id == loop.place):
        whole: ast.expr = name
        around: ast.AST | None = name
        while around is not None:
            whole = around if isinstance(around, ast.expr) and _taken(around, loop.place) else whole
            around = parents.get(around)
        around = parents.get(whole)
        if whole is not name:
            yield *text_.position(whole), name.id
        if named or whole is not name:
            if isinstance(around, ast.Compare | ast.Assign) or _indexes(around, whole):
                continue
        elif isinstance(around, ast.Subscript) and around.slice is name:
            (facts,) = request.facts.values(around.value)
            if facts and all(f.is_tensor for f in facts):
                yield *text_.position(name), f"{name.id} : {name.id} + 1"
            continue
        raise Refused(
            f"`{loop.place}` is used otherwise than as an index in line {name.lineno}.", "Index by it."
        )


def _indexes(around: ast.AST | None, index: ast.expr) -> bool:
    return isinstance(around, ast.Subscript) and around.slice is index
