"""A cheap stand-in for Dynamo's observation: run the program as it is, and note where Python asks a tensor.

Only to find faults fast: what it finds goes through the real kinds, and a program counts as one graph only when
Dynamo captures the mended text with ``fullgraph=True``.
"""

from __future__ import annotations

import ast
import builtins
import contextlib
import io
import linecache
import sys
from collections.abc import Iterator
from types import FrameType
from typing import Any

import torch

from onegraph.model import MENDED, Break, Frame, Outcome, Program, Span, Trace
from onegraph.state import copy_call, preserved

TRUTH = "Data-dependent branching"
CALL = "Unsupported function call"
NUMBER = "Unsupported Tensor.item() call with capture_scalar_outputs=False"
_HELPERS = ("_cond", "_where", "_while_loop", "_trips", "_last", "_stacked", "_advance")


def watched(program: Program, *, read: Any = None) -> Trace:
    """The places where ``program`` would break, on its own calls, run uncompiled."""
    file = _file_of(program.target)
    found: dict[tuple[int, ...], Break] = {}
    with preserved(program), _asked(file, found):
        for call in program.calls:
            copied = copy_call(call)
            torch.manual_seed(0)
            with contextlib.redirect_stdout(io.StringIO()), contextlib.suppress(Exception):
                program.target(*copied.args, **copied.kwargs)
    return Trace(breaks=tuple(found.values()), compiled_calls=1)


def _file_of(target: Any) -> str:
    function = type(target).forward if isinstance(target, torch.nn.Module) else target
    return str(function.__code__.co_filename).removeprefix(MENDED)


@contextlib.contextmanager
def _asked(file: str, found: dict[tuple[int, ...], Break]) -> Iterator[None]:
    truth, shown = torch.Tensor.__bool__, builtins.print

    def asked(tensor: torch.Tensor) -> bool:
        _note(sys._getframe(1), file, TRUTH, found)
        return bool(truth(tensor))

    def said(*args: Any, **kwargs: Any) -> None:
        _note(sys._getframe(1), file, CALL, found)
        shown(*args, **kwargs)

    def numbered(method: str) -> Any:
        plain = getattr(torch.Tensor, method)

        def taken(tensor: torch.Tensor) -> Any:
            _note(sys._getframe(1), file, NUMBER, found)
            return plain(tensor)

        return taken

    numbers = {method: getattr(torch.Tensor, method) for method in ("__int__", "item")}
    torch.Tensor.__bool__ = asked  # type: ignore[method-assign]
    builtins.print = said
    for method in numbers:
        setattr(torch.Tensor, method, numbered(method))
    try:
        yield
    finally:
        for method, plain in numbers.items():
            setattr(torch.Tensor, method, plain)
        torch.Tensor.__bool__ = truth  # type: ignore[method-assign]
        builtins.print = shown


def _note(frame: FrameType, file: str, gb_type: str, found: dict[tuple[int, ...], Break]) -> None:
    if frame.f_code.co_filename.removeprefix(MENDED) != file:
        return
    stack = []
    outer: FrameType | None = frame
    while outer is not None:
        name = outer.f_code.co_qualname
        if name.startswith("_ordered_op") or (
            outer is frame and name.startswith(_HELPERS) and "arm" not in name
        ):
            return  # inside a helper that a repair added: no break in a graph
        if outer.f_code.co_filename.removeprefix(MENDED) == file:
            stack.append(_frame(outer))
        outer = outer.f_back
    span = stack[0].span
    key = (span.line, span.column, span.end_line, span.end_column)
    if key not in found and not _native(frame, span):
        found[key] = Break(gb_type, "", Outcome.RESUMED, tuple(stack[::-1]))


def _frame(frame: FrameType) -> Frame:
    code = frame.f_code
    position = list(code.co_positions())[frame.f_lasti // 2]
    line, end, column, end_column = (value or 1 for value in position)
    if position[2] == 0:
        column = 0
    return Frame(Span(code.co_filename, line, column, end, end_column), code.co_qualname, code)


def _native(frame: FrameType, span: Span) -> bool:
    """What Dynamo captures by itself: max and min without a key, an assert with a constant message."""
    text = "".join(linecache.getlines(frame.f_code.co_filename)) or _text(frame)
    if not text:
        return False
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Call) and _at(node, span) and isinstance(node.func, ast.Name):
            return node.func.id in ("max", "min") and not node.keywords
        if isinstance(node, ast.Assert) and node.lineno <= span.line <= (node.end_lineno or 0):
            plain = not isinstance(node.test, ast.BoolOp) and not any(
                isinstance(n, ast.BoolOp) for n in ast.walk(node.test)
            )
            return plain and (node.msg is None or isinstance(node.msg, ast.Constant))
    return False


def _text(frame: FrameType) -> str:
    return ""


def _at(node: ast.expr, span: Span) -> bool:
    return (node.lineno, node.col_offset, node.end_lineno, node.end_col_offset) == (
        span.line, span.column, span.end_line, span.end_column
    )  # fmt: skip
