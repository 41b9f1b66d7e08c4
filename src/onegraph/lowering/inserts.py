"""Small nested edits in expressions: casts behind operands, texts around calls, ``a += b`` written out."""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterable
from typing import TypeGuard

from onegraph.rewrite import text as source

_PRIMARY = (ast.Name, ast.Attribute, ast.Call, ast.Subscript)
_LOOSE = (ast.Add, ast.Sub, ast.BitAnd, ast.BitOr, ast.BitXor, ast.LShift, ast.RShift)
_AFTER, _BEFORE, _REPLACE = range(3)
Item = tuple[int, int, int, int, str]  # start, order at one place, order of nesting, end, new text


class Inserts:
    """Edits by the node that asked for them, so that a node that is looked at again replaces its own."""

    def __init__(self, text: str) -> None:
        self.text = text
        self._items: defaultdict[ast.AST, list[Item]] = defaultdict(list)

    def clear(self, owner: ast.AST) -> None:
        """Forget what ``owner`` asked for."""
        self._items.pop(owner, None)

    def suffix(self, owner: ast.AST, node: ast.expr, suffix: str, *, operand: bool) -> None:
        """``node`` + ``suffix`` (".double()"), with parentheses where the node needs them. ``operand``: the
        node is an operand of an operator, so parentheses directly around it are its own."""
        if _is_target(node):
            self._in_written_out(owner, node.id, "", suffix)
            return
        start, end = self.span(node)
        if operand and (outer := self._parentheses(start, end)):
            self._insert(owner, outer[1], _AFTER, -outer[0], suffix)
        elif isinstance(node, _PRIMARY):
            self._insert(owner, end, _AFTER, -start, suffix)
        else:
            self.around(owner, node, "(", ")" + suffix)

    def around(
        self, owner: ast.AST, node: ast.expr, before: str, after: str, *, operand: bool = False
    ) -> None:
        """``before`` + ``node`` + ``after``; around the own parentheses of an ``operand``."""
        if _is_target(node):
            self._in_written_out(owner, node.id, before, after)
            return
        start, end = (operand and self._parentheses(*self.span(node))) or self.span(node)
        self._insert(owner, start, _BEFORE, -end, before)
        self._insert(owner, end, _AFTER, -start, after)

    def wrapped(self, owner: ast.AST, node: ast.expr, before: str, after: str) -> None:
        """An operand as the first argument of a call; parentheses of its own become those of the call."""
        outer = None if _is_target(node) else self._parentheses(*self.span(node))
        if outer is None:
            self.around(owner, node, before, after)
            return
        start, end = outer
        self._items[owner].append((start, _REPLACE, 0, start + 1, before))
        self._items[owner].append((end - 1, _REPLACE, 0, end, after))

    def between(
        self, owner: ast.AST, left: ast.expr, right: ast.expr, before: str, middle: str, after: str
    ) -> None:
        """``before`` + ``left`` + ``middle`` + ``right`` + ``after``, in place of the operator between operands."""
        first = self._parentheses(*self.span(left)) or self.span(left)
        second = self._parentheses(*self.span(right)) or self.span(right)
        self._insert(owner, first[0], _BEFORE, -first[1], before)
        self._items[owner].append((first[1], _REPLACE, 0, second[0], middle))
        self._insert(owner, second[1], _AFTER, -second[0], after)

    def in_parentheses(self, operand: ast.expr) -> bool:
        """Whether an operand of an operator stands in parentheses of its own."""
        return self._parentheses(*self.span(operand)) is not None

    def swap(self, owner: ast.AST, node: ast.AST, new: str) -> None:
        """The whole node replaced; no other edit may lie in it."""
        start, end = self.span(node)
        self._items[owner].append((start, _REPLACE, 0, end, new))

    def cut(self, owner: ast.AST, start: int, end: int, new: str) -> None:
        """A range of characters between nodes replaced."""
        self._items[owner].append((start, _REPLACE, 0, end, new))

    def write_out(self, node: ast.AugAssign, sign: str) -> None:
        """``a += b`` as ``a = a + b``: an assignment, not an operation in place."""
        target = source.segment(self.text, node.target)
        target_end, value_start = self.span(node.target)[1], self.span(node.value)[0]
        gap = self.text[target_end:value_start]
        at = gap.index(sign + "=")
        new = f"{gap[:at]}= {target} {sign}{gap[at + len(sign) + 1 :]}"
        simple = _binds_tighter(node.value, sign) or "(" in gap
        self._items[node].append((target_end, _REPLACE, 0, value_start, new + ("" if simple else "(")))
        if not simple:
            self._insert(node, self.span(node.value)[1], _AFTER, 1 << 60, ")")

    def apply(self, more: Iterable[source.Edit] = ()) -> str:
        """The text with every edit, and with those of ``more``. Raises ValueError when two overlap."""
        items = [item for own in self._items.values() for item in own]
        for line, column, end_line, end_column, new in more:
            start = source.offset(self.text, line, column)
            items.append((start, _REPLACE, 0, source.offset(self.text, end_line, end_column), new))
        parts: list[str] = []
        at = 0
        for start, _, _, end, new in sorted(items):
            if start < at:
                raise ValueError(f"edits overlap at character {start}")
            parts += [self.text[at:start], new]
            at = end
        return "".join([*parts, self.text[at:]])

    def span(self, node: ast.AST) -> tuple[int, int]:
        """First character of a node and the one behind it."""
        line, column, end_line, end_column = source.position(node)
        return source.offset(self.text, line, column), source.offset(self.text, end_line, end_column)

    def _in_written_out(self, owner: ast.AST, name: str, before: str, after: str) -> None:
        """Around a name in the text that `write_out` made."""
        self._items[owner] = [
            (start, order, nesting, end, new.replace(name, before + name + after, 1))
            for start, order, nesting, end, new in self._items[owner]
        ]

    def _insert(self, owner: ast.AST, at: int, order: int, nesting: int, new: str) -> None:
        self._items[owner].append((at, order, nesting, at, new))

    def _parentheses(self, start: int, end: int) -> tuple[int, int] | None:
        """The parentheses directly around a range, as a range."""
        before, behind = self.text[:start].rstrip(), self.text[end:]
        space = len(behind) - len(behind.lstrip())
        if before.endswith("(") and behind[space : space + 1] == ")":
            return len(before) - 1, end + space + 1
        return None


def _is_target(node: ast.expr) -> TypeGuard[ast.Name]:
    return isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)


def _binds_tighter(value: ast.expr, sign: str) -> bool:
    """Whether ``a sign value`` needs no parentheses around the value."""
    if isinstance(value, ast.BinOp):
        return isinstance(value.op, ast.Pow) or (sign in "+-" and not isinstance(value.op, _LOOSE))
    return isinstance(value, (*_PRIMARY, ast.Constant))
