"""Objects that can't be passed to an op but can be named from module level: loggers and imported modules."""

from __future__ import annotations

import ast
from dataclasses import dataclass

from onegraph.lowering import choice
from onegraph.lowering.effect_scope import Scope, free_names
from onegraph.rewrite import text as text_

GETTERS = frozenset(("getLogger", "get_logger", "getChild", "get_absl_logger"))


@dataclass(frozen=True, slots=True)
class Replacement:
    """Text for the op in place of a local expression, and the imports that the text needs."""

    text: str
    imports: tuple[str, ...] = ()


def module_level(text: str, tree: ast.Module, scope: Scope, node: ast.expr) -> Replacement | None:
    """What a local logger, ``self.logger`` or a name imported in the function is called at module level.

    None where it can't be said: bound more than once, or made from local values.
    """
    match node:
        case ast.Name(id=name):
            return _of_bindings(text, scope, scope.bindings(name), node)
        case ast.Attribute(value=ast.Name(id="self" | "cls"), attr=attribute) if scope.owner is not None:
            made = [_logger_made(s) for s in _assignments(scope.owner, attribute)]
            if len(made) == 1 and made[0] is not None and not _local_to_any(scope.owner, made[0]):
                return Replacement(text_.segment(text, made[0]))
    return None


def _of_bindings(text: str, scope: Scope, bindings: list[ast.AST], node: ast.Name) -> Replacement | None:
    if bindings and all(isinstance(b, ast.Import | ast.ImportFrom) for b in bindings):
        return Replacement(node.id, tuple(dict.fromkeys(ast.unparse(b) for b in bindings)))
    if len(bindings) != 1:
        return None
    made = _logger_made(bindings[0])
    if made is None:
        value = getattr(bindings[0], "value", None)  # logger = _logger
        known = isinstance(value, ast.Name) and value.id not in scope.names
        return Replacement(value.id) if known and isinstance(value, ast.Name) else None
    imports: list[str] = []
    for name in free_names(made) & scope.names:
        inner = _of_bindings(text, scope, scope.bindings(name), ast.Name(name, ast.Load()))
        if inner is None or inner.text != name:
            return None
        imports += inner.imports
    return Replacement(text_.segment(text, made), tuple(imports))


def _logger_made(node: ast.AST | None) -> ast.Call | None:
    """The call that makes the logger in ``logger = logging.getLogger(...)``."""
    if isinstance(node, ast.Assign | ast.AnnAssign) and isinstance(node.value, ast.Call):
        return node.value if choice.called(node.value) in GETTERS else None
    return None


def _assignments(owner: ast.ClassDef, attribute: str) -> list[ast.AST]:
    """Every assignment to ``self.attribute`` in the class, and to the class attribute itself."""
    found: list[ast.AST] = []
    for node in ast.walk(owner):
        targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
        for target in targets:
            of_class = isinstance(target, ast.Name) and target.id == attribute and node in owner.body
            if of_class or (isinstance(target, ast.Attribute) and target.attr == attribute):
                found.append(node)
    return found


def _local_to_any(owner: ast.ClassDef, made: ast.Call) -> bool:
    """Whether the call uses names of the method that it stands in, or of the class body."""
    for method in owner.body:
        if made in ast.walk(method) and isinstance(method, ast.FunctionDef | ast.AsyncFunctionDef):
            inside = Scope((method,), frozenset()).bindings
            return any(inside(name) for name in free_names(made))
    return bool(free_names(made) & {n for s in owner.body for n in text_.bound_names(s)})
