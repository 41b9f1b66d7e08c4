"""Give conditions a fixed outcome, in the text before a repair and in the text after it."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from onegraph.model import Predicate

NAME = "__onegraph_force__"  # ends in underscores: private-name mangling leaves it alone
_ENDLESS = 200  # forced evaluations in one run, after which a condition says what it really is
_RUNAWAY = (
    2000  # evaluations in one run on varied inputs, after which the program itself is taken to run for ever
)


class Runaway(Exception):
    """On these inputs, which we made up, the program does not come to an end."""


class Forcing:
    """What the instrumented texts call in place of a condition: it is evaluated, noted, and its outcome
    replaced.

    ``outcomes`` maps the number of a predicate to the outcome it is forced to. ``seen`` notes the outcomes
    that conditions really had; a condition over many elements has both when its elements disagree.
    """

    def __init__(self) -> None:
        self.outcomes: Mapping[int, bool] = {}
        self.seen: dict[int, set[bool]] = {}
        self.ran_away = False
        self._limit: int | None = None
        self._count = self._evaluated = 0

    def start(self, outcomes: Mapping[int, bool], *, varied: bool = False) -> None:
        """Begin a run; on ``varied`` inputs it may have no end."""
        self.outcomes = outcomes
        self.seen = {}
        self.ran_away = False
        self._limit = _RUNAWAY if varied else None
        self._count = self._evaluated = 0

    def __call__(self, number: int, value: Any) -> Any:
        self._evaluated += 1
        if self._limit is not None and self._evaluated > self._limit:
            self.ran_away = True
            raise Runaway("the loop goes on for ever on inputs that onegraph varied")
        self.seen.setdefault(number, set()).update(_outcomes(value))
        outcome = self.outcomes.get(number)
        if outcome is None or self._count >= _ENDLESS:
            return value
        self._count += 1
        if isinstance(value, torch.Tensor):
            return torch.full_like(value, outcome, requires_grad=False)
        return outcome


class CompiledForcing:
    """The same for a compiled text: outcomes are data in a tensor, so that one capture serves them all."""

    def __init__(self, count: int) -> None:
        self._flags = torch.full((count,), -1)  # per condition: -1 as it is, 0 False, 1 True

    def start(self, outcomes: Mapping[int, bool]) -> None:
        """Begin a run."""
        self._flags.fill_(-1)
        for number, outcome in outcomes.items():
            self._flags[number] = int(outcome)

    def function(self) -> Any:
        """What the instrumented text calls."""
        flags = self._flags

        def force(number: int, value: Any) -> Any:
            if not isinstance(value, torch.Tensor):
                return value
            flag = flags[number].to(value.device)
            return torch.where(flag < 0, value, (flag > 0).to(value.dtype))

        return force


def _outcomes(value: Any) -> set[bool]:
    if not isinstance(value, torch.Tensor):
        return {bool(value)}
    truth = value.detach() != 0
    return {bool(truth.any()), bool(truth.all())} if truth.numel() else set()


@dataclass(frozen=True, slots=True)
class Condition:
    """One condition before and after the repairs. A text that stands twice in a function is one condition,
    forced at both places; it may have become several texts.
    """

    function: str
    before: frozenset[str]
    after: frozenset[str]
    endless: frozenset[bool] = frozenset()  # outcomes that would keep a loop in the graph running for ever

    def __str__(self) -> str:
        return f"{min(self.before)} in {self.function}"


def conditions(predicates: Iterable[Predicate]) -> tuple[Condition, ...]:
    """The predicates, those that share a text in one function joined, and those that are repaired once more."""
    joined: list[Condition] = []
    for predicate in predicates:
        new = Condition(
            predicate.function,
            frozenset({_normal(predicate.before)}),
            frozenset({_normal(predicate.after)}),
            frozenset() if predicate.endless is None else frozenset({predicate.endless}),
        )
        for old in tuple(joined):
            shared = old.before & new.before or old.after & new.after or old.after & new.before
            if old.function == new.function and shared:
                joined.remove(old)
                new = Condition(
                    new.function, old.before | new.before, old.after | new.after, old.endless | new.endless
                )
        joined.append(new)
    return tuple(joined)


class Instrument:
    """Changes the tree of one file: wraps ``conditions`` in calls of the forcing function.

    ``found`` has the numbers of the conditions that are there; complete after a call.
    """

    def __init__(self, conditions: Sequence[Condition], *, after: bool) -> None:
        self._conditions = conditions
        self._after = after
        self.found: set[int] = set()

    def __call__(self, tree: ast.Module) -> ast.Module:
        for name, function in _functions(tree, ""):
            for number, condition in enumerate(self._conditions):
                if condition.function == name:
                    # What stands twice may have been repaired at one place only.
                    texts = condition.after | condition.before if self._after else condition.before
                    self._wrap(function, number, texts)
        return tree

    def _wrap(self, function: ast.AST, number: int, texts: frozenset[str]) -> None:
        # Earlier repairs may have left the condition as an argument already: the same in both texts.
        places = [*_tests(function), *_first_arguments(function)]
        matches = [place for place in places if place.text in texts]
        if not matches and self._after:
            matches = [place for place in _values(function) if place.text in texts]
        for place in matches:
            self.found.add(number)
            place.set(_call(number, place.get()))


class _Place:
    """A field of a node, or an element of a list in it, that holds an expression."""

    def __init__(self, node: ast.AST, field: str, index: int | None = None) -> None:
        self._node, self._field, self._index = node, field, index
        self.text = ast.unparse(self.get())

    def get(self) -> ast.expr:
        held: Any = getattr(self._node, self._field)
        return held if self._index is None else held[self._index]  # type: ignore[no-any-return]

    def set(self, value: ast.expr) -> None:
        if self._index is None:
            setattr(self._node, self._field, value)
        else:
            getattr(self._node, self._field)[self._index] = value


def _functions(tree: ast.AST, prefix: str) -> Iterator[tuple[str, ast.AST]]:
    """Qualified names as in ``code.co_qualname``, with the node of each function."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            yield prefix + node.name, node
            yield from _functions(node, f"{prefix}{node.name}.<locals>.")
        elif isinstance(node, ast.Lambda):
            yield f"{prefix}<lambda>", node
            yield from _functions(node, f"{prefix}<lambda>.<locals>.")
        elif isinstance(node, ast.ClassDef):
            yield from _functions(node, f"{prefix}{node.name}.")
        else:
            yield from _functions(node, prefix)


def _tests(function: ast.AST) -> Iterator[_Place]:
    """Tests, and the operands of ``and``, ``or``, ``not``, ``&``, ``|`` and ``~`` in them."""
    for node in ast.walk(function):
        if isinstance(node, (ast.If, ast.While, ast.IfExp, ast.Assert)):
            yield from _operands(_Place(node, "test"))
        elif isinstance(node, ast.comprehension):
            for index in range(len(node.ifs)):
                yield from _operands(_Place(node, "ifs", index))
        elif isinstance(node, ast.match_case) and node.guard is not None:
            yield from _operands(_Place(node, "guard"))


def _operands(place: _Place) -> Iterator[_Place]:
    yield place
    node = place.get()
    if isinstance(node, ast.BoolOp):
        for index in range(len(node.values)):
            yield from _operands(_Place(node, "values", index))
    elif isinstance(node, ast.BinOp) and isinstance(node.op, ast.BitAnd | ast.BitOr):  # a loop's flag
        yield from _operands(_Place(node, "left"))
        yield from _operands(_Place(node, "right"))
    elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not | ast.Invert):
        yield from _operands(_Place(node, "operand"))
    elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == NAME:
        yield from _operands(_Place(node, "args", 1))


def _first_arguments(function: ast.AST) -> Iterator[_Place]:
    """The condition of ``torch.where``, ``torch.cond`` and of the helpers that a repair adds (``_cond``,
    ...).
    """
    for node in ast.walk(function):
        if isinstance(node, ast.Call) and node.args and _selects(node.func):
            yield from _operands(_Place(node, "args", 0))


def _selects(function: ast.expr) -> bool:
    if isinstance(function, ast.Attribute):
        return function.attr in ("where", "cond")
    return isinstance(function, ast.Name) and (
        function.id.startswith("_") or function.id in ("where", "cond")
    )


def _values(function: ast.AST) -> Iterator[_Place]:
    """Whole values of assignments, and what functions return: a repair may give the condition a name first, or
    make it the test of a loop in the graph."""
    for node in ast.walk(function):
        if isinstance(node, ast.Lambda):
            yield from _operands(_Place(node, "body"))
        elif isinstance(node, ast.Return) and isinstance(node.value, ast.Tuple):
            for index in range(len(node.value.elts)):
                yield from _operands(_Place(node.value, "elts", index))
        elif (
            isinstance(node, ast.Return | ast.Assign | ast.AnnAssign | ast.NamedExpr)
            and node.value is not None
        ):
            yield from _operands(_Place(node, "value"))


def _normal(source: str) -> str:
    return ast.unparse(ast.parse(source.strip(), mode="eval"))


def _call(number: int, condition: ast.expr) -> ast.expr:
    call = ast.Call(ast.Name(NAME, ast.Load()), [ast.Constant(number), condition], [])
    return ast.fix_missing_locations(ast.copy_location(call, condition))
