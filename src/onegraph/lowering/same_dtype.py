"""Whether the floats that code computes are of the dtype of the floats that it gets, whatever that is.

So it is where every float tensor in it was of one dtype and is made of another one, and nothing names a dtype.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator, Sequence

from onegraph.lowering.effect_facts import expressions
from onegraph.lowering.effect_scope import COMPREHENSIONS
from onegraph.rewrite.request import Fact

Facts = Callable[[ast.expr], Sequence[Fact]]
# what these give is of a dtype of its own
_NAMES_ONE = frozenset((
    "arange", "as_tensor", "bfloat16", "complex", "double", "empty", "eye", "float", "float16", "float32", "float64",
    "full", "half", "linspace", "logspace", "ones", "scalar_tensor", "tensor", "to", "type", "type_as", "view", "zeros",
))  # fmt: skip


def follows(statements: Sequence[ast.stmt], facts: Facts) -> bool:
    """Whether float results have the dtype of the float arguments. ``facts``: of expressions in the statements."""
    dtypes: set[str | None] = set()
    for node in (n for s in statements for n in expressions(s)):
        own = {fact.dtype for fact in facts(node) if is_float(fact)}
        dtypes |= own
        made = isinstance(node, ast.BinOp | ast.Call)
        if (made and not facts(node)) or _names_one(node):
            return False
        if (
            own
            and not isinstance(node, ast.Name)
            and not any(_float(part, facts) for part in _operands(node))
        ):
            return False
    return len(dtypes) == 1


def is_float(fact: Fact) -> bool:
    return (fact.dtype or "").startswith(("torch.float", "torch.bfloat"))


def _float(node: ast.expr, facts: Facts) -> bool:
    return any(is_float(fact) for fact in facts(node))


def _names_one(node: ast.expr) -> bool:
    if isinstance(node, ast.Call) and any(keyword.arg == "dtype" for keyword in node.keywords):
        return True
    return isinstance(node, ast.Attribute) and node.attr in _NAMES_ONE


def _operands(node: ast.expr) -> Iterator[ast.expr]:
    """The parts of an expression whose values go into its own."""
    match node:
        case ast.Call(func=function, args=args, keywords=keywords):
            parts = [*args, *(keyword.value for keyword in keywords)]
            parts += [function.value] if isinstance(function, ast.Attribute) else []
        case ast.BinOp(left=left, right=right):
            parts = [left, right]
        case ast.UnaryOp(operand=part) | ast.Subscript(value=part) | ast.Attribute(value=part):
            parts = [part]
        case ast.IfExp(body=left, orelse=right):
            parts = [left, right]
        case _:
            return
    for part in parts:
        if isinstance(part, ast.List | ast.Tuple):
            yield from part.elts
        elif isinstance(part, COMPREHENSIONS) and not isinstance(part, ast.DictComp):
            yield part.elt
        else:
            yield part
