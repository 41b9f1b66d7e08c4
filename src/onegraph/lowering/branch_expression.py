"""An ``x if t else y``, or a ``t and u``, as a value."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from onegraph.lowering.moves import is_alias
from onegraph.lowering.parts import Branch, Form, Out, Side
from onegraph.lowering.predicate import Force
from onegraph.lowering.refused import Refused

if TYPE_CHECKING:
    from onegraph.lowering.branch import Lowering


class Expressions:
    """Rewrites the conditional expressions of one function."""

    def __init__(self, lowering: Lowering) -> None:
        self.lowering = lowering

    def of(self, node: ast.expr, force: Force) -> str:
        """The code that replaces it. Raises Refused."""
        lowering = self.lowering
        if isinstance(node, ast.BoolOp):
            return self._boolean(node, force)
        assert isinstance(node, ast.IfExp)
        test = lowering.tests.split(node.test, force)
        yes, no = {**force, **test.when_true}, {**force, **test.when_false}
        first, second = (node.body, yes), (node.orelse, no)
        if test.negated:
            first, second = second, first
        if any(isinstance(n, ast.NamedExpr) for part in (node.body, node.orelse) for n in ast.walk(part)):
            raise Refused("a side of the if expression binds a name", "Bind the name before the expression.")
        kind = lowering.agreement.of_expressions(first, second)
        codes = [lowering.code(part, force_) for part, force_ in (first, second)]
        sides = [Side([ast.Expr(part)], force_, node.lineno) for part, force_ in (first, second)]
        one_sided = Branch(node, test, sides[0], sides[1], None, ())
        node_key = lowering.source.code(node)
        handed = [ast.unparse(part) for part in (node.body, node.orelse) if is_alias(part)]
        if handed and not lowering.place.only_computed_with(node):
            lowering.moves.refuse_changed_behind((*lowering.place.targets(node), *handed), handed[0], node)
            lowering.moves.alias(handed[0])
        lowering.moves.gradients([Out(node_key, kinds=[kind])])
        if lowering.form is not Form.COND and test.selectable:
            hazard = next(
                (h for part, force_ in (first, second) if (h := lowering.selection.hazard(part, force_))),
                None,
            )
            if hazard is None:
                values = lowering.selection.numbers(codes, kind)
                lowering.record(test, test.select_code(lowering.torch))
                lowering.moves.one_sided(one_sided)
                lowering.selects += 1
                predicate = test.select_code(lowering.torch)
                return lowering.where(predicate, values[0], values[1], tensors=not kind.number)
        if kind.number:
            raise Refused(
                f"`{lowering.source.code(node)}` chooses a Python number",
                "Choose between tensors, with torch.where.",
            )
        lowering.conditional.refuse_random(one_sided)
        lowering.record(test, test.tensor)
        lowering.moves.one_sided(one_sided)
        return f"{lowering.cond}({test.branch_code()}, lambda: {codes[0]}, lambda: {codes[1]})"

    def _boolean(self, node: ast.BoolOp, force: Force) -> str:
        lowering = self.lowering
        for value in node.values:
            found = lowering.facts.values(value, force=force or None)[0]
            if not found or any(fact.dtype != "torch.bool" or fact.shape != () for fact in found):
                raise Refused(
                    f"`{lowering.source.code(node)}` picks one of its operands by a tensor's value",
                    "Use `&` and `|` on boolean tensors, or torch.where.",
                )
        return lowering.tests.split(node, force).tensor
