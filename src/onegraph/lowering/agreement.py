"""Do both sides of a branch make the same kind of value? Measured, with the predicate forced to each
value."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable, Iterator, Sequence

from onegraph.lowering import flow, state
from onegraph.lowering.parts import Agreed, Side
from onegraph.lowering.predicate import Force
from onegraph.lowering.refused import Refused
from onegraph.lowering.source import Source
from onegraph.rewrite.request import UNDEFINED, Fact, Facts

_NUMBERS = {"int": "int", "float": "float", "bool": "bool"}
_FLOATING = ("torch.float", "torch.bfloat", "torch.complex")


class Agreement:
    """Compares the values of two sides. Every method raises Refused where they can't be one value."""

    def __init__(self, facts: Facts, source: Source) -> None:
        self.facts, self.source = facts, source

    def of_name(self, name: str, node: ast.If, first: Side, second: Side, *, indexed: bool) -> Agreed:
        """A local name behind the branch. ``indexed``: it is only taken apart there, as a list and a tuple can be."""
        sides = [
            [
                f
                for f in self.facts.names(node, [name], after=True, force=side.force)[name]
                if f.type != UNDEFINED
            ]
            for side in (first, second)
        ]
        if (
            indexed
            and all(sides)
            and all(_short(f.type) in ("list", "tuple") for side in sides for f in side)
        ):
            return Agreed()
        return compare(f"`{name}`", *sides)

    def of_attribute(
        self, key: str, function: ast.AST, first: Side, second: Side, measured: Callable[[ast.stmt], Facts]
    ) -> Agreed:
        """An attribute: by the values that the sides assign, and by its old value where a side leaves it alone.
        ``measured`` gives the facts of a statement in the sides, on the way that leads there."""
        found = []
        for side, other in ((first, second), (second, first)):
            change = side.changes.get(key)
            values = [
                v for w in (change.writes if change else []) if (v := written_value(w, key)) is not None
            ]
            if change is None and (old := self._old(key, other)):
                found.append(old)
                continue
            if not values:  # changed in place, or left alone: by what is read of it anywhere in the function
                values = [n for n in ast.walk(function) if isinstance(n, ast.Attribute) and _reads(n, key)]
            facts = [fact for value in values for fact in self.facts.values(value, force=side.force)[0]]
            found.append(tuple(facts or self._read_inside(key, (first, second), measured)))
        return compare(f"`{key}`", *found)

    def _read_inside(
        self, key: str, sides: Sequence[Side], measured: Callable[[ast.stmt], Facts]
    ) -> Iterator[Fact]:
        """What the attribute is where the sides read it, also in a branch that no recorded call enters."""
        for statement in flow.inside([s for side in sides for s in side.statements], ast.stmt):
            assert isinstance(statement, ast.stmt)
            if not hasattr(statement, "body"):
                reads = (n for n in ast.walk(statement) if isinstance(n, ast.Attribute) and _reads(n, key))
                yield from (fact for node in reads for fact in measured(statement).values(node)[0])

    def _old(self, key: str, side: Side) -> tuple[Fact, ...]:
        """What an attribute holds before the other side assigns it."""
        statements = side.changes[key].writes if key in side.changes else []
        targets = [t for s in statements if isinstance(s, ast.Assign) for t in s.targets]
        wanted = [t for t in targets if state.key_of(t) == key]
        return tuple(fact for t in wanted for fact in self.facts.values(t, force=side.force)[0])

    def of_expressions(self, first: tuple[ast.expr, Force], second: tuple[ast.expr, Force]) -> Agreed:
        """The two sides of an ``x if t else y``."""
        sides = [self.facts.values(node, force=force)[0] for node, force in (first, second)]
        return compare(f"`{self.source.code(first[0])}`", *sides)

    def of_returns(self, first: Side, second: Side) -> list[Agreed]:
        """The returned values, one for each element of a returned tuple."""
        rows = [self._returns(side) for side in (first, second)]
        lengths = {len(row) for side in rows for row, _ in side}
        tuples = {isinstance(value, ast.Tuple) for side in rows for _, value in side}
        if len(lengths) > 1 or len(tuples) > 1:
            raise Refused(
                "the sides return different numbers of values", "Return the same tuple on every path."
            )
        agreed = []
        for index in range(lengths.pop() if lengths else 0):
            sides = []
            for side, row in zip((first, second), rows, strict=True):
                sides.append(
                    tuple(f for parts, _ in row for f in self.facts.values(parts[index], force=side.force)[0])
                )
            what = self.source.code(rows[0][0][0][index]) if rows[0] else "the returned value"
            kind = compare(f"`{what}`", *sides)
            if kind.number:
                raise Refused(
                    f"the returned `{what}` is a Python {kind.number} that a tensor decides",
                    "Return a tensor on both paths.",
                )
            agreed.append(kind)
        return agreed

    def _returns(self, side: Side) -> list[tuple[list[ast.expr], ast.expr]]:
        found = []
        for node in flow.inside(side.statements, ast.Return):
            assert isinstance(node, ast.Return)
            if node.value is None:
                raise Refused("one path returns None", "Return a tensor on every path.")
            parts = list(node.value.elts) if isinstance(node.value, ast.Tuple) else [node.value]
            if any(isinstance(part, ast.Starred) for part in parts):
                raise Refused("a path returns a tuple of unknown length", "Name the returned values.")
            found.append((parts, node.value))
        return found


def _reads(node: ast.Attribute, key: str) -> bool:
    return isinstance(node.ctx, ast.Load) and state.key_of(node) == key


def written_value(statement: ast.stmt, key: str) -> ast.expr | None:
    """The value that a statement assigns to an attribute as a whole."""
    if isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Call):
        call = statement.value
        return (
            call.args[1]
            if len(call.args) > 1
            else next((k.value for k in call.keywords if k.arg == "tensor"), None)
        )
    if isinstance(statement, ast.AnnAssign):
        return statement.value
    if isinstance(statement, ast.Assign) and not isinstance(statement.targets[0], ast.Tuple | ast.List):
        return statement.value
    return None


def compare(what: str, first: Sequence[Fact], second: Sequence[Fact]) -> Agreed:
    """Raises Refused where the values differ in kind. No facts on a side: nothing is known, trial will
    tell."""
    if not first or not second:
        known = [fact for fact in (*first, *second) if fact.is_tensor]
        return Agreed(
            discrete=bool(known) and all(_discrete(fact) for fact in known),
            requires_grad=not known or any(fact.requires_grad for fact in known),
            known=bool(known),
        )
    tensors = [all(fact.is_tensor for fact in side) for side in (first, second)]
    if all(tensors):
        for word, of in (("dtype", _dtypes), ("device", _devices), ("shape", _shapes)):
            if of(first) != of(second):
                raise Refused(
                    f"{what} has another {word} on each side: {_listed(of(first))} and {_listed(of(second))}",
                    f"Give both sides the same {word}.",
                )
        return Agreed(
            discrete=all(_discrete(fact) for fact in first),
            requires_grad=any(fact.requires_grad for fact in (*first, *second)),
            mixed=_needs(first) != _needs(second),
            laid_out=_orders(first) != _orders(second),
        )
    types = [{_short(fact.type) for fact in side} for side in (first, second)]
    if types[0] | types[1] == {"int", "float"}:
        return Agreed(number="float", requires_grad=False)
    if any(fact.is_tensor for fact in (*first, *second)) or types[0] != types[1]:
        names = " on one side and ".join(
            _listed({"a tensor" if t == "Tensor" else t for t in side}) for side in types
        )
        raise Refused(f"{what} is {names} on the other", "Make both sides tensors of one shape and dtype.")
    values = [{fact.value for fact in side} for side in (first, second)]
    if values[0] == values[1] and len(values[0]) == 1 and None not in values[0]:
        return Agreed(constant=True, requires_grad=False)
    if len(types[0]) == 1 and (number := _NUMBERS.get(next(iter(types[0])))):
        return Agreed(number=number, requires_grad=False)
    if types[0] == {"tuple"}:
        return Agreed()
    raise Refused(
        f"{what} is a Python {_listed(types[0])} that a tensor decides",
        "Only tensors can be chosen in the graph.",
    )


def _short(name: str) -> str:
    return name.rpartition(".")[2]


def _needs(facts: Iterable[Fact]) -> bool:
    return any(fact.requires_grad for fact in facts)


def _discrete(fact: Fact) -> bool:
    return not (fact.dtype or "").startswith(_FLOATING)


def _dtypes(facts: Iterable[Fact]) -> set[str]:
    return {str(fact.dtype).removeprefix("torch.") for fact in facts}


def _devices(facts: Iterable[Fact]) -> set[str]:
    return {str(fact.device) for fact in facts}


def _shapes(facts: Iterable[Fact]) -> set[str]:
    return {str(list(fact.shape or ())) for fact in facts}


def _orders(facts: Iterable[Fact]) -> set[tuple[int, ...]]:
    """The orders of the dimensions in memory; one of size one may stand anywhere."""
    found = set()
    for fact in facts:
        sizes = list(enumerate(zip(fact.shape or (), fact.stride or (), strict=False)))
        ordered = sorted((-stride, at) for at, (size, stride) in sizes if size > 1)
        found.add(tuple(at for _, at in ordered))
    return found


def _listed(values: Iterable[str]) -> str:
    return " or ".join(sorted(values))
