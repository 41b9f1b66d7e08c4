"""Random expressions of a wanted kind over the names that are in scope."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field

MATRIX, ROW, VECTOR, SCALAR = "matrix", "row", "vector", "scalar"  # float32: [b, 4], [b], [4], []
INTEGERS, COUNT, MASK, FLAG = "integers", "count", "mask", "flag"  # int64 [b, 4] and []; bool [b, 4] and []
NUMBER, INT, BOOL = "number", "int", "bool"  # Python's
MAYBE, LIST, PAIR, MIXED = "maybe", "list", "pair", "mixed"  # None or matrix; matrices; either of two kinds
WHATEVER = "whatever"

TENSORS = (MATRIX, ROW, VECTOR, SCALAR, INTEGERS, COUNT, MASK, FLAG)


@dataclass
class Scope:
    """What a statement may use: names and their kinds, and what the program has around it."""

    names: dict[str, str]
    module: bool
    helpers: frozenset[str] = frozenset()
    random: bool = False  # whether random numbers may be drawn
    fresh: set[str] = field(default_factory=set)  # tensors that nobody else holds, to be changed in place

    def copy(self) -> Scope:
        return Scope(dict(self.names), self.module, self.helpers, self.random, set(self.fresh))


class Expressions:
    """Makes expressions; everything is drawn from ``rng``."""

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng

    def of(self, kind: str, scope: Scope, depth: int = 2) -> str:
        """An expression of a kind, fit to stand as an operand."""
        leaves = [name for name, known in scope.names.items() if known == kind]
        if leaves and (depth <= 0 or self.rng.random() < 0.35):
            return self.rng.choice(leaves)
        makers = self._makers(kind, scope, depth)
        return self.rng.choice(makers)()

    def _makers(self, kind: str, scope: Scope, depth: int) -> list[Callable[[], str]]:
        def sub(wanted: str) -> str:
            return self.of(wanted, scope, depth - 1)

        pick = self.rng.choice
        if kind == MATRIX:
            return self._matrix(scope, depth, sub)
        if kind == ROW:
            return [
                lambda: f"{sub(MATRIX)}.sum({pick(['1', '-1'])})",
                lambda: f"{sub(MATRIX)}[:, {pick('012')}]",
                lambda: f"{sub(MATRIX)}.mean(dim=1)",
            ]
        if kind == VECTOR:
            own = [lambda: "self.scale", lambda: "self.weight"] if scope.module else []
            return [
                lambda: f"{sub(MATRIX)}.sum(0)",
                lambda: f"{sub(MATRIX)}[0]",
                lambda: f"torch.full((4,), {self.literal()})",
                *own,
            ]
        if kind == SCALAR:
            return [
                lambda: f"{sub(MATRIX)}.{pick(['sum', 'mean', 'max', 'min', 'norm'])}()",
                lambda: f"{sub(VECTOR)}.{pick(['sum', 'max', 'mean'])}()",
                lambda: f"({sub(SCALAR)} {pick('+-*')} {self.literal()})",
                lambda: f"torch.{pick(['sin', 'tanh', 'abs'])}({sub(SCALAR)})",
                lambda: f"{sub(MATRIX)}[0, {pick('0123')}]",
            ]
        if kind == INTEGERS:
            known = [name for name, k in scope.names.items() if k == INTEGERS]
            base = [
                lambda: f"({sub(MASK)}).long()",
                lambda: f"{sub(MATRIX)}.clamp(-9, 9).nan_to_num().long()",
            ]
            more = [lambda: f"({pick(known)} {pick('+-*')} {pick('123')})"] if known else []
            return base + more
        if kind == COUNT:
            return [lambda: f"({sub(MASK)}).sum()", lambda: f"{sub(VECTOR)}.argmax()"]
        if kind == MASK:
            return [
                lambda: f"({sub(MATRIX)} {pick(['>', '<', '>=', '<='])} {self.literal()})",
                lambda: f"torch.isfinite({sub(MATRIX)})",
                lambda: f"({sub(MATRIX)} > {sub(MATRIX)})",
            ]
        if kind == FLAG:
            return [lambda: self.leaf_condition(scope, depth - 1)]
        if kind == NUMBER:
            return [self.literal]
        if kind == INT:
            return [lambda: str(self.rng.randrange(1, 5))]
        if kind == BOOL:
            return [lambda: pick(["True", "False"])]
        raise KeyError(kind)

    def _matrix(self, scope: Scope, depth: int, sub: Callable[[str], str]) -> list[Callable[[], str]]:
        pick = self.rng.choice
        makers: list[Callable[[], str]] = [
            lambda: f"({sub(MATRIX)} {pick('+-*')} {self.literal()})",
            lambda: f"({sub(MATRIX)} {pick('+-*')} {sub(MATRIX)})",
            lambda: f"({sub(MATRIX)} {pick('+*')} {sub(VECTOR)})",
            lambda: f"({sub(MATRIX)} * {sub(SCALAR)})",
            lambda: f"torch.{pick(['relu', 'sin', 'tanh', 'sigmoid', 'cos'])}({sub(MATRIX)})",
            lambda: f"{sub(MATRIX)}.{pick(['abs', 'neg', 'square', 'sigmoid', 'clone'])}()",
            lambda: f"{sub(MATRIX)}.clamp({pick(['min=-1', 'max=1', '-2, 2'])})",
            lambda: f"({sub(MATRIX)} / ({sub(MATRIX)}.abs() + 1))",
            lambda: f"{sub(MATRIX)}.softmax(-1)",
            lambda: f"{sub(MATRIX)}.masked_fill({sub(MASK)}, {self.literal()})",
            lambda: f"torch.where({sub(MASK)}, {sub(MATRIX)}, {sub(MATRIX)})",
            lambda: f"torch.{pick(['exp', 'log', 'sqrt'])}({sub(MATRIX)}.abs() + {pick(['0.5', '1'])})",
            lambda: f"F.{pick(['gelu', 'silu', 'softplus', 'relu'])}({sub(MATRIX)})",
            lambda: f"torch.cat([{sub(MATRIX)}[:, :2], {sub(MATRIX)}[:, 2:]], 1)",
            lambda: f"({sub(MATRIX)} + {sub(ROW)}[:, None])",
            lambda: f"{sub(MATRIX)}.flip(1)",
        ]
        if self.rng.random() < 0.15:
            makers += [lambda: f"torch.{pick(['log', 'sqrt', 'reciprocal'])}({sub(MATRIX)})"]
        if scope.module:
            makers += [lambda: f"self.linear({sub(MATRIX)})"] * 2
            makers += [lambda: f"F.linear({sub(MATRIX)}, self.linear.weight)"]
        if scope.random:
            makers += [lambda: f"F.dropout({sub(MATRIX)}, 0.5)", lambda: f"self.drop({sub(MATRIX)})"]
        if "scaled" in scope.helpers:
            makers += [lambda: f"scaled({sub(MATRIX)}, {self.literal()})"]
        if depth > 1:
            makers += [lambda: f"({sub(MATRIX)} if {self.condition(scope, 1)} else {sub(MATRIX)})"]
        return makers

    def literal(self) -> str:
        return self.rng.choice(["0.5", "2", "1.0", "-1", "0.1", "3", "1.5", "-0.25"])

    # --- conditions ----------------------------------------------------------------------------------------

    def condition(self, scope: Scope, depth: int = 2) -> str:
        """A condition that a tensor decides, at least in part."""
        flags = [name for name, kind in scope.names.items() if kind == FLAG]
        draw = self.rng.random()
        if flags and draw < 0.1:
            return self.rng.choice(flags)
        if draw < 0.62 or depth <= 0:
            return self.leaf_condition(scope, 1)
        if draw < 0.7:
            return f"not {self._operand(self.condition(scope, depth - 1))}"
        if draw < 0.76:
            low, high = sorted([self.literal(), self.literal()], key=float)
            return f"{low} {self.rng.choice(['<', '<='])} {self.of(SCALAR, scope, 1)} < {high}"
        word = self.rng.choice([" and ", " or "])
        if draw < 0.9:
            return word.join(self._operand(self.condition(scope, depth - 1)) for _ in range(2))
        parts = [self.python_condition(scope), self._operand(self.condition(scope, depth - 1))]
        return word.join(parts)

    def _operand(self, code: str) -> str:
        return f"({code})" if " and " in code or " or " in code or code.startswith("not ") else code

    def leaf_condition(self, scope: Scope, depth: int) -> str:
        pick, of = self.rng.choice, lambda kind: self.of(kind, scope, depth)
        numbers = [name for name, kind in scope.names.items() if kind == NUMBER]
        makers: list[Callable[[], str]] = [
            lambda: f"{of(SCALAR)} {pick(['>', '<', '>=', '<='])} {self.literal()}",
            lambda: f"{of(SCALAR)} > {of(SCALAR)}",
            lambda: f"{of(MATRIX)}.sum() > 0",
            lambda: f"{of(MATRIX)}.mean() < {self.literal()}",
            lambda: f"({of(MASK)}).{pick(['any', 'all'])}()",
            lambda: f"torch.{pick(['any', 'all'])}({of(MASK)})",
            lambda: f"torch.isnan({of(MATRIX)}).any()",
            lambda: f"{of(COUNT)} {pick(['>', '==', '!='])} {pick('1234')}",
        ]
        makers += [lambda: f"{of(SCALAR)} > {pick(numbers)}"] if numbers else []
        return self.rng.choice(makers)()

    def python_condition(self, scope: Scope) -> str:
        makers: list[Callable[[], str]] = []
        makers += [lambda: "self.training", lambda: "self.enabled"] if scope.module else []
        numbers = [name for name, kind in scope.names.items() if kind == INT]
        makers += [lambda: f"{self.rng.choice(numbers)} > 2"] * 2 if numbers else []
        tensors = [name for name, kind in scope.names.items() if kind == MATRIX]
        makers += [
            lambda: f"{self.rng.choice(tensors)}.shape[0] > 3",
            lambda: f"{self.rng.choice(tensors)}.dim() == 2",
        ]
        return self.rng.choice(makers)()
