"""What a choice in the graph moves, though it computes the same: gradients that are zero, copies for aliases."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from typing import TYPE_CHECKING

from onegraph.lowering import flow, ops, state
from onegraph.lowering.aliases import holders, linked, sharing
from onegraph.lowering.choice import called
from onegraph.lowering.parts import RETURN, Branch, Out, Side
from onegraph.lowering.refused import InGradientBlock, Refused
from onegraph.lowering.written_behind import written_behind

if TYPE_CHECKING:
    from onegraph.lowering.branch import Lowering


class Moves:
    """Notes what moves; refuses what would show as another result."""

    def __init__(self, lowering: Lowering) -> None:
        self.lowering = lowering

    def one_sided(self, branch: Branch) -> None:
        names = self.lowering.place.one_sided(
            branch.first.statements, branch.second.statements, branch.node, self.lowering.facts
        )
        if names and self.lowering.choice.gradients:
            listed = ", ".join(f"`{name}`" for name in names)
            self.lowering.notes.append(
                f"{listed}: used on one side only; when the other side runs, the gradient is zero, not None"
            )

    def gradients(self, outs: Sequence[Out], joined: Sequence[Out] = ()) -> None:
        """What comes out of one choice requires a gradient on both sides; ``joined``: if one of these does, all do."""
        if not self.lowering.choice.gradients:
            return
        for out in outs:
            if out.mixed:
                words = "requires a gradient on one side only; in the graph it does on both"
                self.lowering.notes.append(f"{_name(out)} {words}")
        kinds = [(_name(out), kind) for out in joined for kind in out.kinds]
        beside = next((name for name, kind in kinds if kind.requires_grad), None)
        for name, kind in kinds if beside is not None else ():
            if not (kind.requires_grad or kind.discrete or kind.number or kind.constant):
                self.lowering.notes.append(f"in the graph {name} requires a gradient, as {beside} beside it")

    def layouts(self, outs: Sequence[Out]) -> None:
        """The sides of a ``torch.cond`` must be laid out alike in memory."""
        for out in outs:
            if any(kind.laid_out for kind in out.kinds):
                self.lowering.notes.append(
                    f"{_name(out)} is laid out otherwise in memory on each side; it becomes contiguous on both"
                )

    def aliases(self, branch: Branch, outs: Sequence[Out]) -> None:
        """A side that hands a tensor on as it is: in the graph a copy takes its place."""
        for out in outs:
            handed = [name for side in (branch.first, branch.second) if (name := handed_on(side, out.key))]
            if not handed or out.in_place:  # in place: the result is written into the tensor itself
                continue
            self.refuse_changed_behind((out.key, *handed), handed[0], branch.node)
            if not self.lowering.place.gradients_at(branch.node) and out.needs_grad:
                raise InGradientBlock(
                    f"without gradients a choice loses those of `{handed[0]}`, which the branch hands on as it is",
                    "Move the branch out of the block without gradients, or detach the tensor.",
                    branch.node,
                )
            if out.key == RETURN or out.attribute or self.lowering.place.escapes(out.key, branch.node):
                self.alias(handed[0])

    def refuse_changed_behind(self, keys: Sequence[str], handed: str, node: ast.AST) -> None:
        """An in-place change behind the branch reaches both names of one tensor, but only one of two copies."""
        place, facts = self.lowering.place, self.lowering.facts
        at = node if isinstance(node, ast.stmt) else place.statement
        held = set[str]()
        for key in (key for each in keys if each != RETURN for key in holders(each, place.function)):
            held.add(key)
            if "." in key:
                held |= linked(key, place.function)
            elif at is not None:
                held |= sharing(key, at, place.function, facts)
        if (written := written_behind(place.function, node, held, facts)) is not None:
            raise Refused(
                f"the branch hands `{handed}` on as it is, and line {written.lineno} changes it in place",
                f"Hand a copy on, on that side of the branch (`else:`, where it has none): `{handed}.clone()`.",
            )

    def alias(self, code: str) -> None:
        self.lowering.notes.append(f"where the branch hands `{code}` on as it is, a copy takes its place")


def handed_on(side: Side, key: str) -> str | None:
    """The source of a tensor that the side passes on itself, not something computed from it; or None."""
    last: ast.expr | None = None
    for statement in side.statements:
        if isinstance(statement, ast.Return) and key == RETURN:
            parts = statement.value.elts if isinstance(statement.value, ast.Tuple) else [statement.value]
            last = next((part for part in parts if part is not None and is_alias(part)), None)
        elif isinstance(statement, ast.Assign) and key in {state.key_of(t) for t in statement.targets}:
            last = statement.value
        elif key in flow.binds(statement):
            return None
    if last is None:
        return None if key == RETURN or key in flow.binds(side.statements) else key
    return ast.unparse(last) if is_alias(last) else None


def is_alias(node: ast.expr) -> bool:
    if isinstance(node, ast.Name | ast.Attribute):
        return True
    return isinstance(node, ast.Subscript) or (isinstance(node, ast.Call) and called(node) in ops.VIEWS)


def _name(out: Out) -> str:
    return (
        f"`{out.key}`"
        if out.key != RETURN
        else "a returned value"
        if len(out.kinds) > 1
        else "the returned value"
    )
