"""Times with a name, ``start = time.perf_counter()``, that are only subtracted, kept and shown.

The clock is read by an op that gives a tensor without dimensions, in double precision, so that the graph needs no
number; the statement that keeps or shows a time takes it out of the tensor.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from onegraph.lowering.effect_scope import Scope, loads, scope_of
from onegraph.lowering.effect_shapes import Effects, dotted
from onegraph.lowering.host_op import with_reader
from onegraph.lowering.kept_numbers import place_of
from onegraph.lowering.taken_later import given_the_tensor, op_called, read_as, statement_of
from onegraph.model import Candidate, Level
from onegraph.rewrite import text as text_
from onegraph.rewrite.request import Request

_CLOCKS = frozenset(("time", "perf_counter", "monotonic", "process_time", "thread_time"))
_NOTES = (
    "the clock is read when the compiled program gets there; a CUDA graph is split at it",
    "the compiler may move computation past a clock: the time between two readings is no longer that of the lines "
    "between them",
)


def clock_named(request: Request, kind: str) -> Iterator[Candidate]:
    """A first step: the name holds a tensor. The statements that keep or show times are worked on next."""
    tree = text_.parse(request.text)
    at = text_.statement_at(tree, request.site.span)
    scope = scope_of(tree, at) if at is not None else None
    if at is None or scope is None or scope.function is None:
        return
    times = _Times(tree, scope)
    clock = times.clock_of(at)
    if clock is None or not times.add(at):
        return

    def written(op: str) -> str:
        calls = [(*text_.position(call.func), op) for call in times.calls if dotted(call.func) == clock]
        return text_.replace_spans(request.text, [*calls, *times.edits])

    title = f"Read `{clock}` by an op, and take the time out where it is kept or shown"
    text = with_reader(request.text, at, clock, written)
    yield Candidate(kind, Level.RELAXED, title, text, (request.site.function,), _NOTES, partial=True)


class _Times:
    """The names that hold times, and what becomes of the places where they are read."""

    def __init__(self, tree: ast.Module, scope: Scope) -> None:
        assert scope.function is not None
        self._tree = tree
        self._scope = scope
        self._function = scope.function
        self._names: set[str] = set()
        self.calls: list[ast.Call] = []  # of clocks, in statements that give a time a name
        self.edits: list[text_.Edit] = []

    def clock_of(self, at: ast.stmt) -> str | None:
        """The one clock that an assignment to a name reads."""
        if not isinstance(at, ast.Assign) or len(at.targets) != 1 or not isinstance(at.targets[0], ast.Name):
            return None
        read = {dotted(call.func) for call in _clock_calls(at.value)}
        return read.pop() if len(read) == 1 and _is_arithmetic(at.value) else None

    def add(self, at: ast.stmt) -> bool:
        """Take the name that a statement assigns; whether every read of it can go on with a tensor."""
        assert isinstance(at, ast.Assign) and isinstance(at.targets[0], ast.Name)
        name = at.targets[0].id
        if name in self._names:
            return True
        if len(self._scope.bindings(name)) != 1:
            return False
        self._names.add(name)
        self.calls += _clock_calls(at.value)
        read = [node for node in loads(self._function) if node.id == name]
        return all(self._read(node) for node in read)

    def _read(self, node: ast.Name) -> bool:
        at = statement_of(self._tree, node)
        op = op_called(self._tree, at)
        if op is not None:
            return self._edit(given_the_tensor(op, at, node))
        if place_of(at) is not None or Effects(self._tree).only([at]):
            # in double precision a tensor without dimensions computes as its number
            return self._edit(read_as(at, node, f"{node.id}.item()", stays=_is_arithmetic))
        target = at.targets[0] if isinstance(at, ast.Assign) and len(at.targets) == 1 else None
        if not isinstance(at, ast.Assign) or not isinstance(target, ast.Name) or not _is_arithmetic(at.value):
            return False
        return self.add(at)

    def _edit(self, edits: list[text_.Edit] | None) -> bool:
        self.edits += edits or ()
        return edits is not None


def _clock_calls(node: ast.expr) -> list[ast.Call]:
    return [part for part in ast.walk(node) if isinstance(part, ast.Call) and _is_clock(part)]


def _is_clock(call: ast.Call) -> bool:
    return (dotted(call.func) or "").rpartition(".")[2] in _CLOCKS and not call.args and not call.keywords


def _is_arithmetic(node: ast.expr) -> bool:
    """Whether only times, names and numbers are added, subtracted, multiplied and divided."""
    match node:
        case ast.BinOp(left=left, op=ast.Add() | ast.Sub() | ast.Mult() | ast.Div(), right=right):
            return _is_arithmetic(left) and _is_arithmetic(right)
        case ast.Call():
            return _is_clock(node)
        case ast.Constant(value=value):
            return type(value) in (int, float)
    return isinstance(node, ast.Name)
