"""What changes a tensor in place behind a point of the program: followed from name to name, along every path.

A name stops to hold the tensor where it is bound to a new one; another begins to where it gets the tensor, a view of
it or a container with it. Loops come round again.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from onegraph.lowering import flow, state
from onegraph.lowering.choice import called
from onegraph.lowering.ops import VALUES
from onegraph.lowering.state import key_of
from onegraph.rewrite import text as edit
from onegraph.rewrite.request import Facts

Keys = frozenset[str]
_NOBODY: Keys = frozenset()
_PLAIN = frozenset({"int", "float", "bool", "str", "NoneType", "torch.Size", "torch.dtype", "torch.device"})


def written_behind(
    function: edit.Function, at: ast.AST, keys: Iterable[str], facts: Facts
) -> ast.stmt | None:
    """A statement that may change in place, behind ``at``, what one of the ``keys`` holds there."""
    if not isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef):
        return None
    held = frozenset(keys)
    walk = _Walk(at, held, facts)
    walk.block(function.body, _NOBODY)
    if not walk.met:  # behind code that leaves the function, as far as the text tells: anywhere then
        walk.block(function.body, held)
    return walk.found


def makes_new(value: ast.expr) -> bool:
    """Whether the expression makes a new tensor, by its text."""
    if isinstance(value, ast.BinOp | ast.UnaryOp | ast.Compare):
        return True
    handed = {"out", "inplace"}
    return (
        isinstance(value, ast.Call)
        and called(value) in VALUES
        and not any(keyword.arg in handed for keyword in value.keywords)
    )


@dataclass
class _Walk:
    """Goes through a function in the order in which it runs; each step takes and gives who holds the tensor."""

    at: ast.AST
    keys: Keys
    facts: Facts
    met: bool = False  # ``at`` was passed
    found: ast.stmt | None = None
    at_break: list[Keys] = field(default_factory=list)
    at_continue: list[Keys] = field(default_factory=list)
    at_raise: list[Keys] = field(default_factory=list)

    def block(self, statements: Sequence[ast.stmt], holders: Keys) -> Keys:
        for statement in statements:
            holders = self._statement(statement, holders)
            if statement is self.at or (not _holds_others(statement) and _inside(self.at, statement)):
                holders, self.met = holders | self.keys, True
            for number in range(len(self.at_raise)):
                self.at_raise[number] |= holders
        return holders

    def _statement(self, node: ast.stmt, holders: Keys) -> Keys:
        if isinstance(node, ast.Return | ast.Raise):
            self._simple(node, holders)
            return _NOBODY
        if isinstance(node, ast.Break | ast.Continue):
            ways = self.at_break if isinstance(node, ast.Break) else self.at_continue
            ways[-1] |= holders
            return _NOBODY
        if isinstance(node, ast.If):
            holders = self._header(node, [node.test], holders)
            return self.block(node.body, holders) | self.block(node.orelse, holders)
        if isinstance(node, ast.For | ast.AsyncFor | ast.While):
            return self._loop(node, holders)
        if isinstance(node, ast.With | ast.AsyncWith):
            for item in node.items:
                holders = self._header(node, [item.context_expr], holders)
                holders = self._bound(item.optional_vars, item.context_expr, holders)
            return self.block(node.body, holders)
        if isinstance(node, ast.Try | ast.TryStar):
            self.at_raise.append(holders)
            tried = self.block(node.orelse, self.block(node.body, holders))
            left = self.at_raise.pop()
            ends = [tried, *(self.block(handler.body, left) for handler in node.handlers)]
            return self.block(node.finalbody, left.union(*ends) if node.finalbody else _NOBODY.union(*ends))
        if isinstance(node, ast.Match):
            holders = self._header(node, [node.subject], holders)
            if _reads(node.subject, holders):
                holders |= flow.binds([case.pattern for case in node.cases])
            return holders.union(*(self.block(case.body, holders) for case in node.cases))
        return self._simple(node, holders)

    def _loop(self, node: ast.For | ast.AsyncFor | ast.While, holders: Keys) -> Keys:
        head = node.test if isinstance(node, ast.While) else node.iter
        while True:  # until another trip finds nobody new
            self.at_break.append(_NOBODY)
            self.at_continue.append(_NOBODY)
            top = self._header(node, [head], holders)
            if not isinstance(node, ast.While):
                top = self._bound(node.target, node.iter, top)
            again = self.block(node.body, top) | self.at_continue.pop() | holders
            broken = self.at_break.pop()
            if again == holders:
                return self.block(node.orelse, holders) | broken
            holders = again

    def _simple(self, node: ast.stmt, holders: Keys) -> Keys:
        self._ask(node, node, holders)
        holders = self._named(node, holders)
        if isinstance(node, ast.Assign):
            given = holders
            for target in node.targets:
                holders = self._assigned(target, node.value, given, holders)
        elif isinstance(node, ast.AnnAssign) and node.value is not None:
            holders = self._assigned(node.target, node.value, holders, holders)
        elif isinstance(node, ast.Delete):
            holders -= {key for target in node.targets if (key := key_of(target))}
        elif isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
            arguments = [*node.value.args, *(k.value for k in node.value.keywords)]
            if any(_reads(value, holders) for value in arguments) and not called(node.value).endswith("_"):
                holders |= flow.reads(node.value)  # a container, or an object, may keep it
        elif isinstance(node, ast.AugAssign) and self._gets(node.value, holders):
            seen = self.facts.values(node.value)[0]
            if not all(fact.is_tensor for fact in seen):  # a list that grows by it
                holders |= flow.binds(node.target)
        return holders

    def _header(self, node: ast.stmt, parts: Sequence[ast.expr], holders: Keys) -> Keys:
        for part in parts:
            self._ask(ast.Expr(part), node, holders)
            holders = self._named(part, holders)
            if _inside(self.at, part):
                holders, self.met = holders | self.keys, True
        return holders

    def _ask(self, part: ast.stmt, node: ast.stmt, holders: Keys) -> None:
        if holders and self.found is None and state.written_in_place(part) & holders:
            self.found = node

    def _named(self, part: ast.AST, holders: Keys) -> Keys:
        """With what ``:=`` binds in an expression."""
        for named in ast.walk(part):
            if isinstance(named, ast.NamedExpr):
                holders = self._bound(named.target, named.value, holders)
        return holders

    # --- assignments ------------------------------------------------------------------------------------------

    def _assigned(self, target: ast.expr, value: ast.expr, given: Keys, holders: Keys) -> Keys:
        """``given``: who holds the tensor when the value is computed."""
        pairs = _pairs(target, value)
        if not pairs:
            return self._bound(target, value, holders, given)
        for each, part in pairs:
            holders = self._assigned(each, part, given, holders)
        return holders

    def _bound(
        self, target: ast.expr | None, value: ast.expr, holders: Keys, given: Keys | None = None
    ) -> Keys:
        """The holders once the target has the value, or a part of it."""
        if target is None:
            return holders
        gets = self._gets(value, holders if given is None else given)
        if not gets:
            return holders - flow.binds(target)
        into = [n for n in ast.walk(target) if isinstance(n, ast.Attribute | ast.Subscript)]
        kept = (key_of(n.value if isinstance(n, ast.Subscript) else n) for n in into)
        return holders | flow.binds(target) | {key for key in kept if key is not None}

    def _gets(self, value: ast.expr, holders: Keys) -> bool:
        """Whether the value may be the tensor, or share its memory."""
        if not _reads(value, holders):
            return False
        seen = self.facts.values(value)[0]
        if not seen or all(fact.is_tensor for fact in seen):
            return not (
                makes_new(value) or (seen and isinstance(value, ast.Call) and self._apart(value, holders))
            )
        return not all(fact.type in _PLAIN for fact in seen)

    def _apart(self, call: ast.Call, holders: Keys) -> bool:
        """Whether the result of a call had memory of its own; in a loop only its first trip was measured."""
        given = [
            n for n in ast.walk(call) if isinstance(n, ast.Name | ast.Attribute) and key_of(n) in holders
        ]
        known = [fact.storage for node in given for fact in self.facts.values(node)[0]]
        if self.at_break or None in known or not known:
            return False
        return not {fact.storage for fact in self.facts.values(call)[0]} & set(known)


def _pairs(target: ast.expr, value: ast.expr) -> list[tuple[ast.expr, ast.expr]]:
    """Targets and values of ``a, b = c, d``; nothing where they don't stand for each other."""
    parts = ast.Tuple | ast.List
    if not (isinstance(target, parts) and isinstance(value, parts)):
        return []
    starred = any(isinstance(part, ast.Starred) for part in (*target.elts, *value.elts))
    same = len(target.elts) == len(value.elts) and not starred
    return list(zip(target.elts, value.elts, strict=True)) if same else []


def _reads(value: ast.AST, holders: Keys) -> bool:
    return bool(holders & state.keys_read(value))


def _holds_others(node: ast.stmt) -> bool:
    return hasattr(node, "body") or isinstance(node, ast.Match)


def _inside(node: ast.AST, around: ast.AST) -> bool:
    return any(part is node for part in ast.walk(around))
