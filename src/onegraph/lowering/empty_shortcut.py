"""A shortcut for an empty selection is dropped: on zero rows the code behind it does nothing anyway. So is one for a
mask that is set nowhere."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from onegraph.lowering import row_writes
from onegraph.lowering.effect_scope import stores
from onegraph.lowering.effect_text import is_elif, owns_lines
from onegraph.lowering.refused import Refused
from onegraph.model import Candidate, Declined, Level
from onegraph.rewrite import text as text_
from onegraph.rewrite.request import Request

_NOTES = (
    "the code runs on an empty selection, too; on the recorded calls the same comes out",
    "what an empty selection leaves out gets zeros in place of None as its gradient",
)


def is_size(test: ast.expr) -> bool:
    """``len(x) > 1``, ``not x.numel()``, ``x.shape[0] == 0``."""
    if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        return is_size(test.operand)
    if isinstance(test, ast.Compare):
        parts = [test.left, *test.comparators]
        return any(_reads_size(p) for p in parts) and all(_reads_size(p) or _plain(p) for p in parts)
    return _reads_size(test)


def _plain(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant | ast.Name)


def _reads_size(node: ast.expr) -> bool:
    match node:
        case ast.Call(func=ast.Attribute(attr="numel" | "size" | "nelement")):
            return True
        case ast.Call(func=ast.Name(id="len"), args=[_], keywords=[]):
            return True
        case ast.Subscript(value=ast.Attribute(attr="shape")):
            return True
    return False


def without_empty_shortcut(request: Request, node: ast.If, kind: str) -> Iterator[Candidate | Declined]:
    """The function without the ``if``: its body stays where it runs on what is not empty."""
    text = request.text
    empty = _asks_emptiness(node.test)
    leaves = len(node.body) == 1 and isinstance(node.body[0], ast.Continue | ast.Pass | ast.Return)
    if (
        empty is None
        or node.orelse
        or (empty and not leaves)
        or is_elif(text, node)
        or not owns_lines(text, node)
    ):
        return
    outcomes = {fact.value for fact in request.facts.values(node.test)[0]}
    shown = text_.segment(text, node.test)
    tree = text_.parse(text)
    function = text_.find_function(tree, request.site.function, request.site.span.line)
    one_outcome = len(outcomes & {"True", "False"}) < 2 and not _counts(outcomes)
    if one_outcome and not (function is not None and _guards_rows(function, node)):
        yield Declined(
            kind,
            f"`{shown}` had one outcome on every recorded call, so nothing shows that the shortcut changes nothing.",
            "Record a call with an empty selection, and one without.",
        )
        return
    indent = text_.indent_of(text, node.lineno)
    block = "" if empty else text_.reindent(text_.block_of(text, node.body[0], node.body[-1]), indent)
    changed = text_.replace_lines(text, node.lineno, text_.position(node)[2], block)
    named = [name for name, each in text_.functions(tree) if each is function]
    yield Candidate(kind, Level.RELAXED, f"the shortcut `{shown}` is dropped", changed, tuple(named), _NOTES)


def without_unset_shortcut(request: Request, node: ast.If, kind: str) -> Iterator[Candidate]:
    """The function without ``if mask.any():`` around what only writes into the rows that the mask selects."""
    text, mask = request.text, _asks_any(node.test)
    function = text_.find_function(text_.parse(text), request.site.function, request.site.span.line)
    if mask is None or node.orelse or function is None or is_elif(text, node) or not owns_lines(text, node):
        return
    (facts,) = request.facts.values(mask)
    loop = _loop_around(function, node)
    if loop is None or not facts or any(fact.dtype != "torch.bool" for fact in facts):
        return
    try:
        row_writes.check(function, loop, node.body, {mask.id})
    except Refused:
        return
    block = text_.reindent(
        text_.block_of(text, node.body[0], node.body[-1]), text_.indent_of(text, node.lineno)
    )
    changed = text_.replace_lines(text, node.lineno, text_.position(node)[2], block)
    named = [name for name, each in text_.functions(text_.parse(text)) if each is function]
    title = f"the shortcut `{text_.segment(text, node.test)}` is dropped"
    yield Candidate(kind, Level.RELAXED, title, changed, tuple(named), _NOTES)


def _asks_any(test: ast.expr) -> ast.Name | None:
    """``mask`` of ``mask.any()`` and ``torch.any(mask)``."""
    match test:
        case ast.Call(
            func=ast.Attribute(value=ast.Name(id="torch"), attr="any"), args=[ast.Name() as mask], keywords=[]
        ):
            return mask
        case ast.Call(func=ast.Attribute(value=ast.Name() as mask, attr="any"), args=[], keywords=[]):
            return mask
    return None


def _loop_around(function: ast.AST, node: ast.If) -> ast.For | None:
    """The loop in whose body an ``if`` of any tree of the text stands."""
    place = text_.position(node)
    loops = [n for n in ast.walk(function) if isinstance(n, ast.For)]
    return next((n for n in loops if any(text_.position(s) == place for s in n.body)), None)


def _guards_rows(function: ast.AST, node: ast.If) -> bool:
    """Whether what runs on the rows only writes into them, in a loop: on no rows it does nothing."""
    loop = _loop_around(function, node)
    asked = [n.id for n in ast.walk(node.test) if isinstance(n, ast.Name)]
    if loop is None or not asked:
        return False
    leaves = isinstance(node.body[0], ast.Continue)
    behind = [s for s in loop.body if s.lineno > text_.position(node)[2]]
    rest = behind if leaves else node.body
    made = [s for s in loop.body if isinstance(s, ast.Assign) and asked[0] in stores(s)]
    rows = {name for s in made for name in stores(s)}
    try:
        row_writes.check(function, loop, rest, rows)
    except Refused:
        return False
    return bool(rows)


def _asks_emptiness(test: ast.expr) -> bool | None:
    """True where the test holds for an empty selection alone, False for any other, None where neither."""
    if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        inner = _asks_emptiness(test.operand)
        return None if inner is None else not inner
    if not isinstance(test, ast.Compare):
        return False if _reads_size(test) else None
    bound = test.comparators[0]
    if len(test.ops) > 1 or not _reads_size(test.left) or not isinstance(bound, ast.Constant):
        return None
    return _EMPTINESS.get((type(test.ops[0]), bound.value if type(bound.value) is int else None))


_EMPTINESS: dict[tuple[type[ast.cmpop], int | None], bool] = {
    (ast.Eq, 0): True,
    (ast.LtE, 0): True,
    (ast.Lt, 1): True,
    (ast.Gt, 0): False,
    (ast.NotEq, 0): False,
    (ast.GtE, 1): False,
}


def _counts(outcomes: set[str | None]) -> bool:
    """Whether a bare size was zero and was not."""
    return "0" in outcomes and len(outcomes) > 1
