"""An ``if`` on a tensor whose arm first writes something and then computes: the effects move in front of it.

``if p: E; R`` becomes ``q = p``, the op ``if q: E``, ``if q: R``; the rest is an ordinary branch on a tensor.
"""

from __future__ import annotations

import ast
import copy

from onegraph.lowering import effect_names, effect_text
from onegraph.lowering.effect_params import split
from onegraph.lowering.effect_scope import scope_of
from onegraph.lowering.effect_shapes import Effects
from onegraph.lowering.effects import Moved, place_op
from onegraph.lowering.refused import Refused
from onegraph.rewrite import text as text_
from onegraph.rewrite.request import Request


def leading_effects(tree: ast.Module, statement: ast.If) -> list[ast.stmt]:
    """The effects at the start of an arm that does more than effects."""
    effects, found = Effects(tree), []
    for inner in statement.body:
        if isinstance(inner, ast.If | ast.Raise) or not effects.only([inner]):
            break
        found.append(inner)
    return found if len(found) < len(statement.body) else []


def split_off(request: Request, statement: ast.If, verb: str, says: list[str]) -> Moved:
    """The text with the leading effects of the arm in an op in front of the ``if``. Raises Refused."""
    text, tree = request.text, text_.parse(request.text)
    leading = leading_effects(tree, statement)
    scope = scope_of(tree, statement)
    test, turned = statement.test, False
    if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        test, turned = test.operand, True
    (facts,) = request.facts.values(test)
    if not leading or not facts or not all(fact.is_tensor for fact in facts) or scope.function is None:
        raise Refused(
            f"the arm of the `if` in line {statement.lineno} writes and computes.",
            "Give the effect an `if` of its own.",
        )
    if effect_text.is_elif(text, statement) or not all(
        effect_text.owns_lines(text, s) for s in (statement, *statement.body)
    ):
        raise Refused("The effect shares its lines with other statements.", "Put it on a line of its own.")

    node = copy.copy(statement)
    node.body, node.orelse = leading, []
    rest = tuple(statement.body[len(leading) :])
    part = effect_text.Part(statement, node, (), rest, {statement.test: True})
    parts = split(request, tree, statement, node, part.tests, {})

    condition = text_.segment(text, test)
    name = condition
    if not isinstance(test, ast.Name):
        name = text_.unused_name(tree, effect_names.of_value(test, scope.names))
    call = ", ".join(name if p.argument == condition else p.argument for p in parts.parameters)

    def changed(op: str) -> str:
        indent = text_.indent_of(text, statement.lineno)
        first, last = text_.first_line(leading[0]), text_.position(leading[-1])[2]
        before = [] if name == condition else [f"{indent}{name} = {condition}\n"]
        before.append(text_.wrap_call(f"{indent}{op}({call})\n"))
        place = text_.position(statement)
        return text_.replace_spans(
            text,
            [
                (place[0], 0, place[0], 0, "".join(before)),
                (*text_.position(statement.test), f"not {name}" if turned else name),
                (first, 0, last + 1, 0, ""),
            ],
        )

    return place_op(request, scope, part, parts, verb, says, changed)
