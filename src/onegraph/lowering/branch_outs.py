"""What a branch makes: names that are read behind it, attributes, tensors changed in place, the returned value."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from typing import TYPE_CHECKING

from onegraph.lowering import fill, flow, state
from onegraph.lowering.fresh import is_fresh
from onegraph.lowering.parts import RETURN, Branch, Out, Side
from onegraph.lowering.read_under import read_only_under
from onegraph.lowering.refused import Refused, StateBehindReturn
from onegraph.rewrite.request import UNDEFINED

if TYPE_CHECKING:
    from onegraph.lowering.branch import Lowering


class Outs:
    """Finds what the branches of one function make, and what kind of value each is."""

    def __init__(self, lowering: Lowering) -> None:
        self.lowering = lowering

    def refuse_unset(self, branch: Branch) -> None:
        """Both sides run while a graph is made: what they read must be set on every path that leads there."""
        assert isinstance(branch.node, ast.If)
        needed = flow.needed_first(branch.first.statements) | flow.needed_first(branch.second.statements)
        own = needed & flow.binds(getattr(self.lowering.place.function, "body", []))
        own -= self.lowering.fillers.keys()  # a branch in front of this one gives it a value
        own -= self._given_inside(branch, own)
        for name, found in self.lowering.facts.names(branch.node, sorted(own)).items():
            if any(fact.type == UNDEFINED for fact in found):
                raise Refused(
                    f"`{name}` is not set on every path to the branch", f"Give `{name}` a value before it."
                )

    def _given_inside(self, branch: Branch, names: frozenset[str]) -> frozenset[str]:
        """The names that a branch inside sets, read only where its flag says so: they get a value there."""
        sides = [*branch.first.statements, *branch.second.statements]
        branches = [n for n in flow.inside(sides, ast.If) if isinstance(n, ast.If)]
        place = self.lowering.place
        return frozenset(
            name
            for name in names
            if any(name in flow.binds(node) and read_only_under(place, name, node) for node in branches)
        )

    def of(self, branch: Branch) -> list[Out]:
        """What both sides make, in the order of the text. Raises Refused."""
        assert isinstance(branch.node, ast.If)
        for side in (branch.first, branch.second):
            self.lowering.reached.measure(side.statements, side.force)
            side.changes = self._outside(state.changes(side.statements, self.lowering.facts_at), side)
        if branch.target == RETURN:
            for key in (*branch.first.changes, *branch.second.changes):
                raise StateBehindReturn(
                    f"`{key}` is changed on a path that returns early", "Return once, behind the change."
                )
            return [Out(RETURN)]
        live = self.lowering.place.live_after(branch.node)
        outs: dict[str, Out] = {}
        for side in (branch.first, branch.second):
            for name in sorted(
                flow.binds(side.statements) & live, key=lambda n: _first_binding(side.statements, n)
            ):
                outs.setdefault(name, Out(name))
            for key, change in side.changes.items():
                if change.attribute or change.in_place:
                    out = outs.setdefault(key, Out(key))
                    out.change = out.change or change
                    out.in_place |= change.in_place and not self.fresh(change, branch.node)
        for key, out in outs.items():
            out.register = _registering(key, (branch.first, branch.second))
            if out.in_place:
                self._refuse_mixed(key, branch)
            if not out.attribute:
                self._check_defined(branch, key, out)
        return list(outs.values())

    def _outside(self, found: dict[str, state.Change], side: Side) -> dict[str, state.Change]:
        """The changes that can be seen outside the side: not those of tensors that it made itself."""
        needed = flow.needed_first(side.statements)
        return {
            key: change
            for key, change in found.items()
            if change.attribute
            or (key in needed and not self.lowering.place.made_new_first(key, side.statements))
        }

    def _refuse_mixed(self, key: str, branch: Branch) -> None:
        """A tensor changed in place and a name bound anew can't both be written back."""
        for side in (branch.first, branch.second):
            plain = list(flow.inside(side.statements, ast.Assign, ast.AnnAssign, ast.For, ast.With))
            targets = {
                n.id
                for s in plain
                for n in ast.walk(s)
                if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)
            }
            if key in targets:
                raise Refused(f"`{key}` is changed in place and bound anew", "Do one of the two.")

    def fresh(self, change: state.Change, node: ast.stmt) -> bool:
        """Whether nobody else can see the storage of the tensor, so that a new tensor may take the name."""
        return (
            not change.attribute
            and isinstance(node, ast.If)
            and is_fresh(self.lowering.place, change.key, node, self.lowering.facts)
        )

    def _check_defined(self, branch: Branch, name: str, out: Out) -> None:
        sides = [name in flow.binds(side.statements) for side in (branch.first, branch.second)]
        if all(sides) and out.change is None:
            return
        assert isinstance(branch.node, ast.If)
        facts, place = self.lowering.facts, self.lowering.place
        before = facts.names(branch.node, [name])[name]
        undefined = any(fact.type == UNDEFINED for fact in before)
        if undefined or (not before and not place.bound_before(name, branch.node)):
            side = branch.first if sides[0] else branch.second
            filler = fill.filler(facts, self.lowering.torch, branch.node, name, side.force)
            if filler is None or all(sides) or not read_only_under(place, name, branch.node):
                raise Refused(
                    f"`{name}` is set on one path only and used later",
                    f"Give `{name}` a value before the branch.",
                )
            self.lowering.fillers[name] = filler

    def agree(self, branch: Branch, outs: list[Out]) -> None:
        """Notes the kind of value that both sides make of each. Raises Refused where they differ."""
        agreement = self.lowering.agreement
        for out in outs:
            if out.key == RETURN:
                out.kinds = agreement.of_returns(branch.first, branch.second)
            elif out.change is not None and out.change.attribute:
                out.kinds = [
                    agreement.of_attribute(
                        out.key,
                        self.lowering.place.function,
                        branch.first,
                        branch.second,
                        self.lowering.facts_at,
                    )
                ]
            elif isinstance(branch.node, ast.If):
                indexed = self.lowering.place.only_indexed(out.key, branch.node)
                kind = agreement.of_name(out.key, branch.node, branch.first, branch.second, indexed=indexed)
                out.kinds = [kind]


def _registering(key: str, sides: Sequence[Side]) -> str | None:
    """``self.register_buffer("x", \\0, persistent=False)``, where every side that writes ``self.x`` does
    it so last."""
    forms = set()
    for side in sides:
        if (change := side.changes.get(key)) and change.writes:
            call = ast.unparse(change.writes[-1])
            found = state.registered(change.writes[-1])
            forms.add(call.replace(ast.unparse(found[2]), "\0", 1).replace("'", '"') if found else None)
    return forms.pop() if len(forms) == 1 else None


def _first_binding(statements: Sequence[ast.stmt], name: str) -> tuple[int, int]:
    return min(
        (n.lineno, n.col_offset)
        for s in statements
        for n in ast.walk(s)
        if isinstance(n, ast.Name) and n.id == name and not isinstance(n.ctx, ast.Load)
    )
