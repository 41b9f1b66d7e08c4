"""Does the value of a tensor go into an expression, or only its metadata (shape, dtype, being None)?"""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence

from onegraph.rewrite.request import Fact

METADATA = frozenset(
    (
        "shape",
        "dtype",
        "device",
        "ndim",
        "layout",
        "is_cuda",
        "is_cpu",
        "is_leaf",
        "requires_grad",
        "itemsize",
        "nbytes",
    )
)
METADATA_CALLS = frozenset(
    ("size", "dim", "numel", "nelement", "stride", "ndimension", "element_size", "is_floating_point")
) | {"is_complex", "is_contiguous", "get_device"}


class Tensors:
    """Answers from the facts of expressions."""

    def __init__(self, facts: Callable[[ast.expr], Sequence[Fact]]) -> None:
        self._facts = facts

    def are(self, node: ast.expr) -> bool:
        """Whether an expression was a tensor."""
        return any(fact.is_tensor for fact in self._facts(node))

    def in_value(self, node: ast.AST) -> bool:
        """Whether the value of a tensor, not only its metadata, goes into an expression."""
        if isinstance(node, ast.expr) and self.are(node):
            return True
        if self.described(node) is not None:
            return False
        return any(self.in_value(child) for child in ast.iter_child_nodes(node))

    def described(self, node: ast.AST) -> ast.expr | None:
        """The tensor whose metadata an expression reads: ``x`` of ``x.shape``, ``x.size(0)``, ``x is
        None``.
        """
        inner: ast.expr
        match node:
            case ast.Attribute(value=inner, attr=attribute):
                found = attribute in METADATA
            case ast.Call(func=ast.Attribute(value=inner, attr=attribute)):
                found = attribute in METADATA_CALLS
            case ast.Call(func=ast.Name(id="len" | "type" | "isinstance"), args=[inner, *_]):
                found = True
            case ast.Compare(left=inner, ops=[ast.Is() | ast.IsNot()]):
                found = True
            case ast.Subscript(value=inner, slice=ast.Constant() | ast.UnaryOp()):
                return self.described(inner)
            case _:
                return None
        return inner if found and self.are(inner) else None
