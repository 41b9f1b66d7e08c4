"""Constructs that are written another way before a branch is lowered, one step at a time.

A step leaves the same program, with the branch still in it: ``match`` becomes a chain of ``if``, a name bound in the
test is bound in front of it, effects inside an arm get an ``if`` of their own. The branch is then looked at again.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass

from onegraph.lowering import attributes_local, early_returns, effects_apart, flow, helper, match_cases
from onegraph.lowering.branch import measured_in
from onegraph.lowering.choice import unsafe_to_evaluate
from onegraph.lowering.place import Place, find
from onegraph.lowering.refused import Refused
from onegraph.lowering.source import Source
from onegraph.model import Candidate, Declined, Level
from onegraph.rewrite import text as edit
from onegraph.rewrite.request import Facts, Request

KIND = "branch_on_tensor"


def first_step(request: Request) -> Iterator[Candidate | Declined]:
    """All such steps for the branch at ``request.site.span`` as one; nothing where none is needed."""
    titles: list[str] = []
    try:
        text, function = _steps(request, titles)
    except Refused as refused:
        yield Declined(KIND, refused.reason, refused.next_step)
        return
    if titles:
        text = helper.complete(text, cond=None)
        ast.parse(text)
        title = ", ".join(dict.fromkeys(titles))
        yield Candidate(KIND, Level.EXACT, title, text, (function,), partial=True)


def _steps(request: Request, titles: list[str]) -> tuple[str, str]:
    tree = edit.parse(request.text)
    path = edit.path_at(tree, request.site.span)
    match = next((n for n in reversed(path) if isinstance(n, ast.stmt)), None)
    if isinstance(match, ast.Match):
        function = next((n for n in path if isinstance(n, edit.Function)), None)
        if function is None:
            raise Refused("the branch stands at module level", "Move it into a function.")
        titles.append(MATCH)
        return match_cases.as_ifs(request.text, match), dict(_names(tree))[function]
    place = find(request)
    if not isinstance(place.root, ast.If):
        return request.text, ""
    measured = measured_in(request, place)
    keys = attributes_local.wanted(place.root, measured) if _is_plain(place) else []
    tensors = {id(n) for n in match_cases.on_tensors(_taken(place), request.facts)}
    while True:
        found = _one(place, tensors, keys, measured)
        if found is None:
            return place.text, place.qualname
        titles.append(found.title)
        if found.line is None:
            return found.text, place.qualname
        if tensors and found.title == LOCAL:  # the rest is seen in the new text
            return found.text, place.qualname
        place, tensors, keys = _again(place, found), set(), []


def _taken(place: Place) -> list[ast.stmt]:
    """The arms of a branch, and what runs behind it where one of them returns early: it goes into the other one."""
    assert isinstance(place.root, ast.If)
    arms = [*place.root.body, *place.root.orelse]
    with suppress(Refused):
        return arms + (place.rest(place.root) if any(flow.inside(arms, ast.Return)) else [])
    return arms


@dataclass(frozen=True)
class _Step:
    """``line`` is where the branch stands in the new text; None where nothing is left to do."""

    title: str
    text: str
    line: int | None


LOCAL = "attributes are local names inside the branch"
MATCH = "match on a tensor becomes a chain of ifs"


def _is_plain(place: Place) -> bool:
    return isinstance(place.root, ast.If) and not place.is_elif(place.root)


def _one(
    place: Place, tensors: set[int], keys: list[str], measured: Callable[[ast.stmt], Facts]
) -> _Step | None:
    """The first step that a branch needs. ``tensors``: the ``match`` statements that are on tensors."""
    root = place.root
    assert isinstance(root, ast.If)
    if keys:  # first: what was measured belongs to the text as it was
        text = attributes_local.localised(place.text, root, keys, measured)
        return _Step(LOCAL, text, root.lineno + len(keys))
    for node in reversed(list(flow.inside(_taken(place), ast.Match))):
        if id(node) in tensors:
            assert isinstance(node, ast.Match)
            return _Step(MATCH, match_cases.as_ifs(place.text, node), root.lineno)
    if (walrus := _bound_in_test(root)) is not None:
        text, line = _bound_before(place, _if_of(root, walrus), walrus)
        return _Step(f"`{walrus.target.id}` is bound in front of the test", text, line)
    if not place.is_elif(root) and effects_apart.behind_return(place, root):
        with suppress(Refused):
            return _Step(early_returns.TITLE, early_returns.joined(place), None)
    if effects_apart.mixed(edit.parse(place.text), place, root):
        return _Step("the effects in an arm get an if of their own", effects_apart.apart(place, root), None)
    return None


def _again(place: Place, step: _Step) -> Place:
    """The branch in the text after a step."""
    function = next(n for name, n in edit.functions(edit.parse(step.text)) if name == place.qualname)
    root = next(n for n in ast.walk(function) if isinstance(n, ast.If) and n.lineno == step.line)
    return Place(step.text, root, function, place.qualname)


def _names(tree: ast.Module) -> Iterator[tuple[ast.AST, str]]:
    return ((node, name) for name, node in edit.functions(tree))


# --- a name bound in the test ---------------------------------------------------------------------------------


def _bound_in_test(root: ast.If) -> ast.NamedExpr | None:
    """The first ``name := value`` in the tests of a branch."""
    for node in [root, *flow.inside([*root.body, *root.orelse], ast.If)]:
        assert isinstance(node, ast.If)
        named = [n for n in ast.walk(node.test) if isinstance(n, ast.NamedExpr)]
        if named and not any(n is named[0] for n in _always(node.test)):
            raise Refused(
                f"`{ast.unparse(named[0])}` binds a name on some of the test's paths only",
                "Bind the name before the branch.",
            )
        if named:
            return named[0]
    return None


def _always(node: ast.expr) -> Iterator[ast.expr]:
    """The parts of an expression that are evaluated first, whatever comes out, with nothing but names in front."""
    yield node
    if isinstance(node, ast.BoolOp):
        yield from _always(node.values[0])
    elif isinstance(node, ast.Compare | ast.BinOp):
        yield from _always(node.left)
        if isinstance(node.left, ast.Name | ast.Constant):
            second = node.right if isinstance(node, ast.BinOp) else node.comparators[0]
            yield from _always(second)
    elif isinstance(node, ast.UnaryOp):
        yield from _always(node.operand)
    elif isinstance(node, ast.Attribute):
        yield from _always(node.value)
    elif isinstance(node, ast.Call):
        plain = isinstance(node.func, ast.Name)
        yield from _always(node.args[0] if plain and node.args else node.func)


def _if_of(root: ast.If, walrus: ast.NamedExpr) -> ast.If:
    ifs = (n for n in ast.walk(root) if isinstance(n, ast.If))
    return next(n for n in ifs if any(part is walrus for part in ast.walk(n.test)))


def _bound_before(place: Place, node: ast.If, walrus: ast.NamedExpr) -> tuple[str, int]:
    """The text with the name bound in front, and the line of the branch in it."""
    text, root = place.text, place.root
    name = walrus.target.id
    line = f"{name} = {Source(text).code(walrus.value)}\n"
    first, _, end, _ = edit.position(node)
    named = edit.replace_spans(text, [(*_in_parentheses(text, walrus), name)])
    early = _anywhere(place, walrus) and isinstance(root, ast.If) and not place.is_elif(root)
    if early or not place.is_elif(node):
        at = root.lineno if early else first
        changed = edit.replace_spans(named, [(at, 0, at, 0, edit.indent_of(text, at) + line)])
        return changed, root.lineno + (at <= root.lineno)
    end -= len(edit.lines(text)) - len(edit.lines(named))
    block = edit.reindent("".join(edit.lines(named)[first - 1 : end]), "").replace("elif", "if", 1)
    code = edit.reindent("else:\n" + edit.reindent(line + block, place.unit), edit.indent_of(text, first))
    return edit.replace_lines(named, first, end, code), root.lineno + 2 * (node is root)


def _anywhere(place: Place, walrus: ast.NamedExpr) -> bool:
    """Whether the name may be bound on every path: it is bound here only, to what can't fail."""
    names = (n for n in ast.walk(place.function) if isinstance(n, ast.Name) and n.id == walrus.target.id)
    stores = [n for n in names if isinstance(n.ctx, ast.Store)]
    inside = place.root.body if isinstance(place.root, ast.If) else []
    changed = flow.binds(inside) & flow.reads(walrus.value)
    return len(stores) == 1 and not changed and unsafe_to_evaluate(walrus.value) is None


def _in_parentheses(text: str, walrus: ast.NamedExpr) -> tuple[int, int, int, int]:
    """The span of the expression, with the parentheses that only it needs."""
    line, column, end_line, end_column = edit.position(walrus)
    rows = [row.encode() for row in edit.lines(text)]
    before, after = rows[line - 1][:column], rows[end_line - 1][end_column:]
    call = len(before) > 1 and (chr(before[-2]).isalnum() or chr(before[-2]) in "_])")
    if before.endswith(b"(") and after.startswith(b")") and not call:
        return line, column - 1, end_line, end_column + 1
    return line, column, end_line, end_column
