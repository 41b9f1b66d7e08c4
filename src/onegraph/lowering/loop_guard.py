"""The trips of a loop that a flag switches off: ``if running:`` becomes ``_cond(running, trip, kept)``.

The flag is the Python value ``True`` on the first trip (which so is no branch at all) and a tensor of bool behind
the first exit. A name that the trip binds first needs no value before the loop for that reason.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Sequence

from onegraph.lowering import flow
from onegraph.lowering.branch import Lowering
from onegraph.lowering.branch_outs import Outs
from onegraph.lowering.conditional import Conditional
from onegraph.lowering.moves import Moves, handed_on
from onegraph.lowering.parts import RETURN, Agreed, Branch, Form, Out, Side
from onegraph.lowering.place import Place
from onegraph.lowering.predicate import Test
from onegraph.lowering.refused import Refused
from onegraph.rewrite.request import UNDEFINED, Fact, Request


class Guard(Lowering):
    """Lowers one ``if`` on a loop's flag, and the tensor branches in it.

    ``flags`` may be Python values, ``made`` are all that the loop's exits became. ``first`` are the nodes of
    guards that the first trip meets with a Python flag; ``own`` are the names that the loop binds. ``advance`` is
    what `_advance` is called.
    """

    def __init__(
        self,
        request: Request,
        place: Place,
        *,
        selecting: bool,
        flags: frozenset[str],
        made: frozenset[str],
        first: Iterable[ast.AST],
        own: frozenset[str],
        advance: str,
    ) -> None:
        super().__init__(request, place, Form.WHERE if selecting else Form.COND)
        self.flags, self.made, self.own = flags, made, own
        self.first = frozenset(id(node) for node in first)
        self.conditional, self.outs, self.moves = Stepping(self), GuardOuts(self), GuardMoves(self)
        self.advance = advance
        self.uses_advance = False

    def is_guard(self, test: Test) -> bool:
        """Whether a flag of ours decides."""
        return all(isinstance(leaf, ast.Name) and leaf.id in self.flags for leaf in test.leaves)

    def starts_in_python(self, branch: Branch) -> bool:
        """Whether the first trip runs the guarded statements whatever the tensors hold."""
        return self.is_guard(branch.test) and id(branch.node) in self.first

    def rest_of(self, node: ast.If) -> list[ast.stmt]:
        """What runs behind the guard, where it returns early."""
        return self.place.rest(node) if any(flow.inside(node, ast.Return)) else []

    def record(self, test: Test, code: str) -> None:
        """A flag stands for conditions that are recorded where they are."""
        if not all(isinstance(leaf, ast.Name) and leaf.id in self.made for leaf in test.leaves):
            super().record(test, code)


class GuardMoves(Moves):
    """What moves where only some trips run."""

    lowering: Guard

    def one_sided(self, branch: Branch) -> None:
        if not self.lowering.starts_in_python(branch):
            super().one_sided(branch)
            return
        before = len(self.lowering.notes)
        super().one_sided(branch)
        if not self._names_of_trip(branch) and len(self.lowering.notes) > before:
            del self.lowering.notes[before:]

    def _names_of_trip(self, branch: Branch) -> list[str]:
        """What only some trips use: with the first trip, everything else is used anyway."""
        names = self.lowering.place.one_sided(
            branch.first.statements, branch.second.statements, branch.node, self.lowering.facts
        )
        return [name for name in names if name.partition(".")[0] in self.lowering.own]

    def aliases(self, branch: Branch, outs: Sequence[Out]) -> None:
        """A trip that runs first hands on what it made: a copy is told from it by who shares it alone."""
        if self.lowering.is_guard(branch.test):  # copied back, or seen by nobody else
            outs = [out for out in outs if not (out.in_place or self._own(out, branch))]
        if not self.lowering.starts_in_python(branch):
            super().aliases(branch, outs)
            return
        made = [each for each in outs if not self._shared(each.key, branch, outs)]
        before = len(self.lowering.notes)
        super().aliases(branch, made)  # what is changed in place behind is refused all the same
        del self.lowering.notes[before:]
        super().aliases(branch, [each for each in outs if each not in made])

    def _own(self, out: Out, branch: Branch) -> bool:
        return out.change is not None and self.lowering.outs.fresh(out.change, branch.node)  # type: ignore[arg-type]

    def _shared(self, key: str, branch: Branch, outs: Sequence[Out]) -> bool:
        """Whether a trip leaves the name on a tensor that somebody else has as well."""
        trip = branch.first if branch.first.statements else branch.second
        handed = handed_on(trip, key)
        if handed is None:
            return False
        keys = {out.key for out in outs} - {key}
        return handed in keys or not self.lowering.place.made_new_first(handed, trip.statements)


class GuardOuts(Outs):
    """What a guarded trip makes: the first trip binds what it likes."""

    lowering: Guard

    def _check_defined(self, branch: Branch, name: str, out: Out) -> None:
        if not self.lowering.starts_in_python(branch):
            super()._check_defined(branch, name, out)

    def refuse_unset(self, branch: Branch) -> None:
        """What the first trip has yet to bind is looked at where the guard is built."""

    def agree(self, branch: Branch, outs: list[Out]) -> None:
        if branch.target == RETURN or not self.lowering.is_guard(branch.test):
            super().agree(branch, outs)
            return
        for out in outs:
            if out.change is not None and out.change.attribute:
                super().agree(branch, [out])
            elif isinstance(branch.node, ast.If) and _is_kept(branch):
                out.kinds = [self._carried(out.key, branch)]
            else:
                super().agree(branch, [out])

    def _carried(self, name: str, branch: Branch) -> Agreed:
        """What a name holds from trip to trip."""
        assert isinstance(branch.node, ast.If)
        before = _real(self.lowering.facts.names(branch.node, [name])[name])
        after = _real(self.lowering.facts.names(branch.node, [name], after=True)[name])
        python = [fact for fact in after if not fact.is_tensor]
        if python:
            kind = python[0].type.rpartition(".")[2]
            raise Refused(
                f"`{name}` is a Python {kind} that changes from trip to trip", "Keep it as a tensor."
            )
        if not self.lowering.starts_in_python(branch) and any(not fact.is_tensor for fact in before):
            raise Refused(
                f"`{name}` is no tensor before the loop and one behind it",
                "Begin with a tensor of that dtype and shape.",
            )
        tensors = [fact for fact in before if fact.is_tensor]
        old, new = ({(f.dtype, f.device, f.shape) for f in facts} for facts in (tensors, after))
        if old - new and new - old and (len(new) > 1 or not self.lowering.starts_in_python(branch)):
            raise Refused(
                f"`{name}` changes its shape or dtype from trip to trip",
                "Write into a tensor of the full size, and cut it behind the loop.",
            )
        return Agreed(
            discrete=bool(after) and all(_discrete(fact) for fact in after),
            requires_grad=not after or any(fact.requires_grad for fact in (*tensors, *after)),
            mixed=not self.lowering.starts_in_python(branch)
            and any(fact.requires_grad for fact in after)
            and not any(fact.requires_grad for fact in tensors),
            known=bool(after),
        )


class Stepping(Conditional):
    """The branch form for guards: one call that makes everything, integers and bools included."""

    lowering: Guard

    def of(self, branch: Branch, outs: list[Out]) -> str:
        if not self.lowering.is_guard(branch.test):
            return super().of(branch, outs)
        return self._joined(branch, outs, branch.test.branch_code())[0]

    def callee(self, branch: Branch, outs: list[Out]) -> str:
        unknown = any(out.in_place and not any(kind.known for kind in out.kinds) for out in outs)
        mixed = {out.discrete for out in outs} == {True, False} or unknown
        if not (self.lowering.is_guard(branch.test) and mixed and self.lowering.choice.gradients):
            return super().callee(branch, outs)
        if not _is_kept(branch):
            raise Refused("the loop makes integers and floats on both sides of an exit", "Split the exit.")
        if branch.first.statements:
            self.lowering.uses_advance = True
            return self.lowering.advance
        raise Refused("integers and floats behind a `continue`", "Compute the integers in front of it.")

    def _locals(self, branch: Branch, outs: list[Out]) -> tuple[dict[str, str], dict[str, str]]:
        """No copy in front of the guard of a name that the first trip has yet to bind."""
        local, lines = super()._locals(branch, outs)
        if self.lowering.starts_in_python(branch):
            assert isinstance(branch.node, ast.If)
            plain = [key for key in local if "." not in key]
            before = self.lowering.facts.names(branch.node, plain)
            for key in plain:
                if any(fact.type == UNDEFINED for fact in before[key]):
                    del lines[local.pop(key)]
        return local, lines

    def _sides(self, branch: Branch, outs: list[Out]) -> list[tuple[Side, str]]:
        if not (self.lowering.is_guard(branch.test) and _is_kept(branch)):
            return super()._sides(branch, outs)
        return [(side, "trip" if side.statements else "kept") for side in (branch.first, branch.second)]


def _is_kept(branch: Branch) -> bool:
    """Whether one side leaves everything as it is."""
    return not (branch.first.statements and branch.second.statements)


def _real(facts: Iterable[Fact]) -> list[Fact]:
    return [fact for fact in facts if fact.type != UNDEFINED]


def _discrete(fact: Fact) -> bool:
    return not (fact.dtype or "").startswith(("torch.float", "torch.bfloat", "torch.complex"))


def bound_in(loop: ast.stmt) -> frozenset[str]:
    """The names that a loop binds, its targets included."""
    return flow.binds(loop)
