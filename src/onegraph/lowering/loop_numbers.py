"""Python numbers in a loop that a tensor ends: what drives the loop, and what counts its trips.

The loop's own variables go on where the program would have stopped; where one is read behind the loop, its
last value is kept apart. A counter becomes a tensor that stands still when the loop does, and a Python number
again behind it.
"""

from __future__ import annotations

import ast
from collections.abc import Sequence
from typing import TYPE_CHECKING

from onegraph.lowering import flow
from onegraph.lowering.predicate import is_tensor_test
from onegraph.lowering.refused import Refused
from onegraph.rewrite.request import UNDEFINED, Fact

if TYPE_CHECKING:
    from onegraph.lowering.loop_exits import Exits

_PYTHON = {"int", "float", "bool"}


class Numbers:
    """The Python numbers of one loop."""

    def __init__(self, owner: Exits) -> None:
        self.owner = owner
        loop = owner.loop
        self.at_top = ""
        self.setup: list[str] = []
        self.behind: list[str] = []
        targets = flow.binds(loop.target) if isinstance(loop, ast.For) else frozenset[str]()
        self.targets = targets
        self.drivers = targets | self._drivers()
        self.live = flow.live_after(owner.function, loop) | _returned_names(loop)
        self.carried = self.live | flow.needed_first(loop.body)
        self.counters: set[str] = set()
        self.frozen: dict[str, str] = {}
        if owner.running:
            for name in sorted(self.drivers & self.live & flow.binds(loop)):
                self._freeze(name)

    # --- what drives the loop -----------------------------------------------------------------------------

    def _drivers(self) -> frozenset[str]:
        """Names that Python tests of the loop read, and that its body counts on."""
        owner, loop = self.owner, self.owner.loop
        tests: list[ast.expr] = [loop.test] if isinstance(loop, ast.While) else []
        tests += [n.test for n in flow.inside(loop.body, ast.If) if isinstance(n, ast.If)]
        read = frozenset[str]()
        for test in tests:
            parts = test.values if isinstance(test, ast.BoolOp) else [test]
            for part in parts:
                if not is_tensor_test(owner.facts, part, {}):
                    read |= flow.reads(part)
        return frozenset(name for name in read & flow.binds(loop.body) if self._counts(name))

    def _counts(self, name: str) -> bool:
        """Whether each statement in the body that binds the name stands in the body itself, and counts."""
        body = self.owner.loop.body
        binding = [s for s in body if name in flow.binds(s)]
        return bool(binding) and all(_is_step(s, name) for s in binding)

    def _freeze(self, name: str) -> None:
        """Keep the last value of a name that goes on: it is read behind the loop."""
        owner = self.owner
        first = owner.loop.body[0]
        seen = owner.facts.names(first, [name])[name]
        kinds = {fact.type for fact in seen if fact.type != UNDEFINED}
        if kinds != {"int"}:
            what = (
                "a tensor" if any(f.is_tensor for f in seen) else f"a {' or '.join(sorted(kinds)) or 'value'}"
            )
            raise Refused(
                f"`{name}`, {what} of the trip that ends the loop, is read behind it",
                f"Give it another name in the loop: `last_{name} = {name}`.",
            )
        last = self.frozen[name] = owner.unused(f"last_{name}")
        if name in self.targets:
            self.at_top += self._kept(name)
        else:
            self.setup.append(f"{last} = {name}")
        self.behind.append(f"{name} = int({last})")

    def _kept(self, name: str) -> str:
        last, running = self.frozen[name], self.owner.running
        return (
            f"{last} = {name} if {running} is True else {self.owner.torch}.where({running}, {name}, {last})\n"
        )

    # --- statements ---------------------------------------------------------------------------------------

    def ordered(self, statements: Sequence[ast.stmt]) -> list[ast.stmt]:
        """Statements on numbers as late as they can be, so that guards stay whole."""
        found = list(statements)
        for index in range(len(found) - 2, -1, -1):
            if self._target(found[index]) is None:
                continue
            at = index
            while at + 1 < len(found) and _independent(found[at], found[at + 1]):
                if self._target(found[at + 1]) is not None:
                    break
                found[at], found[at + 1] = found[at + 1], found[at]
                at += 1
        return found

    def line(self, statement: ast.stmt, armed: Sequence[str]) -> str | None:
        """The line of a statement on a Python number; None where the statement is none."""
        name = self._target(statement)
        if name is None:
            return None
        code = self.owner.source.block([statement])
        if name in self.drivers:
            if any(flag != self.owner.running for flag in armed):
                raise Refused(f"`{name}` counts the trips behind a `continue`", f"Count `{name}` first.")
            return code + (self._kept(name) if name in self.frozen else "")
        return self._counted(name, statement, armed)

    def _target(self, statement: ast.stmt) -> str | None:
        """The name of a Python number that the statement alone sets; None for anything else."""
        if isinstance(statement, ast.AugAssign) and isinstance(statement.target, ast.Name):
            name, value = statement.target.id, statement.value
        elif (
            isinstance(statement, ast.Assign)
            and len(statement.targets) == 1
            and isinstance(statement.targets[0], ast.Name)
        ):
            name, value = statement.targets[0].id, statement.value
        else:
            return None
        if name in self.drivers:
            return name
        if name not in self.carried:
            return None  # of one trip
        return name if self._is_number(statement, name, value) else None

    def _is_number(self, statement: ast.stmt, name: str, value: ast.expr) -> bool:
        after = self.owner.facts.names(statement, [name], after=True)[name]
        known = {fact.type for fact in after if fact.type != UNDEFINED}
        return bool(known) and known <= _PYTHON and not any(isinstance(n, ast.Call) for n in ast.walk(value))

    def _counted(self, name: str, statement: ast.stmt, armed: Sequence[str]) -> str:
        """A number that follows the trips: `n += 1` adds the flag, another value is chosen by it."""
        owner = self.owner
        if list(armed) != [owner.running]:
            raise Refused(
                f"`{name}` counts what follows a `continue`",
                "Keep it as a tensor: `torch.zeros((), dtype=torch.long)`.",
            )
        facts = [f for f in owner.facts.names(statement, [name], after=True)[name] if f.type != UNDEFINED]
        if {f.type for f in facts} != {"int"}:
            raise Refused(
                f"`{name}` is a Python {_short(facts)} that changes from trip to trip", "Keep it as a tensor."
            )
        value = statement.value  # type: ignore[attr-defined]
        if flow.reads(value) & self.counters - {name}:
            raise Refused(f"`{name}` is computed from another counter", "Keep both as tensors.")
        self.counters.add(name)
        self._refuse_uses(name)
        restored = f"{name} = int({name})"
        if name in self.live and restored not in self.behind:
            self.behind.append(restored)
        running = owner.running
        if isinstance(statement, ast.AugAssign) and isinstance(statement.op, ast.Add) and _is_one(value):
            return f"{name} = {name} + {running}\n"
        new = owner.source.code(value)
        if isinstance(statement, ast.AugAssign):
            sign = ast.unparse(statement).split("=", 1)[0].split()[-1]
            new = f"{name} {sign} {new}"
        return f"{name} = {new} if {running} is True else {owner.torch}.where({running}, {new}, {name})\n"

    def _refuse_uses(self, name: str) -> None:
        """Inside the loop the counter is a tensor: nothing there may need a Python number."""
        owner = self.owner
        parents = {c: p for p in ast.walk(owner.loop) for c in ast.iter_child_nodes(p)}
        for use in (n for s in owner.loop.body for n in ast.walk(s)):
            if not (isinstance(use, ast.Name) and use.id == name and isinstance(use.ctx, ast.Load)):
                continue
            statement: ast.AST = use
            while not isinstance(statement, ast.stmt):
                statement = parents[statement]
            if isinstance(statement, ast.Return) or self._target(statement) == name:
                continue
            parent = parents[use]
            if isinstance(parent, ast.BinOp):
                other = parent.right if parent.left is use else parent.left
                seen = owner.facts.values(other)[0]
                if seen and all(_promotes(fact) for fact in seen):
                    continue
            raise Refused(
                f"`{name}` counts the trips, and `{ast.unparse(parent)}` needs it as a Python number",
                f"Use the loop's own variable there: `for {name} in range(...)`.",
            )


def _promotes(fact: Fact) -> bool:
    return bool(fact.shape) and (fact.dtype or "").startswith(("torch.float", "torch.bfloat", "torch.int64"))


def _is_one(value: ast.expr) -> bool:
    return isinstance(value, ast.Constant) and type(value.value) is int and value.value == 1


def _is_step(statement: ast.stmt, name: str) -> bool:
    """``n += 1`` or ``n = n * 2``: from the name and constants alone."""
    if isinstance(statement, ast.AugAssign):
        return (
            isinstance(statement.target, ast.Name)
            and statement.target.id == name
            and _constant(statement.value)
        )
    if isinstance(statement, ast.Assign) and len(statement.targets) == 1:
        target = statement.targets[0]
        names = {n.id for n in ast.walk(statement.value) if isinstance(n, ast.Name)}
        plain = all(
            isinstance(n, ast.BinOp | ast.Name | ast.Constant | ast.operator | ast.expr_context)
            for n in ast.walk(statement.value)
        )
        return isinstance(target, ast.Name) and target.id == name and names <= {name} and plain
    return False


def _constant(value: ast.expr) -> bool:
    return isinstance(value, ast.Constant) and isinstance(value.value, int)


def _independent(first: ast.stmt, second: ast.stmt) -> bool:
    reads, binds = flow.reads(first), flow.binds(first)
    return not (binds & (flow.reads(second) | flow.binds(second))) and not (reads & flow.binds(second))


def _returned_names(loop: ast.stmt) -> frozenset[str]:
    """What early returns read: they come behind the loop."""
    found = frozenset[str]()
    for node in flow.inside(loop, ast.Return):
        found |= flow.reads(node)
    return found


def _short(facts: Sequence[Fact]) -> str:
    return " or ".join(sorted({fact.type.rpartition(".")[2] for fact in facts}))
