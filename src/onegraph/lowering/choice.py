"""Select or branch? The cost model, in one place.

``torch.where`` runs both sides, so it takes a side only when running it for nothing is

- *silent*: no effect, no random number, nothing that can raise (an index, an integer division, a call of
unknown code);
- *cheap*: elementwise ops, views and small reductions, at most ``MOST`` of them, no module and no matrix
product;
- *harmless to gradients*: the side that was not taken gets a zero gradient, and zero times Inf or NaN is
NaN. So
  each op on a differentiable value must have a backward that selects, adds, negates or scales by a Python
  number.
  ``x.log()``, ``x * w`` or ``x.tanh()`` are not of that kind (``tanh(nan)`` has a NaN derivative).

A side that fails only the last rule can be fed with ones where it is not taken (the "double where"), if every
differentiable value that it reads is one plain name. Everything else is a branch: ``torch.cond``.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable
from dataclasses import dataclass

from onegraph.lowering import ops
from onegraph.rewrite.request import Fact, Facts

MOST = 12  # tensor ops on one side

_NUMBERS = frozenset({"int", "float", "bool", "builtins.int", "builtins.float", "builtins.bool"})


def plain(node: ast.expr) -> bool:
    """Whether evaluating the Python expression early changes nothing: it has no effect and can't fail on
    types."""
    return all(
        isinstance(
            n,
            ast.Name | ast.Attribute | ast.Constant | ast.Compare | ast.BoolOp | ast.UnaryOp |
            ast.expr_context
            | ast.cmpop | ast.boolop | ast.unaryop | ast.Tuple,
        )
        or (isinstance(n, ast.Call) and called(n) in ops.PLAIN and not n.keywords)
        or (isinstance(n, ast.Subscript) and isinstance(n.value, ast.Attribute) and n.value.attr == "shape")
        for n in ast.walk(node)
    )  # fmt: skip


def called(node: ast.Call) -> str:
    """The last part of the name of what is called."""
    if isinstance(node.func, ast.Attribute):
        return node.func.attr
    return node.func.id if isinstance(node.func, ast.Name) else ""


def unsafe_to_evaluate(
    node: ast.expr, *, twice: bool = False, sized: bool = False, known: frozenset[str] = frozenset()
) -> str | None:
    """Why a tensor condition may not be evaluated where the program would have skipped it; None when it
    may. ``twice``: the program evaluates it, the question is whether it may be evaluated once more. ``sized``: it
    was evaluated on tensors of the same sizes. ``known``: more functions that only compute."""
    known = ops.ADDITIVE | ops.CHEAP | ops.PYTHON | known
    for part in ast.walk(node):
        if isinstance(part, ast.Call) and (
            called(part) not in known or called(part) in {"int", "float", "bool"}
        ):
            if called(part) in {"float", "bool", "int"} and isinstance(part.func, ast.Attribute):
                continue
            return f"`{called(part) or ast.unparse(part.func)}` may fail or have an effect"
        if isinstance(part, ast.Subscript) and not twice and not _static_index(part.slice, numbers=sized):
            return "an index may be out of range"
        if isinstance(part, ast.BinOp) and not twice and isinstance(part.op, ast.FloorDiv | ast.Mod):
            return "an integer division may fail"
        if isinstance(part, ast.Await | ast.Yield | ast.YieldFrom | ast.NamedExpr):
            return "it does more than compute"
    return None


def draws_random(statements: Iterable[ast.stmt], facts: Facts) -> ast.Call | None:
    """A call that draws random numbers, by its name or by the module that it calls."""
    for node in (n for s in statements for n in ast.walk(s)):
        if isinstance(node, ast.Call):
            types = {fact.type for fact in facts.values(node.func)[0]}
            if called(node) in ops.RANDOM or any(".dropout." in name for name in types):
                return node
    return None


@dataclass(frozen=True)
class Hazard:
    """Why ``torch.where`` must not evaluate a side. ``only_gradient``: ones in place of its input would
    cure it."""

    why: str
    only_gradient: bool = False


class Choice:
    """Judges the expressions of one function by the facts of their values."""

    def __init__(self, facts: Facts, torch: str, *, gradients: bool) -> None:
        self.facts, self.torch, self.gradients = facts, torch, gradients

    def hazard(self, node: ast.expr, force: object, ones: frozenset[str] = frozenset()) -> Hazard | None:
        """Why the expression can't be evaluated for nothing. ``ones``: names that hold ones there."""
        found = self._find(node, force, ones)
        if found is not None:
            return found
        count = sum(isinstance(n, ast.Call | ast.BinOp | ast.Compare | ast.UnaryOp) for n in ast.walk(node))
        return Hazard(f"{count} operations run for nothing") if count > MOST else None

    def only_computes(self, node: ast.Call, facts: Facts) -> bool:
        """Whether a call does nothing but compute a value: of torch's own functions, methods and modules."""
        name, types = called(node), {fact.type for fact in facts.values(node.func)[0]}
        if name in ops.RANDOM or any(".dropout." in each for each in types):
            return False
        if types and all(each.startswith("torch.nn.modules.") for each in types):
            return True
        if isinstance(node.func, ast.Attribute):
            of_torch = self._is_namespace(node.func.value)
            owner = facts.values(node.func.value)[0]
            if of_torch or (owner and all(fact.is_tensor for fact in owner)):
                return name not in {"backward", "register_hook", "retain_grad", "manual_seed", "save"}
            name = name.removesuffix("_") if not name.endswith("__") else name
        return name in ops.VALUES | ops.VIEWS | ops.ADDITIVE | ops.CHEAP | ops.PYTHON | ops.PLAIN

    def differentiable_names(self, node: ast.expr, force: object) -> frozenset[str]:
        """Plain names in the expression through which a gradient can flow."""
        return frozenset(
            n.id for n in ast.walk(node) if isinstance(n, ast.Name) and self._differentiable(n, force)
        )

    def _find(self, node: ast.expr, force: object, ones: frozenset[str]) -> Hazard | None:
        if isinstance(node, ast.Constant | ast.Name):
            return None
        if isinstance(node, ast.Attribute):
            return self._find(node.value, force, ones)
        if isinstance(node, ast.UnaryOp):
            return self._find(node.operand, force, ones)
        if isinstance(node, ast.Tuple | ast.List):
            return self._first(list(node.elts), force, ones)
        if isinstance(node, ast.Starred):
            return self._find(node.value, force, ones)
        if isinstance(node, ast.Compare):
            if any(isinstance(op, ast.In | ast.NotIn) for op in node.ops):
                return Hazard("a search in a container")
            return self._first([node.left, *node.comparators], force, ones)
        if isinstance(node, ast.BinOp):
            return self._first([node.left, node.right], force, ones) or self._binary(node, force, ones)
        if isinstance(node, ast.Subscript):
            return self._subscript(node, force, ones)
        if isinstance(node, ast.Call):
            return self._call(node, force, ones)
        if isinstance(node, ast.IfExp | ast.BoolOp):
            parts = node.values if isinstance(node, ast.BoolOp) else [node.test, node.body, node.orelse]
            if any(self._differentiable(part, force) for part in parts):
                return Hazard("a choice inside the choice")
            return self._first(parts, force, ones)
        return Hazard(f"`{ast.unparse(node)}` is more than an elementwise expression")

    def _first(self, nodes: list[ast.expr], force: object, ones: frozenset[str]) -> Hazard | None:
        return next((found for node in nodes if (found := self._find(node, force, ones))), None)

    def _binary(self, node: ast.BinOp, force: object, ones: frozenset[str]) -> Hazard | None:
        code = ast.unparse(node)
        if isinstance(node.op, ast.Add | ast.Sub):
            return None
        if isinstance(node.op, ast.MatMult):
            return Hazard(f"`{code}` is a matrix product")
        tensor = self._tensor(node, force)
        if isinstance(node.op, ast.FloorDiv | ast.Mod | ast.LShift | ast.RShift) or not tensor:
            dividing = isinstance(node.op, ast.Div | ast.FloorDiv | ast.Mod)
            if isinstance(node.op, ast.Pow | ast.LShift | ast.RShift) and not _literal(node.right):
                return Hazard(f"`{code}` can raise")
            if dividing and not _nonzero(node.right):
                return Hazard(f"`{code}` can divide by zero")
        if not tensor or not self._differentiable(node, force):
            return None
        if isinstance(node.op, ast.Mult):
            if self._number(node.left, force) or self._number(node.right, force):
                return None
            if self._finite(node.left, force, ones) and self._finite(node.right, force, ones):
                return None
        if isinstance(node.op, ast.Div) and self._number(node.right, force) and _nonzero(node.right):
            return None
        if (
            isinstance(node.op, ast.Div | ast.Pow)
            and self._finite(node.left, force, ones)
            and (
                (isinstance(node.right, ast.Name) and node.right.id in ones and isinstance(node.op, ast.Div))
                or (isinstance(node.left, ast.Name) and node.left.id in ones and _literal(node.right))
            )
        ):
            return None
        return Hazard(f"the gradient of `{code}` can be NaN where it isn't taken", only_gradient=True)

    def _subscript(self, node: ast.Subscript, force: object, ones: frozenset[str]) -> Hazard | None:
        on_shape = isinstance(node.value, ast.Attribute) and node.value.attr == "shape"
        if not on_shape and not _static_index(node.slice):
            return Hazard(f"the index in `{ast.unparse(node)}` can be out of range")
        return self._find(node.value, force, ones)

    def _call(self, node: ast.Call, force: object, ones: frozenset[str]) -> Hazard | None:
        name, code = called(node), ast.unparse(node.func)
        arguments = [*node.args, *(k.value for k in node.keywords)]
        method = isinstance(node.func, ast.Attribute)
        if name in ops.RANDOM:
            return Hazard(f"`{code}` draws random numbers")
        receiver = node.func.value if isinstance(node.func, ast.Attribute) else None
        if receiver is not None and not self._is_namespace(receiver):
            if not self._tensor(receiver, force):
                return Hazard(f"`{code}` is a call of unknown code")
            arguments.insert(0, receiver)
        elif not method and name not in ops.PYTHON:
            return Hazard(f"`{code}` is a call of unknown code")
        if inner := self._first(arguments, force, ones):
            return inner
        if name.endswith("_") and not name.endswith("__"):
            return Hazard(f"`{code}` changes a tensor in place")
        if name in ops.PYTHON and not self._tensor(node, force):
            risky = name in {"int", "float", "bool"} and any(self._tensor(a, force) for a in arguments)
            return Hazard(f"`{code}` reads a tensor's value") if risky else None
        if name in ops.ADDITIVE:
            return None
        if name not in ops.CHEAP:
            return Hazard(f"`{code}` is not an elementwise operation")
        if not self._differentiable(node, force):
            return None
        if name in ops.UNARY_AT_ONE and all(
            (isinstance(a, ast.Name) and a.id in ones) or _literal(a) for a in arguments
        ):
            return None
        if name in {"add", "sub"}:
            return None
        return Hazard(
            f"the gradient of `{ast.unparse(node)}` can be NaN where it isn't taken", only_gradient=True
        )

    def _is_namespace(self, node: ast.expr) -> bool:
        return ast.unparse(node) in {
            self.torch,
            "F",
            f"{self.torch}.nn.functional",
            "nn.functional",
            "math",
            "np",
        }

    def _finite(self, node: ast.expr, force: object, ones: frozenset[str]) -> bool:
        """Whether the value is finite, given that the names in ``ones`` hold ones."""
        if isinstance(node, ast.Constant):
            return True
        if isinstance(node, ast.Name):
            return node.id in ones or self._number(node, force)
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add | ast.Sub | ast.Mult):
            return self._finite(node.left, force, ones) and self._finite(node.right, force, ones)
        if isinstance(node, ast.UnaryOp):
            return self._finite(node.operand, force, ones)
        if isinstance(node, ast.Call) and called(node) in ops.UNARY_AT_ONE:
            receiver = node.func.value if isinstance(node.func, ast.Attribute) else None
            inputs = (
                [*node.args] if receiver is None or self._is_namespace(receiver) else [receiver, *node.args]
            )
            return all(isinstance(i, ast.Name) and i.id in ones for i in inputs)
        return False

    def _measured(self, node: ast.expr, force: object) -> tuple[Fact, ...]:
        if isinstance(node, ast.Constant):
            return (Fact(type(node.value).__name__),)
        return self.facts.values(node, force=force or None)[0]  # type: ignore[arg-type]

    def _tensor(self, node: ast.expr, force: object) -> bool:
        found = self._measured(node, force)
        return any(fact.is_tensor for fact in found) or not found

    def _number(self, node: ast.expr, force: object) -> bool:
        if isinstance(node, ast.UnaryOp):
            return self._number(node.operand, force)
        found = self._measured(node, force)
        return bool(found) and all(
            fact.type in _NUMBERS and fact.value not in ("inf", "-inf", "nan") for fact in found
        )

    def _differentiable(self, node: ast.expr, force: object) -> bool:
        """Whether a gradient can flow through the value. A tensor that needs none here may need one
        elsewhere."""
        if not self.gradients:
            return False
        found = self._measured(node, force)
        return not found or any(
            fact.is_tensor and (fact.dtype or "").startswith(("torch.float", "torch.bfloat", "torch.complex"))
            for fact in found
        )


def _literal(node: ast.expr) -> bool:
    if isinstance(node, ast.UnaryOp):
        return _literal(node.operand)
    return isinstance(node, ast.Constant) and isinstance(node.value, int | float)


def _nonzero(node: ast.expr) -> bool:
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub | ast.UAdd):
        return _nonzero(node.operand)
    return isinstance(node, ast.Constant) and isinstance(node.value, int | float) and node.value != 0


def _static_index(node: ast.expr, *, numbers: bool = False) -> bool:
    """Slices, ``None`` and ``...`` never fail on a tensor; ``numbers``: nor do constants, on one of known size."""
    if isinstance(node, ast.Tuple):
        return all(_static_index(element, numbers=numbers) for element in node.elts)
    if isinstance(node, ast.Slice):
        return all(part is None or _literal(part) for part in (node.lower, node.upper, node.step))
    return (numbers and _literal(node)) or (
        isinstance(node, ast.Constant) and (node.value is None or node.value is Ellipsis)
    )
