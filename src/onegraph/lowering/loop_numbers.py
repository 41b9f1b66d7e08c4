"""Python numbers in a loop that a tensor ends: they go on as if it had not, and the value of the last trip is taken.

A number that follows from the trips alone (the loop's variable, a counter) is the same in a trip whether a tensor
ended the loop before it or not. So Python goes on with it, and it keeps its type; where it is read behind the
loop, the values of all trips are kept with the flag of each, and `_last` takes the one that counts.
"""

from __future__ import annotations

import ast
from collections.abc import Sequence
from typing import TYPE_CHECKING

from onegraph.lowering import flow
from onegraph.lowering.loop_end import unsafe
from onegraph.lowering.loop_in_text import exits, ifs
from onegraph.lowering.predicate import is_tensor_test
from onegraph.lowering.refused import Refused
from onegraph.rewrite.request import UNDEFINED, Fact

if TYPE_CHECKING:
    from onegraph.lowering.loop_exits import Exits

_PYTHON = {"int", "float", "bool"}


class Numbers:
    """The Python numbers of one loop. ``helper`` is the name of `_last`."""

    def __init__(self, owner: Exits, helper: str) -> None:
        self.owner, self.helper = owner, helper
        loop = owner.loop
        self.at_top = ""
        self.setup: list[str] = []
        self.behind: list[str] = []
        self.given = flow.binds(loop.target) if isinstance(loop, ast.For) else frozenset[str]()
        self.targets = self.given - flow.binds(loop.body)
        self.live = owner.live_after() | _returned_names(loop)
        self.carried = self.live | flow.needed_first(loop.body)
        self.skipped = self._behind_continue()
        self.drivers = self.targets | self._drivers()
        self.frozen: dict[str, str] = {}  # names read behind the loop -> the list of their values
        if owner.running:
            for name in sorted((self.drivers | self.given) & self.live & flow.binds(loop)):
                self._freeze(name)

    # --- what goes on -------------------------------------------------------------------------------------

    def _drivers(self) -> frozenset[str]:
        """Numbers that each trip computes from others of them and from what the loop leaves alone."""
        owner, loop = self.owner, self.owner.loop
        found = {n for n in flow.binds(loop.body) - self.targets - self.skipped if self._is_number(n)}
        while True:
            going = frozenset(found) | self.targets
            kept = {n for n in found if not any(unsafe(owner, v, going) for v in self._values(n))}
            if kept == found:
                break
            found = kept
        wanted = (self.carried | self._tested()) & found
        while more := {r for n in wanted for v in self._values(n) for r in flow.reads(v)} & found - wanted:
            wanted |= more
        return frozenset(wanted)

    def _behind_continue(self) -> frozenset[str]:
        """Numbers that a trip counts once, behind a ``continue`` that a tensor decides: no trip goes on with them."""
        owner, body = self.owner, self.owner.loop.body
        skips = [any(isinstance(e, ast.Continue) for e in exits([s])) and decided(owner, s) for s in body]
        behind = body[skips.index(True) + 1 :] if True in skips else []
        return frozenset(
            name
            for statement in behind
            if (name := _bound_alone(statement)) is not None
            and self._is_number(name)
            and name in flow.reads(statement)
            and [s for s in body if name in flow.binds(s)] == [statement]
        )

    def _tested(self) -> frozenset[str]:
        """What the Python tests of the loop read."""
        loop, read = self.owner.loop, frozenset[str]()
        tests: list[ast.expr] = [loop.test] if isinstance(loop, ast.While) else []
        tests += [n.test for n in flow.inside(loop.body, ast.If) if isinstance(n, ast.If)]
        for test in tests:
            for part in test.values if isinstance(test, ast.BoolOp) else [test]:
                if not is_tensor_test(self.owner.facts, part, {}):
                    read |= flow.reads(part)
        return read

    def _is_number(self, name: str) -> bool:
        """Whether statements of the body itself alone bind the name, each to a Python number."""
        binding = [s for s in self.owner.loop.body if name in flow.binds(s)]
        return bool(binding) and all(_bound_alone(s) == name and self._to_number(s, name) for s in binding)

    def _to_number(self, statement: ast.stmt, name: str) -> bool:
        found = self.owner.facts.names(statement, [name], after=True)[name]
        known = {fact.type for fact in found if fact.type != UNDEFINED}
        return known <= _PYTHON if known else self._counts_on(statement, name)

    def _counts_on(self, statement: ast.stmt, name: str) -> bool:
        """Whether a trip that no recorded call makes adds a number to the number that there was before the loop."""
        before = self.owner.facts.names(self.owner.loop, [name])[name]
        value = _value(statement)
        return (
            bool(before)
            and all(fact.type in _PYTHON for fact in before)
            and isinstance(value, ast.BinOp)
            and all(
                (isinstance(part, ast.Name) and part.id == name)
                or (isinstance(part, ast.Constant) and type(part.value) in (int, float))
                for part in (value.left, value.right)
            )
        )

    def _values(self, name: str) -> list[ast.expr]:
        """What the body computes for the name."""
        return [_value(s) for s in self.owner.loop.body if _bound_alone(s) == name]

    # --- what is read behind the loop ---------------------------------------------------------------------

    def _freeze(self, name: str) -> None:
        """Keep the values of a name that goes on."""
        owner = self.owner
        seen = owner.facts.names(owner.loop.body[-1], [name], after=True)[name]
        seen = (*seen, *owner.facts.names(owner.loop.body[0], [name])[name])
        if not seen:  # no recorded call makes a trip
            seen = owner.facts.names(owner.loop, [name])[name]
        kinds = {fact.type for fact in seen if fact.type != UNDEFINED}
        self._refuse_decisions(name)
        if kinds != {"int"}:
            raise Refused(
                f"`{name}`, {_words(seen)} of the trip that ends the loop, is read behind it",
                "Keep it as a tensor."
                if kinds <= _PYTHON
                else f"Give it another name in the loop: `last_{name} = {name}`.",
            )
        values = self.frozen[name] = owner.unused(f"last_{name}")
        before = owner.facts.names(owner.loop, [name])[name]
        bound = name not in self.given and all(fact.type != UNDEFINED for fact in before)
        self.setup.append(f"{values} = [(True, {name})]" if bound else f"{values} = []")
        if name in self.given:
            self.at_top += self._kept(name)
        take = f"{name} = {self.helper}({values})"
        self.behind.append(take if bound else f"if {values}:\n{owner.unit}{take}")

    def _refuse_decisions(self, name: str) -> None:
        """Behind the loop the number comes out of a tensor: Python can't decide by it in one graph."""
        owner = self.owner
        end = owner.loop.end_lineno or owner.loop.lineno
        tests = (
            n.test
            for n in ast.walk(owner.function)
            if isinstance(n, ast.If | ast.IfExp | ast.While | ast.Assert)
        )
        ranges = (
            n
            for n in ast.walk(owner.function)
            if isinstance(n, ast.Call) and isinstance(n.func, ast.Name) and n.func.id == "range"
        )
        for part in (*tests, *ranges):
            if part.lineno > end and name in flow.reads(part):
                raise Refused(
                    f"a tensor decides what `{name}` is behind the loop, and Python decides by "
                    f"`{ast.unparse(part)}` how to go on",
                    f"Count in a tensor: `{name} = torch.zeros((), dtype=torch.long)`, and choose with torch.where.",
                )

    def _kept(self, name: str) -> str:
        values = self.frozen[name]
        return f"{values} = [*{values}, ({self.owner.running}, {name})]\n"

    # --- statements ---------------------------------------------------------------------------------------

    def ordered(self, statements: Sequence[ast.stmt]) -> list[ast.stmt]:
        """Statements on numbers as late as they can be, so that guards stay whole."""
        found = list(statements)
        for index in range(len(found) - 2, -1, -1):
            if not self._goes_on(found[index]):
                continue
            at = index
            while at + 1 < len(found) and _independent(found[at], found[at + 1]):
                if self._goes_on(found[at + 1]):
                    break
                found[at], found[at + 1] = found[at + 1], found[at]
                at += 1
        return found

    def line(self, statement: ast.stmt, armed: Sequence[str]) -> str | None:
        """The line of a statement on a Python number; None where the statement is none."""
        if not self._goes_on(statement):
            return None
        owner, name = self.owner, _bound_alone(statement)
        assert name is not None
        if name in self.skipped:
            return self._counted(statement, name, armed)
        if any(flag != owner.running for flag in armed):
            raise Refused(
                f"`{name}` counts what follows a `continue`",
                f"Count `{name}` first, or keep it as a tensor: `torch.zeros((), dtype=torch.long)`.",
            )
        self._refuse_in_place(statement, name)
        if name not in self.frozen:
            return owner.source.block([statement])
        unset = name not in self.given and not owner.first_is_free
        if unset and any(line == f"{self.frozen[name]} = []" for line in self.setup):
            raise Refused(f"`{name}` may have no value where the loop ends", f"Set `{name}` before the loop.")
        return owner.source.block([statement]) + self._kept(name)

    def _counted(self, statement: ast.stmt, name: str, armed: Sequence[str]) -> str:
        """The line that counts behind a ``continue``: the new value, unless a flag says that the trip is over."""
        owner, loop = self.owner, self.owner.loop
        self._refuse_in_place(statement, name)
        uses = [n for n in ast.walk(loop) if isinstance(n, ast.Name) and n.id == name]
        own = {id(n) for n in ast.walk(statement)}
        seen = {f.type for f in owner.facts.names(statement, [name], after=True)[name] if f.type != UNDEFINED}
        if any(id(use) not in own for use in uses) or not seen <= {"int"}:
            raise Refused(
                f"`{name}` counts what follows a `continue`, and the trips read it or it is no integer",
                f"Count `{name}` first, or keep it as a tensor: `torch.zeros((), dtype=torch.long)`.",
            )
        self._refuse_decisions(name)
        new = owner.source.code(_value(statement)) if isinstance(statement, ast.Assign) else None
        if new is None:
            assert isinstance(statement, ast.AugAssign)
            new = ast.unparse(_value(statement))
        running = [flag for flag in armed if not flag.startswith("not ")]
        first = (
            [f"(True, {name})", *(f"({flag}, {new})" for flag in running)] if running else [f"(True, {new})"]
        )
        skips = [f"({flag.removeprefix('not ')}, {name})" for flag in armed if flag.startswith("not ")]
        return f"{name} = {self.helper}([{', '.join([*first, *skips])}])\n"

    def _refuse_in_place(self, statement: ast.stmt, name: str) -> None:
        if isinstance(statement, ast.AugAssign) and not self._surely_number(name):
            raise Refused(
                f"`{ast.unparse(statement)}` changes a tensor in place, if `{name}` is one on another call",
                f"Write `{name} = {ast.unparse(ast.BinOp(ast.Name(name), statement.op, statement.value))}`.",
            )

    def _goes_on(self, statement: ast.stmt) -> bool:
        return _bound_alone(statement) in self.drivers | self.skipped

    def _surely_number(self, name: str) -> bool:
        """Whether the function itself gives the name a number to begin with, whoever calls."""
        function = self.owner.function
        if any(isinstance(a, ast.arg) and a.arg == name for a in ast.walk(function.args)):
            return False
        inside = {id(n) for n in ast.walk(self.owner.loop)}
        binding = [
            s
            for s in flow.inside(function.body, ast.stmt)
            if isinstance(s, ast.stmt) and id(s) not in inside and name in flow.binds(s)
        ]
        looped = any(
            n is not self.owner.loop and self.owner.loop in ast.walk(n)
            for n in flow.inside(function.body, ast.For, ast.While)
        )
        binding = [s for s in binding if looped or s.lineno < self.owner.loop.lineno]
        simple = [s for s in binding if not isinstance(s, ast.If | ast.For | ast.While)]
        return bool(simple) and all(isinstance(_given(s, name), ast.Constant) for s in simple)


def decided(owner: Exits, statement: ast.stmt) -> bool:
    """Whether a tensor decides an exit in the statement."""
    return any(is_tensor_test(owner.facts, n.test, {}) for n in ifs([statement]) if any(exits([n])))


def _bound_alone(statement: ast.stmt) -> str | None:
    """The name that a plain assignment binds."""
    if isinstance(statement, ast.AugAssign):
        target: ast.expr | None = statement.target
    else:
        single = isinstance(statement, ast.Assign) and len(statement.targets) == 1
        target = statement.targets[0] if single and isinstance(statement, ast.Assign) else None
    return target.id if isinstance(target, ast.Name) else None


def _given(statement: ast.AST, name: str) -> ast.expr | None:
    """The expression that an assignment gives to the name; None where that is not written out."""
    if not (isinstance(statement, ast.Assign) and len(statement.targets) == 1):
        return None
    target, value = statement.targets[0], statement.value
    if isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple) and len(target.elts) == len(value.elts):
        pairs = list(zip(target.elts, value.elts, strict=True))
    else:
        pairs = [(target, value)]
    return next((v for t, v in pairs if isinstance(t, ast.Name) and t.id == name), None)


def _value(statement: ast.stmt) -> ast.expr:
    """What a plain assignment computes; of ``n += 1`` the sum."""
    if isinstance(statement, ast.AugAssign):
        assert isinstance(statement.target, ast.Name)
        return ast.BinOp(ast.Name(statement.target.id, ast.Load()), statement.op, statement.value)
    assert isinstance(statement, ast.Assign)
    return statement.value


def _independent(first: ast.stmt, second: ast.stmt) -> bool:
    reads, binds = flow.reads(first), flow.binds(first)
    return not (binds & (flow.reads(second) | flow.binds(second))) and not (reads & flow.binds(second))


def _returned_names(loop: ast.stmt) -> frozenset[str]:
    """What early returns read: they come behind the loop."""
    found = frozenset[str]()
    for node in flow.inside(loop, ast.Return):
        found |= flow.reads(node)
    return found


def _words(facts: Sequence[Fact]) -> str:
    if any(fact.is_tensor for fact in facts):
        return "a tensor"
    return "a " + (
        " or ".join(sorted({f.type.rpartition(".")[2] for f in facts if f.type != UNDEFINED})) or "value"
    )
