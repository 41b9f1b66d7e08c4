"""The text of a moved statement: its own lines with the parameters put in, and f-strings that keep their
text.
"""

from __future__ import annotations

import ast
import copy
import re
from collections.abc import Sequence
from dataclasses import dataclass

from onegraph.lowering.refused import Refused
from onegraph.rewrite import text as text_

Edits = Sequence[tuple[ast.expr, str]]
_SHARED_LINE = Refused("The effect shares its lines with other statements.", "Put it on a line of its own.")


@dataclass(frozen=True, slots=True)
class Part:
    """What moves of a statement ``whole``: all of it (``node`` is ``whole``), or the first arms of an
    ``if`` chain, without the first conjuncts of its test. ``node`` is made of the nodes of ``whole``."""

    whole: ast.stmt
    node: ast.stmt
    outside: tuple[ast.expr, ...]  # conjuncts that stay in Python
    rest: tuple[ast.stmt, ...]  # what the `else` of the moved arms holds and stays
    tests: dict[ast.expr, bool]  # the conditions of the arms


def part_of(text: str, statement: ast.stmt, arms: int | None, outside: int) -> Part:
    """The part of a statement that moves; see ``effects.Effect``."""
    if isinstance(statement, ast.Assert):
        return Part(statement, statement, (), (), {statement.test: False})
    if not isinstance(statement, ast.If):
        return Part(statement, statement, (), (), {})
    chain = chain_of(text, statement)
    count = len(chain) if arms is None else arms
    rest = () if arms is None else tuple(chain[count - 1].orelse)
    node: list[ast.stmt] = list(chain[count - 1].orelse) if arms is None else []
    for arm in reversed(chain[:count]):
        made = copy.copy(arm)
        made.orelse = node
        node = [made]
    head = node[0]
    assert isinstance(head, ast.If)
    left: tuple[ast.expr, ...] = ()
    if outside:
        assert isinstance(head.test, ast.BoolOp) and len(chain) == 1 and not rest
        left, inside = tuple(head.test.values[:outside]), head.test.values[outside:]
        head.test = inside[0] if len(inside) == 1 else _conjunction(inside)
    tests = {arm.test: True for arm in chain[:count]}
    return Part(statement, head, left, rest, tests)


def chain_of(text: str, node: ast.If) -> list[ast.If]:
    """An ``if`` and its ``elif`` arms."""
    chain = [node]
    while len(node.orelse) == 1 and isinstance(node.orelse[0], ast.If) and is_elif(text, node.orelse[0]):
        node = node.orelse[0]
        chain.append(node)
    return chain


def is_elif(text: str, node: ast.stmt) -> bool:
    return isinstance(node, ast.If) and text_.segment(text, node).startswith("elif")


def _conjunction(values: Sequence[ast.expr]) -> ast.BoolOp:
    made = ast.BoolOp(op=ast.And(), values=list(values))
    made.lineno, made.col_offset = text_.position(values[0])[:2]
    made.end_lineno, made.end_col_offset = text_.position(values[-1])[2:]
    return made


# --- the op's body ------------------------------------------------------------------------------------


def body(text: str, part: Part, edits: Edits, indent: str) -> str:
    """The moved statement as the body of an op, with expressions replaced; its comments stay with it."""
    node, whole = part.node, part.whole
    last: ast.AST = node
    if isinstance(node, ast.If) and part.rest:
        arm = node
        while arm.orelse and isinstance(arm.orelse[0], ast.If):
            arm = arm.orelse[0]
        last = arm.body[-1]
    line, column = text_.position(whole)[:2]
    end = text_.position(last)[2:]
    if part.outside:
        assert isinstance(node, ast.If)
        kept = [node.test]
        if isinstance(node.test, ast.BoolOp) and isinstance(node.test.op, ast.And):
            kept = node.test.values
        test = _all_of(kept, [_edited(text, text_.position(value), edits) for value in kept])
        colon = _colon(text, node)
        changed = f"if {test}" + _edited(text, (*_place(text, colon), *end), edits, to_line_end=True)
    else:
        changed = _edited(text, (line, column, *end), edits, to_line_end=owns_lines(text, whole))
    if is_elif(text, whole):
        changed = changed.removeprefix("el")
    moved = text_.reindent(" " * column + changed.rstrip() + "\n", indent)
    return text_.wrap_call(moved) if len(text_.lines(moved)) == 1 else moved


def _all_of(values: Sequence[ast.expr], codes: Sequence[str]) -> str:
    """The conjunction of some texts of expressions."""
    loose = ast.BoolOp | ast.IfExp | ast.Lambda | ast.NamedExpr
    if len(codes) == 1:
        return codes[0]
    return " and ".join(f"({c})" if isinstance(v, loose) else c for v, c in zip(values, codes, strict=True))


def _colon(text: str, node: ast.If) -> int:
    """Where the colon behind the test stands."""
    stop = text_.offset(text, *text_.position(node.test)[2:])
    found = re.match(r"(?:[\s)\\]|#[^\r\n]*)*(?=:)", text[stop:])
    assert found is not None
    return stop + found.end()


def _place(text: str, index: int) -> tuple[int, int]:
    before = text[:index]
    rows = text_.lines(before)
    if not rows or rows[-1].endswith(("\n", "\r")):
        return len(rows) + 1, 0
    return len(rows), len(rows[-1].encode())


def _edited(text: str, span: tuple[int, int, int, int], edits: Edits, to_line_end: bool = False) -> str:
    """The text of a span (to the end of its last line, for a comment there) with the edits inside it made."""
    start, stop = text_.offset(text, *span[:2]), text_.offset(text, *span[2:])
    if to_line_end:
        rest = re.match(r"[^\r\n]*", text[stop:])
        stop += rest.end() if rest else 0
    tail = len(text) - stop
    inside = [
        (node, new) for node, new in edits if start <= text_.offset(text, *text_.position(node)[:2]) < stop
    ]
    changed = text_.replace_spans(text, [_edit(text, node, new) for node, new in inside])
    return changed[start : len(changed) - tail]


def _edit(text: str, node: ast.expr, new: str) -> text_.Edit:
    """The replacement of one expression. In ``{expression=}`` the text of the expression becomes literal
    text.
    """
    line, column, end_line, end_column = text_.position(node)
    start, stop = text_.offset(text, line, column), text_.offset(text, end_line, end_column)
    if (
        isinstance(node, ast.NamedExpr)
        and text[stop : stop + 1] == ")"
        and re.search(r"[^\w)\]]\(\Z", text[:start])
    ):
        return line, column - 1, end_line, end_column + 1, new
    opened = re.search(r"\{([ \t]*)\Z", text[:start])
    debug = re.match(r"([ \t]*=[ \t]*)(?=[!:}])", text[stop:])
    if opened is None or debug is None or not _in_fstring(text, node):
        return line, column, end_line, end_column, new
    literal = (opened[1] + text[start:stop] + debug[1]).replace("{", "{{").replace("}", "}}")
    conversion = "!r" if text[stop + debug.end()] == "}" else ""
    column -= len(opened[0])
    return line, column, end_line, end_column + len(debug[1]), f"{literal}{{{new}{conversion}"


def _in_fstring(text: str, node: ast.expr) -> bool:
    path = text_.path_at(text_.parse(text), text_.span_of(node))
    return any(isinstance(parent, ast.JoinedStr) for parent in path)


# --- the call -----------------------------------------------------------------------------------------


def owns_lines(text: str, node: ast.stmt) -> bool:
    """Whether a statement stands alone on its lines (a comment may follow)."""
    line, column, end_line, end_column = text_.position(node)
    rows = text_.lines(text)
    after = rows[end_line - 1].encode()[end_column:].strip()
    return not rows[line - 1].encode()[:column].strip() and (not after or after.startswith(b"#"))


def with_call(text: str, part: Part, call: str, compiler: str = "") -> str:
    """The text with a call in place of the moved part. ``compiler`` ("torch.compiler"): call only while
    compiling, and keep the statement for eager mode. Raises Refused."""
    whole = part.whole
    simple = not part.outside and not part.rest and not is_elif(text, whole) and not compiler
    if not owns_lines(text, whole):
        if not simple:
            raise _SHARED_LINE
        return text_.replace_spans(text, [(*text_.position(whole), call)])
    unit, indent = text_.indent_unit(text), text_.indent_of(text, whole.lineno)
    rows = []
    if is_elif(text, whole):
        rows.append(f"{indent}else:")
        indent += unit
    if part.outside:
        test = _all_of(part.outside, [text_.segment(text, value) for value in part.outside])
        rows.append(f"{indent}if {test}:")
        indent += unit
    if compiler:
        rows += [f"{indent}if {compiler}.is_compiling():", text_.wrap_call(indent + unit + call)]
        rows += [
            f"{indent}else:",
            text_.reindent(text_.block_of(text, whole, whole), indent + unit).rstrip("\r\n"),
        ]
    else:
        rows.append(text_.wrap_call(indent + call))
    if part.rest:
        rows.append(_rest(text, part.rest, indent))
    first, last = whole.lineno, text_.position(whole)[2]
    return text_.replace_lines(text, first, last, "\n".join(rows) + "\n")


def _rest(text: str, rest: Sequence[ast.stmt], indent: str) -> str:
    """What the moved arms' ``else`` held, one step further out."""
    first, last = rest[0], rest[-1]
    if is_elif(text, first):
        column = text_.position(first)[1]
        return text_.reindent(" " * column + text_.segment(text, first)[2:] + "\n", indent).rstrip("\r\n")
    if not owns_lines(text, first):
        return indent + text[_start(text, first) : text_.offset(text, *text_.position(last)[2:])]
    at = text_.first_line(first)
    while text_.lines(text)[at - 2].lstrip().startswith("#"):
        at -= 1
    block = "".join(text_.lines(text)[at - 1 : text_.position(last)[2]])
    return text_.reindent(block, indent).rstrip("\r\n")


def _start(text: str, node: ast.stmt) -> int:
    return text_.offset(text, *text_.position(node)[:2])
