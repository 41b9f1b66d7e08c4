"""Pieces of the current text: the code of a node with replacements in it, blocks of statements, comments."""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from onegraph.rewrite import text as edit

Replacements = Mapping[ast.AST, str]  # nodes of the tree and the code that takes their place; outer ones win


@dataclass(frozen=True)
class Source:
    """The text of a file and its tree (shared, not to be changed)."""

    text: str

    @property
    def tree(self) -> ast.Module:
        return edit.parse(self.text)

    def code(self, node: ast.expr, replaced: Replacements | None = None) -> str:
        """The expression on one line (where it holds no comment and no multi-line string), fit to stand
        alone."""
        start, end = self._range([node])
        code = self._replace(start, end, replaced or {})
        if "\n" in code or "\r" in code:
            code = _on_one_line(code)
            try:
                ast.parse(code)
            except SyntaxError:
                code = f"({code})"
        return code

    def statement(self, node: ast.stmt, replaced: Replacements | None = None) -> str:
        """A statement without its indentation, closed by a line ending; inner lines moved along."""
        return self.block([node], replaced)

    def block(
        self,
        statements: Sequence[ast.stmt],
        replaced: Replacements | None = None,
        *,
        above: int | None = None,
    ) -> str:
        """Whole lines of consecutive statements at indentation zero, with the comments between them.

        ``above`` is the line of the header of the block: comments between it and the first statement come
        along.
        """
        if not statements:
            return ""
        columns = [statement.col_offset for statement in statements]
        if split := next((i for i, column in enumerate(columns) if column != columns[0]), 0):
            # an arm and the rest of the function behind it
            return self.block(statements[:split], replaced, above=above) + self.block(
                statements[split:], replaced
            )
        first, last = statements[0], statements[-1]
        if not self._own_lines(first, last):
            pieces = [self._replace(*self._range([s]), replaced or {}) for s in statements]
            return "".join(piece.strip() + "\n" for piece in pieces)
        rows = edit.lines(self.text)
        top = edit.first_line(first)
        while above is not None and top - 1 > above and _is_comment_or_blank(rows[top - 2]):
            top -= 1
        bottom = edit.position(last)[2]
        block = self._replace(
            edit.offset(self.text, top, 0), edit.offset(self.text, bottom + 1, 0), replaced or {}
        )
        block = _universal(block)
        if not block.endswith("\n"):
            block += "\n"
        return edit.reindent(block.lstrip("\n"), "")

    def comments(self, first: ast.stmt, last_line: int) -> tuple[str, ...]:
        """The comments from the first line of a statement to a line, in order."""
        rows = edit.lines(self.text)[first.lineno - 1 : last_line]
        found = []
        try:
            shield = "if 1:\n" if rows and rows[0][:1] in " \t" else ""
            for token in tokenize.generate_tokens(io.StringIO(shield + _universal("".join(rows))).readline):
                if token.type == tokenize.COMMENT:
                    found.append(token.string)
        except (tokenize.TokenError, IndentationError, SyntaxError):
            return tuple(found)  # a piece such as "elif ..." ends tokenizing early; what was found stays
        return tuple(found)

    def _own_lines(self, first: ast.stmt, last: ast.stmt) -> bool:
        """Whether nothing else stands on the lines of the statements."""
        rows = edit.lines(self.text)
        start = edit.position(first)
        line, column = edit.first_line(first), start[1]
        before = rows[line - 1].encode()[:column].decode()
        if getattr(first, "decorator_list", None):
            before = ""
        _, _, end_line, end_column = edit.position(last)
        after = rows[end_line - 1].encode()[end_column:].decode().strip()
        return not before.strip() and (not after or after.startswith("#"))

    def _range(self, nodes: Sequence[ast.AST]) -> tuple[int, int]:
        line, column, _, _ = edit.position(nodes[0])
        _, _, end_line, end_column = edit.position(nodes[-1])
        return edit.offset(self.text, line, column), edit.offset(self.text, end_line, end_column)

    def _replace(self, start: int, end: int, replaced: Replacements) -> str:
        places = sorted((*self._whole(node, start, end), new) for node, new in replaced.items())
        parts, at = [], start
        for begin, stop, new in places:
            if begin < at or stop > end:
                continue  # outside, or inside of an outer node that is replaced
            parts += [self.text[at:begin], self._fit(begin, new)]
            at = stop
        return "".join([*parts, self.text[at:end]])

    def _whole(self, node: ast.AST, start: int, end: int) -> tuple[int, int]:
        """The range of a node, with the parentheses around it that nothing but an ``if`` expression needs.

        Not beyond ``start`` and ``end``.
        """
        begin, stop = self._range([node])
        if isinstance(node, ast.IfExp):
            before, after = self.text[:begin].rstrip(), self.text[stop:].lstrip()
            calls = re.search(r"[\w\])}\"']\($", before)
            if before.endswith("(") and after.startswith(")") and not calls:
                outer = len(before) - 1, len(self.text) - len(after) + 1
                return outer if start <= outer[0] and outer[1] <= end else (begin, stop)
        return begin, stop

    def replaced_whole(self, node: ast.expr, new: str) -> str:
        """The text with one expression replaced, and superfluous parentheses around it."""
        begin, stop = self._whole(node, 0, len(self.text))
        return self.text[:begin] + new + self.text[stop:]

    def _fit(self, begin: int, new: str) -> str:
        """Replacement lines after the first take the indentation of the line they start on."""
        if "\n" not in new.rstrip("\n"):
            return new.rstrip("\n") if new.endswith("\n") else new
        row_start = self.text.rfind("\n", 0, begin) + 1
        row = self.text[row_start:begin]
        indent = row[: len(row) - len(row.lstrip(" \t\f"))]
        return edit.reindent(new, indent).rstrip("\n")[len(indent) :]


def children(node: ast.AST | Iterable[ast.AST]) -> Iterable[ast.AST]:
    """The nodes directly below."""
    return ast.iter_child_nodes(node) if isinstance(node, ast.AST) else node


def operand(code: str, *, of: str = ".") -> str:
    """The code as an operand of ``of``, in parentheses where it needs them.

    "." is an attribute or ``~``, which bind tightest; "&" any operator behind which a sign may stand bare;
    "<" a comparison.
    """
    tree = ast.parse(code.strip(), mode="eval").body
    atoms = ast.Name | ast.Call | ast.Attribute | ast.Subscript | ast.Constant | ast.List | ast.Dict | ast.Set
    whole = isinstance(tree, ast.Tuple) and code.strip().startswith("(")
    signed = isinstance(tree, ast.UnaryOp) and not isinstance(tree.op, ast.Not) and of != "."
    sums = isinstance(tree, ast.BinOp) and of == "<"
    return code if isinstance(tree, atoms) or whole or signed or sums else f"({code})"


def _on_one_line(code: str) -> str:
    if "#" in code or '"""' in code or "'''" in code:
        return code
    joined = re.sub(r"\s*\\?(?:\r\n|\r|\n)\s*", " ", code)
    return re.sub(r"([(\[{]) ", r"\1", re.sub(r",? ([)\]}])", r"\1", joined))


def _universal(block: str) -> str:
    return re.sub(r"\r\n|\r", "\n", block)


def _is_comment_or_blank(row: str) -> bool:
    return not row.strip() or row.lstrip().startswith("#")
