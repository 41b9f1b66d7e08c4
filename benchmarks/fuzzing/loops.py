"""Random loops that a tensor ends: every header, every exit, and what a trip may leave behind."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Protocol

from fuzzing.expressions import COUNT, INT, MATRIX, Expressions, Scope


class Writer(Protocol):
    """What a loop needs of the writer of the program around it."""

    rng: random.Random
    make: Expressions
    branches: int
    result: str | None

    def fresh(self) -> str: ...

    def matrix(self, scope: Scope) -> str: ...

    def block(self, scope: Scope, count: int, depth: int, *, top: bool = False) -> list[str]: ...


class Loops:
    """Writes one loop at a time for a program."""

    def __init__(self, writer: Writer) -> None:
        self.writer = writer
        self.rng = writer.rng
        self.silent = False  # no gradient is asked for

    def loop(self, scope: Scope, top: bool) -> list[str]:
        """Some loop; ``top``: it stands in the function's own block, where it may return."""
        self.writer.branches += 1
        kinds: list[tuple[int, Callable[[Scope], list[str]]]] = [
            (3, self.bounded_while), (3, self.endless_while), (2, self.grown),
            (8, lambda inner: self.over(inner, top)),
        ]  # fmt: skip
        if self.silent or self.rng.random() < 0.1:  # torch.while_loop has no right gradient (2.13)
            kinds += [(4, self.open_while), (4, self.counted)]
        return self.rng.choices([make for _, make in kinds], [weight for weight, _ in kinds])[0](scope)

    # --- headers ------------------------------------------------------------------------------------------

    def bounded_while(self, scope: Scope) -> list[str]:
        """``while <tensor> and n < limit``, also with the limit in front."""
        n, limit = self.writer.fresh(), self._limit(scope)
        parts = [self._condition(scope), f"{n} < {limit}"]
        if self.rng.random() < 0.3:
            parts.reverse()
        body = [*self._trip(scope), f"{n} += 1"]
        if self.rng.random() < 0.3:
            body = [body[-1], *body[:-1]]
        lines = [f"{n} = 0", f"while {' and '.join(parts)}:", *_indented(body)]
        scope.names[n] = INT
        return self._with_else(lines, scope)

    def endless_while(self, scope: Scope) -> list[str]:
        """``while True`` with a break on a tensor, and a limit."""
        n, limit = self.writer.fresh(), self._limit(scope)
        tensor, python = self._condition(scope), f"{n} >= {limit}"
        exits = self.rng.choice([
            [f"if {tensor} or {python}:", "    break"],
            [f"if {python} or {tensor}:", "    break"],
            [f"if {tensor}:", "    break", f"if {python}:", "    break"],
            [f"if {python}:", "    break", f"if {tensor}:", "    break"],
        ])  # fmt: skip
        trip = self._trip(scope)
        body = self.rng.choice([[f"{n} += 1", *trip, *exits], [f"{n} += 1", *exits, *trip]])
        scope.names[n] = INT
        return [f"{n} = 0", "while True:", *_indented(body)]

    def open_while(self, scope: Scope) -> list[str]:
        """A loop without a limit: each trip brings the value nearer to its end."""
        name = self.writer.matrix(scope)
        scope.fresh.discard(name)
        step = f"{name} = {name}.clamp(-8, 8) * 0.5"
        least = self.rng.choice(["1", "0.5", "2.0"])
        more = self.writer.block(scope.copy(), 1, 0) if self.rng.random() < 0.3 else []
        if any(line.lstrip().startswith((f"{name} ", f"{name}[", f"{name}.")) for line in more):
            more = []  # it might undo what the step has done
        count = [self.writer.fresh()] if self.rng.random() < 0.4 else []
        lines = [f"{count[0]} = 0"] if count else []
        lines += [f"while ({name}.abs() > {least}).any():", *_indented([step, *more])]
        if count:
            lines.append(f"    {count[0]} += 1")
            scope.names[count[0]] = INT
        return lines

    def counted(self, scope: Scope) -> list[str]:
        """``range`` of a number that a tensor gives; it may be zero."""
        count = self.writer.make.of(COUNT, scope, 1)
        number = self.rng.choice([f"int({count}.clamp(max=4))", f"{count}.clamp(max=4).item()"])
        index = self.rng.choice(["_", self.writer.fresh()])
        trip = self._trip(scope)
        if index != "_" and self.rng.random() < 0.5:
            name = self.writer.matrix(scope)
            scope.fresh.discard(name)
            trip.append(f"{name} = {name} + {index}")
        return [f"for {index} in range({number}):", *_indented(trip)]

    def over(self, scope: Scope, top: bool) -> list[str]:
        """``for`` over what Python knows, with exits that a tensor decides."""
        inner = scope.copy()
        header = self._header(inner)
        front, behind = self._trip(inner), self._trip(inner)
        exits = [self._exit(scope, "break"), self._exit(scope, "continue")]
        if top:
            exits.append(self._exit(scope, f"return {self.writer.matrix(scope)}"))
        chosen = self.rng.choices(exits, [3, 2, 2][: len(exits)])[0]
        if "return" in chosen[-1]:
            self.writer.result = MATRIX
        body = self.rng.choice([[*front, *chosen], [*chosen, *behind], [*front, *chosen, *behind]])
        if self.rng.random() < 0.15:
            body += self._exit(scope, self.rng.choice(["break", "continue"]))
        return self._with_else([header, *_indented(body)], scope, often=self.rng.random() < 0.3)

    def grown(self, scope: Scope) -> list[str]:
        """A list that grows with the trips, stacked behind the loop."""
        values, name = self.writer.fresh(), self.writer.matrix(scope)
        inner = scope.copy()
        header = self._header(inner)
        made = f"{values}.append({self.writer.make.of(MATRIX, inner, 1)})"
        trip = self.rng.choice([
            [*self._trip(inner), made],
            [f"if {self._condition(scope)}:", f"    {name} = {self._matrix(scope)}", made],
            [made, *self._exit(scope, "break")],
        ])  # fmt: skip
        scope.fresh.discard(name)
        first = self._matrix(scope)
        out = self.writer.fresh()
        scope.names[out] = MATRIX
        return [f"{values} = [{first}]", header, *_indented(trip), f"{out} = torch.stack({values}).sum(0)"]

    def _header(self, inner: Scope) -> str:
        """The header of a ``for``; its names are added to the scope of the body."""
        name, other = self.writer.fresh(), self.writer.fresh()
        matrices = ", ".join(self._matrix(inner) for _ in range(self.rng.choice([2, 3])))
        layers = [f"for {name} in self.layers:"] if inner.module else []
        head = self.rng.choice([
            f"for {name} in range({self._limit(inner)}):", f"for {name} in range(3):",
            f"for {name} in ({matrices}):", f"for {other}, {name} in enumerate(({matrices})):",
            f"for {name} in reversed([{matrices}]):", *layers, *layers,
        ])  # fmt: skip
        if "self.layers" in head:
            self.layer = name
        elif "range(" in head:
            inner.names[name] = INT
        else:
            inner.names[name] = MATRIX
        if "enumerate" in head:
            inner.names[other] = INT
        return head

    # --- what a trip does -----------------------------------------------------------------------------------

    layer: str | None = None

    def _trip(self, scope: Scope) -> list[str]:
        """A statement or two, of which at least one changes what the next trip begins with."""
        name = self.writer.matrix(scope)
        scope.fresh.discard(name)
        layer, self.layer = self.layer, None
        value = f"{layer}({name})" if layer else self.rng.choice(
            [f"{name} * 0.5", f"{name} - {self.writer.make.literal()}", self._matrix(scope)]
        )  # fmt: skip
        lines = [f"{name} = {value}"]
        inner = scope.copy()
        if self.rng.random() < 0.4:
            lines += self.writer.block(inner, 1, 0)
        if self.rng.random() < 0.15:
            lines += [f"if {self._condition(scope)}:", f"    {name} = {self._matrix(scope)}"]
        return lines

    def _exit(self, scope: Scope, how: str) -> list[str]:
        test = self.writer.make.condition(scope, 1) if self.rng.random() < 0.7 else self._condition(scope)
        return [f"if {test}:", f"    {how}"]

    def _with_else(self, lines: list[str], scope: Scope, *, often: bool = False) -> list[str]:
        if not often and self.rng.random() > 0.05:
            return lines
        name = self.writer.matrix(scope)
        scope.fresh.discard(name)
        return [*lines, "else:", f"    {name} = {self._matrix(scope)}"]

    def _condition(self, scope: Scope) -> str:
        return self.writer.make.leaf_condition(scope, 1)

    def _matrix(self, scope: Scope) -> str:
        return self.writer.make.of(MATRIX, scope, 1)

    def _limit(self, scope: Scope) -> str:
        numbers = [name for name, kind in scope.names.items() if kind == INT]
        return self.rng.choice([*numbers, "2", "3", "4"])


def _indented(lines: list[str]) -> list[str]:
    return [f"    {line}" for line in lines]
