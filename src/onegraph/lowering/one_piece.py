"""Attention on the pieces of a split by lengths becomes attention on the whole, under a mask of the pieces.

``torch.split(q, lengths.tolist(), dim=2)`` becomes ``(q,)``, one piece, and what is called on each piece is given a
mask for attention within the pieces in place of None. What the text does with the results (collect, concatenate)
stays. That the function heeds such a mask can't be told from the text: it is measured that the mask makes a
difference, and the judge compares what comes out.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from onegraph.lowering import choice, pure_code, written_helpers
from onegraph.lowering.effect_scope import COMPREHENSIONS, loads, stores
from onegraph.lowering.refused import Refused
from onegraph.model import Candidate, Declined, Level
from onegraph.rewrite import text as text_
from onegraph.rewrite.request import Request

Def = ast.FunctionDef | ast.AsyncFunctionDef
_KNOWN = "scaled_dot_product_attention"
_MASKS = ("attention_mask", "attn_mask", "mask")
WITHIN_PIECES = '''\
def {name}(lengths, tensor, dim, keeps=False):
    """A mask for attention within pieces of these lengths: 0 within a piece, or True where it ``keeps``."""
    size, ends = tensor.shape[dim], lengths.to(tensor.device).cumsum(0)
    fits = (lengths >= 0).all() & (lengths.sum() == size)
    {torch}._assert_async(fits, "the lengths of the pieces don't add up to the size of what is split")
    piece = {torch}.searchsorted(ends, {torch}.arange(size, device=ends.device, dtype=ends.dtype), right=True)
    within = (piece[:, None] == piece)[None, None]
    return within if keeps else {torch}.where(within, 0.0, float("-inf")).to(tensor.dtype)
'''
_HEEDS = """\
def {name}(masked, plain):
    first, second = (each[0] if isinstance(each, tuple) else each for each in (masked, plain))
    return not {torch}.allclose(first, second)
"""
_BODIES = {"_within_pieces": WITHIN_PIECES}
_NOTES = (
    "one call for all pieces: the same values up to rounding; the mask takes memory for each pair of positions",
    "what comes out for each piece beside (attention weights) is there once, for the whole",
)
_SIZES = ("split_size_or_sections", "split_sizes", "split_size", "sizes")


@dataclass(frozen=True, slots=True)
class _Split:
    call: ast.Call
    tensor: ast.expr
    sizes: ast.expr  # as given: ``lengths.tolist()``, or a name that holds it
    listed: ast.Call  # ``lengths.tolist()``
    lengths: ast.expr
    dim: ast.expr | None


@dataclass(frozen=True, slots=True)
class _Loop:
    """What runs on each piece: a ``for``, or a comprehension."""

    node: ast.AST
    pieces: frozenset[str]
    iterated: ast.expr


@dataclass(frozen=True, slots=True)
class _Attention:
    call: ast.Call
    mask: ast.expr | None  # what is given now
    parameter: str
    piece: str


def in_one_piece(request: Request, kind: str) -> Iterator[Candidate | Declined]:
    """The function around the site with attention on all pieces at once; nothing where none is split by lengths."""
    tree = text_.parse(request.text)
    function = text_.find_function(tree, request.site.function, request.site.span.line)
    if not isinstance(function, Def):
        return
    statement = text_.statement_at(tree, request.site.span)
    try:
        found = _found(request, function, statement)
        if found is None:
            return
        splits, loops = found
        attention = _attention(request, loops)
        _check_uses(function, splits, loops)
        qualname = next(name for name, node in text_.functions(tree) if node is function)
        for keeps in (True, False) if attention.parameter == "attn_mask" else (False, True):
            masked = _text(request, splits, attention, keeps=keeps)
            _check_heeded(request, qualname, splits, attention, keeps=keeps)
            form = "a mask of bools" if keeps else "an added mask"
            title = f"one `{ast.unparse(attention.call.func)}` on all pieces, under {form}"
            yield Candidate(kind, Level.RELAXED, title, masked, (qualname,), _NOTES, rounding=True)
    except Refused as why:
        yield Declined(kind, why.reason, why.next_step)


# --- what is split, and who gets the pieces -------------------------------------------------------------------


def is_split(node: ast.AST) -> bool:
    """``torch.split(x, lengths)``, ``x.split(lengths)``."""
    return isinstance(node, ast.Call) and choice.called(node) in ("split", "split_with_sizes")


def _found(
    request: Request, function: Def, statement: ast.stmt | None
) -> tuple[list[_Split], list[_Loop]] | None:
    """The splits that the site's statement belongs to, by lengths that come from a tensor, and what runs on the
    pieces."""
    every = [split for node in ast.walk(function) if (split := _split(request, function, node)) is not None]
    for lengths in dict.fromkeys(ast.dump(split.lengths) for split in every):
        splits = [split for split in every if ast.dump(split.lengths) == lengths]
        loops = list(_loops(function, [split.call for split in splits]))
        parts = [part for split in splits for part in (split.call, split.listed)] + [
            loop.node for loop in loops
        ]
        if statement is not None and any(
            _inside(part, statement) or _inside(statement, part) for part in parts
        ):
            return splits, loops
    return None


def _split(request: Request, function: Def, node: ast.AST) -> _Split | None:
    if not isinstance(node, ast.Call) or not is_split(node):
        return None
    arguments = list(node.args)
    if isinstance(node.func, ast.Attribute) and _is_tensor(request, node.func.value):
        arguments.insert(0, node.func.value)
    given = dict(zip(("tensor", "sizes", "dim"), arguments, strict=False))
    given |= {"sizes" if k.arg in _SIZES else k.arg or "**": k.value for k in node.keywords}
    if not {"tensor", "sizes"} <= given.keys() <= {"tensor", "sizes", "dim"}:
        return None
    sizes = listed = given["sizes"]
    if isinstance(sizes, ast.Name):
        made = [n.value for n in ast.walk(function) if isinstance(n, ast.Assign) and sizes.id in stores(n)]
        listed = made[-1] if made else sizes
    match listed:
        case ast.Call(func=ast.Attribute(value=lengths, attr="tolist"), args=[], keywords=[]):
            if _is_tensor(request, lengths):
                return _Split(node, given["tensor"], sizes, listed, lengths, given.get("dim"))
    return None


def _loops(function: Def, calls: Sequence[ast.Call]) -> Iterator[_Loop]:
    """What runs on each piece, in a ``for`` or a comprehension."""
    held = _held(function, calls)
    for node in ast.walk(function):
        parts = node.generators if isinstance(node, COMPREHENSIONS) else [node]
        for part in parts:
            if not isinstance(part, ast.For | ast.comprehension):
                continue
            if any(_inside(call, part.iter) for call in calls) or _reads(part.iter, held):
                yield _Loop(node, frozenset(pure_code.names_stored(part.target)), part.iter)


def _held(function: Def, calls: Sequence[ast.Call]) -> set[str]:
    """The names that the pieces are bound to."""
    made = [n for n in ast.walk(function) if isinstance(n, ast.Assign)]
    return {name for n in made if any(_inside(call, n.value) for call in calls) for name in stores(n)}


def _attention(request: Request, loops: Sequence[_Loop]) -> _Attention:
    """The one call that gets the pieces, with a mask that is None. Raises Refused."""
    found = [
        attention
        for loop in loops
        for node in ast.walk(loop.node)
        if isinstance(node, ast.Call) and (attention := _masked(request, node, loop)) is not None
    ]
    if len(found) != 1:
        raise Refused(
            "What runs on each piece takes no mask for attention.",
            "Write it for the whole: attention under a mask of the pieces, sums by index_add.",
        )
    for loop in loops:
        for name in ast.walk(loop.node):
            piece = isinstance(name, ast.Name) and isinstance(name.ctx, ast.Load) and name.id in loop.pieces
            if isinstance(name, ast.Name) and piece and not _inside(name, found[0].call):
                raise Refused(
                    f"The piece `{name.id}` is also used in line {name.lineno}.", "Use the whole there."
                )
    return found[0]


def _masked(request: Request, node: ast.Call, loop: _Loop) -> _Attention | None:
    pieces = [n.id for argument in node.args for n in loads(argument) if n.id in loop.pieces]
    pieces += [n.id for k in node.keywords for n in loads(k.value) if n.id in loop.pieces]
    if len(pieces) < 2:
        return None
    for keyword in node.keywords:
        if keyword.arg in _MASKS:
            none = _is_none(request, keyword.value)
            return _Attention(node, keyword.value, keyword.arg, pieces[0]) if none else None
    if choice.called(node) != _KNOWN or any(isinstance(a, ast.Starred) for a in node.args):
        return None
    mask = node.args[3] if len(node.args) > 3 else None
    if mask is not None and not _is_none(request, mask):
        return None
    return _Attention(node, mask, "attn_mask", pieces[0])


def _check_uses(function: Def, splits: Sequence[_Split], loops: Sequence[_Loop]) -> None:
    """Raises Refused where the pieces, or how long they are, are asked for elsewhere."""
    held = _held(function, [split.call for split in splits])
    given = {split.sizes.id for split in splits if isinstance(split.sizes, ast.Name)}
    listed = text_.position(splits[0].listed)[2:]
    for name in (n for n in ast.walk(function) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Load)):
        asked = (
            name.id in given
            and text_.position(name)[:2] > listed
            and all(name is not s.sizes for s in splits)
        )
        if asked or (name.id in held and not any(_inside(name, loop.iterated) for loop in loops)):
            raise Refused(
                f"`{name.id}` is also used in line {name.lineno}.", "Keep the lengths a tensor there."
            )
        leaked = any(name.id in each.pieces and isinstance(each.node, ast.For) for each in loops)
        if leaked and not any(_inside(name, loop.node) for loop in loops):
            ends = [text_.position(loop.node)[2] for loop in loops if name.id in loop.pieces]
            if name.lineno > min(ends):
                raise Refused(f"The piece `{name.id}` is used behind the loop, in line {name.lineno}.", "")


def _check_heeded(
    request: Request, qualname: str, splits: Sequence[_Split], attention: _Attention, *, keeps: bool
) -> None:
    """Raises Refused where no recorded call shows that the mask makes a difference."""
    if choice.called(attention.call) == _KNOWN:
        return
    assert request.measure is not None, "repairs in steps are measured"
    name = text_.unused_name(text_.parse(request.text), "_heeds")
    text = written_helpers.added(_text(request, splits, attention, keeps=keeps, compared=name), name, _HEEDS)
    asked = [n for n in ast.walk(text_.parse(text)) if isinstance(n, ast.Call) and choice.called(n) == name]
    (outcomes,) = request.measure(text, (qualname,)).values(*asked)
    if all(fact.value != "True" for fact in outcomes):
        called = ast.unparse(attention.call.func)
        raise Refused(
            f"No recorded call shows that `{called}` heeds a mask.",
            "Record a call with two pieces that differ.",
        )


# --- text -----------------------------------------------------------------------------------------------------


def _text(
    request: Request, splits: Sequence[_Split], attention: _Attention, *, keeps: bool, compared: str = ""
) -> str:
    text = request.text
    helper = written_helpers.names_in(text, _BODIES)["_within_pieces"]
    lengths, dim = splits[0].lengths, splits[0].dim
    named = splits[0].sizes if isinstance(splits[0].sizes, ast.Name) else None
    given = [_flat(text, named or lengths), attention.piece, _flat(text, dim) if dim is not None else "0"]
    mask = f"{helper}({', '.join(given)}{', keeps=True' if keeps else ''})"
    none, otherwise = attention.mask, ""
    if none is not None and not isinstance(none, ast.Constant):
        otherwise = _flat(text, none)
        mask = f"{mask} if {otherwise} is None else {otherwise}"
    call = _with_mask(text, attention, mask)
    edits: list[text_.Edit] = []
    for split in splits:
        whole = f"({_flat(text, split.tensor)},)"
        if otherwise:
            whole = f"{whole} if {otherwise} is None else {_flat(text, split.call)}"
            whole = f"({whole})"
        edits.append((*text_.position(split.call), whole))
    if named is not None:
        edits.append((*text_.position(splits[0].listed), text_.segment(text, lengths)))
    if compared:
        call = f"({call}, {compared}({call}, {text_.segment(text, attention.call)}))[0]"
    edits.append((*text_.position(attention.call), call))
    return written_helpers.complete(text_.replace_spans(text, edits), {"_within_pieces": helper}, _BODIES)


def _with_mask(text: str, attention: _Attention, mask: str) -> str:
    """The call with a mask in the place of None."""
    code, call = text_.segment(text, attention.call), attention.call
    start = text_.offset(text, *text_.position(call)[:2])
    if attention.mask is not None:
        line, column, end_line, end_column = text_.position(attention.mask)
        first, last = (
            text_.offset(text, line, column) - start,
            text_.offset(text, end_line, end_column) - start,
        )
        return code[:first] + mask + code[last:]
    last_given = max((*call.args, *(k.value for k in call.keywords)), key=lambda n: text_.position(n)[2:])
    at = text_.offset(text, *text_.position(last_given)[2:]) - start
    return f"{code[:at]}, {attention.parameter}={mask}{code[at:]}"


def _flat(text: str, node: ast.AST) -> str:
    return " ".join(text_.segment(text, node).split())


# --- small questions ------------------------------------------------------------------------------------------


def _inside(node: ast.AST, around: ast.AST) -> bool:
    return any(part is node for part in ast.walk(around))


def _reads(node: ast.AST, names: set[str]) -> bool:
    return any(name.id in names for name in loads(node))


def _is_tensor(request: Request, node: ast.expr) -> bool:
    (facts,) = request.facts.values(node)
    return bool(facts) and all(fact.is_tensor for fact in facts)


def _is_none(request: Request, node: ast.expr) -> bool:
    if isinstance(node, ast.Constant):
        return node.value is None
    (facts,) = request.facts.values(node)
    return isinstance(node, ast.Name) and bool(facts) and all(fact.type == "NoneType" for fact in facts)
