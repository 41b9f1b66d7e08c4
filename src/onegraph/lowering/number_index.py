"""A carried number as an index: a tensor of one index, and the dimension dropped again."""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence

from onegraph.lowering.number_ops import Operators
from onegraph.lowering.number_uses import Bound, NotAlike, literal_numbers, targets
from onegraph.lowering.numbers import Carried, Number
from onegraph.lowering.pure_code import root_of, written_roots
from onegraph.rewrite import text as source


class Indices:
    """Checks indices in one function."""

    def __init__(self, operators: Operators) -> None:
        self.operators = operators

    def index(
        self, node: ast.Subscript, parts: Sequence[ast.expr], indices: Mapping[ast.expr, Carried]
    ) -> Carried | None:
        """``x[i]`` as ``x[i.view(1)].squeeze(0)``: the same values, bounds and negative indices; no longer a view."""
        listed = literal_numbers(
            source.parse(self.operators.inserts.text), self.operators.function, node.value
        )
        if listed is not None and len(parts) == 1 and isinstance(node.ctx, ast.Load):
            return self._element(node, listed, *indices.items())
        facts = self.operators.classify(node.value, node)
        if isinstance(facts, Number) or any(not fact.shape for fact in facts):
            raise NotAlike(node, Bound.INDEX)
        for part, carried in indices.items():
            if carried.number is not Number.INT or not carried.certain:
                raise NotAlike(node, Bound.INDEX)
            if any(fact.device != carried.device for fact in facts) and carried.device != "cpu":
                raise NotAlike(node, "indexes a tensor on another device")
            self.operators.inserts.suffix(node, part, ".view(1)", operand=False)
        if isinstance(node.ctx, ast.Store):
            return None
        self._check_not_written(node)
        self.operators.inserts.suffix(
            node, node, f".squeeze({self._dropped(node, parts, indices)})", operand=False
        )
        return None

    def _element(self, node: ast.Subscript, number: Number, index: tuple[ast.expr, Carried]) -> Carried:
        """``numbers[i]`` as ``torch.tensor(numbers)[i.view(1)].reshape(())``."""
        part, carried = index
        if carried.number is not Number.INT or not carried.certain:
            raise NotAlike(node, Bound.INDEX)
        place = "" if carried.device == "cpu" else f', device="{carried.device}"'
        made = f", dtype={number.dtype.replace('torch', self.operators.torch)}{place})"
        self.operators.inserts.around(node, node.value, f"{self.operators.torch}.tensor(", made)
        self.operators.inserts.suffix(node, part, ".view(1)", operand=False)
        self.operators.inserts.suffix(node, node, ".reshape(())", operand=False)
        return Carried(number, carried.device)

    def _dropped(self, node: ast.AST, parts: Sequence[ast.expr], indices: Mapping[ast.expr, Carried]) -> int:
        """The dimension that an index of one element leaves behind."""
        sliced: list[int] = []  # for each index, how many slices stand in front of it
        count = 0
        for part in parts:
            if part in indices:
                sliced.append(count)
            elif isinstance(part, ast.Slice):
                count += 1
            else:
                other = self.operators.classify(part, node)
                if not isinstance(other, Number) or other is not Number.INT:
                    raise NotAlike(node, "is an index beside another tensor or an ellipsis")
        return sliced[0] if len(set(sliced)) == 1 else 0

    def _check_not_written(self, node: ast.Subscript) -> None:
        """A row that is kept must not be written through, nor change behind its back."""
        consumers = ast.BinOp | ast.Compare | ast.UnaryOp
        if any(
            isinstance(part, consumers) and node in ast.iter_child_nodes(part)
            for part in ast.walk(self.operators.function)
        ):
            return  # used up on the spot
        holders = {part.id for part in ast.walk(node.value) if isinstance(part, ast.Name)}
        for statement in ast.walk(self.operators.function):
            if isinstance(statement, ast.Assign) and statement.value is node:
                holders |= set(targets(statement))
        body = [
            part
            for part in ast.walk(self.operators.function)
            if isinstance(part, ast.stmt) and part is not self.operators.function
        ]
        for place in written_roots(body):
            root = root_of(place)
            if isinstance(root, ast.Name) and root.id in holders:
                raise NotAlike(
                    node,
                    f"is an index into `{ast.unparse(node.value)}`, which is written in place",
                    "Index with the tensor: x.index_select(0, i.view(1)).squeeze(0).",
                )
