"""Effects (prints, logs, exceptions) among the computations of an arm move into an ``if`` of their own.

``if p: A; print(...); B`` becomes ``q = p``, ``if q: print(...)``, ``if q: A; B``, where the effect reads nothing
that A makes; else it comes behind the branch, where B changes nothing that it reads.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from onegraph.lowering import early_returns, flow, match_cases, state, wording
from onegraph.lowering.choice import unsafe_to_evaluate
from onegraph.lowering.effect_shapes import Effects
from onegraph.lowering.place import Place, find
from onegraph.lowering.refused import Refused
from onegraph.lowering.source import Source, operand
from onegraph.rewrite import text as edit
from onegraph.rewrite.request import Facts, Request


def mixed(tree: ast.Module, place: Place, root: ast.If) -> bool:
    """Whether the arms of a branch hold effects next to what the rest of the function needs."""
    effects = Effects(tree)
    if not any(_is_effect(effects, s) for s in _simple(root)):
        return False
    live = place.live_after(root)
    others = [s for s in _simple(root) if not _is_effect(effects, s) and not isinstance(s, ast.Pass)]
    named = (ast.Assign, ast.AugAssign, ast.AnnAssign)
    return any(not isinstance(s, named) or flow.binds(s) & live or _stores(s) for s in others)


def _stores(statement: ast.stmt) -> bool:
    """Whether a statement writes an attribute or an element."""
    parts = (n for n in ast.walk(statement) if isinstance(n, ast.Attribute | ast.Subscript))
    return any(isinstance(n.ctx, ast.Store) for n in parts)


def waits(request: Request, statement: ast.stmt) -> int | None:
    """The line of the tensor branch around an effect, where the effect can leave it; it is mended behind that."""
    tree = edit.parse(request.text)
    path = edit.path_at(tree, edit.span_of(statement))
    for node in path:
        if isinstance(node, ast.Match) and match_cases.on_tensors([node], request.facts):
            return node.lineno if _may_be_ifs(request.text, node) else None
        if not isinstance(node, ast.If) or node is statement or not _asks_a_tensor(request.facts, node.test):
            continue
        site = replace(request.site, span=edit.span_of(node.test, request.path))
        try:
            place = find(replace(request, site=site))
            moves = place.root is node and mixed(tree, place, node) and bool(apart(place, node))
        except Refused:
            return None
        return node.lineno if moves else None
    return _waits_for_return(request, path)


def _asks_a_tensor(facts: Facts, test: ast.expr) -> bool:
    """Whether a tensor decides the test on a recorded call: else the branch breaks nowhere, and is not mended."""
    if isinstance(test, ast.BoolOp):
        return any(_asks_a_tensor(facts, value) for value in test.values)
    if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        return _asks_a_tensor(facts, test.operand)
    return any(fact.is_tensor for fact in facts.values(test)[0])


def _waits_for_return(request: Request, path: Sequence[ast.AST]) -> int | None:
    """The line of a branch in front that returns early: it takes the effect into its other arm, which it can leave."""
    for block, inner in pairwise(path):
        body: list[ast.stmt] = getattr(block, "body", []) if not isinstance(block, ast.Lambda) else []
        at = next((i for i, s in enumerate(body) if s is inner), 0)
        for early in (s for s in body[:at] if isinstance(s, ast.If) and any(flow.inside(s, ast.Return))):
            if _asks_a_tensor(request.facts, early.test):
                return early.lineno if _leaves_once_joined(request, early) else None
    return None


def _leaves_once_joined(request: Request, early: ast.If) -> bool:
    try:
        place = find(
            replace(request, site=replace(request.site, span=edit.span_of(early.test, request.path)))
        )
        text = early_returns.joined(place)
        function = next(n for name, n in edit.functions(edit.parse(text)) if name == place.qualname)
        root = next(n for n in ast.walk(function) if isinstance(n, ast.If) and n.lineno == early.lineno)
        return place.root is early and bool(apart(Place(text, root, function, place.qualname), root))
    except (Refused, StopIteration):
        return False


def behind_return(place: Place, root: ast.If) -> bool:
    """Whether effects run behind a branch that returns early."""
    if not any(flow.inside(root, ast.Return)):
        return False
    effects = Effects(edit.parse(place.text))
    try:
        return any(_is_effect(effects, s) for s in _simple(ast.Module(place.rest(root), [])))
    except Refused:
        return False


def _may_be_ifs(text: str, match: ast.Match) -> bool:
    try:
        return bool(match_cases.as_ifs(text, match))
    except Refused:
        return False


def apart(place: Place, root: ast.If) -> str:
    """The text with the effects of the branch in an ``if`` of their own. Raises Refused."""
    tree = edit.parse(place.text)
    split = _Split(Source(place.text), Effects(tree), place.unit)
    for node in flow.inside([*root.body, *root.orelse], ast.For, ast.While, ast.With, ast.Try, ast.Match):
        if any(_is_effect(split.effects, s) for s in _simple(node)):
            word = type(node).__name__.lower()
            raise Refused(f"an effect in a `{word}` inside a tensor branch", "Move it out of the branch.")
    split.arm(root.body, [], [])
    split.arm(root.orelse, [], [])
    behind = not split.may_lead
    if behind and not split.may_follow:
        raise Refused(
            f"`{split.example}` inside a tensor branch shows what the branch is still changing",
            "Move it out of the branch.",
        )
    if behind:
        _check_bound(place, root, split.reads)
    test, before = split.source.code(root.test), ""
    if not isinstance(root.test, ast.Name) or root.test.id in flow.binds([*root.body, *root.orelse]):
        name = edit.unused_name(tree, wording.flag([root.test]))
        before, test = f"{name} = {test}\n", name
    shown, computed = (split.kept(root, test, effects=flag) for flag in (True, False))
    code = before + (computed + shown if behind else shown + computed)
    if place.is_elif(root):
        code = "else:\n" + edit.reindent(code, place.unit)
    indent = edit.indent_of(place.text, root.lineno)
    return edit.replace_lines(place.text, root.lineno, edit.position(root)[2], edit.reindent(code, indent))


def _check_bound(place: Place, root: ast.If, reads: frozenset[str]) -> None:
    own = frozenset[str]().union(
        *(flow.binds(s) for s in [*root.body, *root.orelse] if not hasattr(s, "body"))
    )
    for name in sorted(reads & flow.binds([*root.body, *root.orelse]) - own):
        if not place.bound_before(name, root):
            raise Refused(
                f"an effect inside a tensor branch shows `{name}`, which only that path makes",
                f"Give `{name}` a value before the branch.",
            )
    if any(flow.inside([*root.body, *root.orelse], ast.Return)):
        raise Refused(
            "an effect and a return in one tensor branch, behind what the effect shows",
            "Show it before the branch.",
        )


def _simple(node: ast.AST) -> Iterator[ast.stmt]:
    """The statements inside that hold no others."""
    for found in flow.inside(ast.iter_child_nodes(node), ast.stmt):
        if not hasattr(found, "body"):
            assert isinstance(found, ast.stmt)
            yield found


def _is_effect(effects: Effects, statement: ast.stmt) -> bool:
    return not isinstance(statement, ast.If) and effects.only([statement])


@dataclass
class _Split:
    """Walks the arms of one branch."""

    source: Source
    effects: Effects
    unit: str
    may_lead: bool = True
    may_follow: bool = True
    reads: frozenset[str] = frozenset()
    example: str = ""

    def arm(
        self, statements: Sequence[ast.stmt], before: Sequence[ast.stmt], behind: Sequence[ast.stmt]
    ) -> None:
        """Notes whether the effects of an arm may run in front of its computations, and behind them.

        ``before`` and ``behind`` are the statements around the ``if`` that the arm belongs to.
        """
        for index, statement in enumerate(statements):
            first, last = [*before, *statements[:index]], [*statements[index + 1 :], *behind]
            if isinstance(statement, ast.If) and any(_is_effect(self.effects, s) for s in _simple(statement)):
                if why := unsafe_to_evaluate(statement.test, twice=True):
                    raise Refused(
                        f"`{ast.unparse(statement.test)}` around an effect ({why})", "Give it a name."
                    )
                self._ask(statement.test, first, [*statement.body, *statement.orelse, *last])
                self.arm(statement.body, first, last)
                self.arm(statement.orelse, first, last)
            elif _is_effect(self.effects, statement):
                self.example = self.example or ast.unparse(statement)
                self._ask(statement, first, last)

    def _ask(self, node: ast.AST, before: Sequence[ast.stmt], behind: Sequence[ast.stmt]) -> None:
        read = state.keys_read(node)
        self.reads |= flow.reads(node)
        self.may_lead &= not read & self._changed(before)
        self.may_follow &= not read & self._changed(behind)

    def _changed(self, statements: Sequence[ast.stmt]) -> frozenset[str]:
        made = flow.binds(statements)
        for statement in (s for top in statements for s in ast.walk(top) if isinstance(s, ast.stmt)):
            made |= state.written_in_place(statement)
            targets = getattr(statement, "targets", None) or [getattr(statement, "target", None)]
            made |= {key for t in targets if isinstance(t, ast.expr) and (key := state.key_of(t))}
        return made

    def kept(self, node: ast.If, test: str, *, effects: bool) -> str:
        """The ``if`` with only its effects, or without them; "" where nothing is left."""
        yes, no = self._block(node.body, effects), self._block(node.orelse, effects)
        if no.startswith("elif"):  # the next arm of the chain has no effects at all
            no = no.removeprefix("el")
        if not yes and not no:
            return ""
        if not yes:
            plain = ast.parse(test, mode="eval").body
            test = f"not {test if isinstance(plain, ast.Compare) else operand(test)}"
            return f"if {test}:\n{edit.reindent(no, self.unit)}"
        head = f"if {test}:\n{edit.reindent(yes, self.unit)}"
        if not no:
            return head
        chain = len(node.orelse) == 1 and isinstance(node.orelse[0], ast.If) and no.startswith("if ")
        return head + ("el" + no if chain else f"else:\n{edit.reindent(no, self.unit)}")

    def _block(self, statements: Sequence[ast.stmt], effects: bool) -> str:
        lines, run = "", list[ast.stmt]()
        for statement in statements:
            both = isinstance(statement, ast.If) and any(
                _is_effect(self.effects, s) for s in _simple(statement)
            )
            if not both and _is_effect(self.effects, statement) == effects:
                run.append(statement)
                continue
            lines, run = lines + self.source.block(run), []
            if both:
                assert isinstance(statement, ast.If)
                lines += self.kept(statement, self.source.code(statement.test), effects=effects)
        return lines + self.source.block(run)
