"""From the position of a bytecode instruction to the span of the expression that a reader would point at.

A jump covers the whole ``if`` statement: the span is that of its test, or of the operand of ``and``/``or``
that is tested. What a loop iterates over is asked for by the whole ``for`` statement: the span is its head. A call
chained over several lines is cut to its last line by the compiler: the span is the whole call. All else stays as
the compiler says. Without source nothing is changed.
"""

from __future__ import annotations

import ast
import linecache
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

from onegraph.model import Frame, Span
from onegraph.torch_private.frames import Position, RawFrame

_Range = tuple[int, int, int, int]  # line, column, end line, end column


def frame(raw: RawFrame) -> Frame:
    """The user's function and the span in it."""
    return Frame(_span(raw), raw.code.co_qualname, raw.code)


def definition(code_file: str, first_line: int) -> Span:
    """The header of the function that starts at ``first_line`` (its decorator or its ``def``)."""
    tests = _landmarks(code_file)
    found = tests.headers.get(first_line) if tests else None
    line, column, end_line, end_column = found or (first_line, 0, first_line, 0)
    return Span(code_file, line, column, end_line, end_column)


def tested_at(file: str, line: int, column: int) -> Span | None:
    """The condition that begins there: a traceback's marks go on to the end of the line."""
    marks = _landmarks(file)
    found = min((each for each in marks.tests if each[:2] == (line, column)), default=None) if marks else None
    return Span(file, *found) if found else None


def _span(raw: RawFrame) -> Span:
    file = raw.code.co_filename
    found = _better(file, raw) or _as_range(raw.position)
    if found is None:
        found = _whole_line(file, raw.position)
    line, column, end_line, end_column = found
    return Span(file, line, column, end_line, end_column)


def _better(file: str, raw: RawFrame) -> _Range | None:
    marks = _landmarks(file)
    if marks is None:
        return None
    if raw.tested is not None and (tested := _as_range(raw.tested)):
        return _smallest_around(marks.tests, tested) or tested
    if raw.opname.startswith("CALL") and (call := _as_range(raw.position)):
        return marks.calls_by_end.get(call[2:], call)
    return marks.heads.get(_as_range(raw.position) or (0, 0, 0, 0))


def _as_range(at: Position) -> _Range | None:
    if at.column is None or at.end_column is None:
        return None
    return at.line, at.column, at.end_line, at.end_column


def _whole_line(file: str, at: Position) -> _Range:
    text = linecache.getline(file, at.line).rstrip()
    indent = len(text) - len(text.lstrip())
    return at.line, len(text[:indent].encode()), at.line, len(text.encode())


def _smallest_around(ranges: tuple[_Range, ...], inner: _Range) -> _Range | None:
    around = [each for each in ranges if each[:2] <= inner[:2] and inner[2:] <= each[2:]]
    return max(around, key=lambda each: (each[:2], (-each[2], -each[3])), default=None)


@dataclass(frozen=True, slots=True)
class _Landmarks:
    tests: tuple[_Range, ...]  # the expressions that a jump tests: no ``and``, ``or`` at their top
    calls_by_end: dict[tuple[int, int], _Range]  # innermost call that ends there
    headers: dict[int, _Range]  # first line of a definition -> "def name(...)" without its body
    heads: dict[_Range, _Range]  # a loop -> "for target in iterated" without its body


def _landmarks(file: str) -> _Landmarks | None:
    return _parse("".join(linecache.getlines(file)))


@lru_cache(maxsize=256)
def _parse(text: str) -> _Landmarks | None:
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError):
        return None
    tests: list[_Range] = []
    calls: dict[tuple[int, int], _Range] = {}
    headers: dict[int, _Range] = {}
    heads: dict[_Range, _Range] = {}
    for node in ast.walk(tree):  # outer nodes come first, so that the innermost call stays
        if isinstance(node, ast.Call):
            calls[_range(node)[2:]] = _range(node)
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            headers[_first_line(node)] = _header(node)
        elif isinstance(node, ast.For):
            heads[_range(node)] = (*_range(node)[:2], *_range(node.iter)[2:])
        tests += [_range(leaf) for test in _tested(node) for leaf in _leaves(test)]
    return _Landmarks(tuple(tests), calls, headers, heads) if text else None


def _tested(node: ast.AST) -> Iterator[ast.expr]:
    match node:
        case ast.If() | ast.While() | ast.IfExp() | ast.Assert():
            yield node.test
        case ast.BoolOp():
            yield node
        case ast.comprehension():
            yield from node.ifs
        case ast.match_case(guard=ast.expr() as guard):
            yield guard


def _leaves(test: ast.expr) -> Iterator[ast.expr]:
    """The operands that are jumped on one by one."""
    match test:
        case ast.BoolOp():
            for value in test.values:
                yield from _leaves(value)
        case ast.UnaryOp(op=ast.Not(), operand=ast.BoolOp() as inner):
            yield from _leaves(inner)
        case _:
            yield test


def _range(node: ast.expr | ast.stmt) -> _Range:
    return (
        node.lineno,
        node.col_offset,
        node.end_lineno or node.lineno,
        node.end_col_offset or node.col_offset,
    )


def _first_line(node: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    return min([node.lineno, *(decorator.lineno for decorator in node.decorator_list)])


def _header(node: ast.FunctionDef | ast.AsyncFunctionDef) -> _Range:
    """``def name``: enough to point at, and always on one line."""
    keyword = "async def " if isinstance(node, ast.AsyncFunctionDef) else "def "
    width = len(f"{keyword}{node.name}".encode())
    return node.lineno, node.col_offset, node.lineno, node.col_offset + width
