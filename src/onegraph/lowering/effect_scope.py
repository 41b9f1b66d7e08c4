"""Which names of a statement belong to the function around it, and which to the module."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TypeGuard

from onegraph.rewrite import text as text_

COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)


@dataclass(frozen=True, slots=True)
class Scope:
    """The function that a statement stands in. ``parents`` runs from the module's statement to the
    innermost node.
    """

    parents: tuple[ast.AST, ...]
    names: frozenset[str]  # local to the function or to a function around it

    @property
    def functions(self) -> tuple[ast.FunctionDef | ast.AsyncFunctionDef, ...]:
        """The functions around the statement, outermost first."""
        return tuple(p for p in self.parents if isinstance(p, ast.FunctionDef | ast.AsyncFunctionDef))

    @property
    def function(self) -> ast.FunctionDef | ast.AsyncFunctionDef | None:
        return self.functions[-1] if self.functions else None

    @property
    def owner(self) -> ast.ClassDef | None:
        """The class whose method the statement stands in (directly or in a nested function)."""
        return next((p for p in reversed(self.parents) if isinstance(p, ast.ClassDef)), None)

    def bindings(self, name: str) -> list[ast.AST]:
        """Every node that binds a local name: assignments, imports, arguments, loops, ..."""
        return [node for function in self.functions for node, bound in _bindings(function) if bound == name]

    def is_first_argument(self, name: str) -> bool:
        """Whether a name ("self") is the first argument of the function, and never bound again."""
        assert self.function is not None
        arguments = [*self.function.args.posonlyargs, *self.function.args.args]
        return bool(arguments) and arguments[0].arg == name and len(self.bindings(name)) == 1


def scope_of(tree: ast.Module, statement: ast.stmt) -> Scope:
    """The scope of a statement of the tree."""
    path = text_.path_at(tree, text_.span_of(statement))
    parents = path[: path.index(statement)]  # an expression of the same span may be behind it
    names: set[str] = set()
    for parent in parents:
        if isinstance(parent, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            names -= _declared_global(parent)
            names |= {bound for _, bound in _bindings(parent)} - _declared_global(parent)
    return Scope(parents, frozenset(names))


def free_names(node: ast.AST) -> set[str]:
    """The names that a node reads and does not bind itself (in a comprehension or a lambda)."""
    return {name.id for name in loads(node)}


def loads(node: ast.AST, hidden: frozenset[str] = frozenset()) -> Iterator[ast.Name]:
    """The name nodes that a node reads from outside, in source order."""
    if isinstance(node, ast.Name):
        if isinstance(node.ctx, ast.Load) and node.id not in hidden:
            yield node
        return
    if isinstance(node, ast.Lambda | ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp):
        hidden = hidden | inner_names(node)
    for child in ast.iter_child_nodes(node):
        yield from loads(child, hidden)


def stores(node: ast.AST) -> set[str]:
    """The names that a statement binds in its own scope."""
    return {bound for _, bound in _in_scope([node])}


def inner_names(node: ast.AST) -> frozenset[str]:
    """The names that a lambda or a comprehension binds for itself."""
    if isinstance(node, ast.Lambda):
        return frozenset(argument.arg for argument in _arguments(node.args))
    generators: list[ast.comprehension] = getattr(node, "generators", [])
    return frozenset(n.id for g in generators for n in ast.walk(g.target) if isinstance(n, ast.Name))


def _bindings(
    function: ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda,
) -> Iterator[tuple[ast.AST, str]]:
    for argument in _arguments(function.args):
        yield argument, argument.arg
    yield from _in_scope(function.body if isinstance(function.body, list) else [function.body])


def _arguments(arguments: ast.arguments) -> Iterator[ast.arg]:
    yield from [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]
    yield from (a for a in (arguments.vararg, arguments.kwarg) if a is not None)


def _in_scope(nodes: Iterable[ast.AST]) -> Iterator[tuple[ast.AST, str]]:
    """(binding node, name) of everything bound by the nodes, not by functions and classes inside them."""
    for node in nodes:
        match node:
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
                yield node, node.name
                continue
            case ast.Lambda():
                continue
            case ast.Import() | ast.ImportFrom():
                for alias in node.names:
                    yield node, (alias.asname or alias.name).partition(".")[0]
            case ast.Assign() | ast.AnnAssign() | ast.AugAssign() | ast.NamedExpr():
                targets = node.targets if isinstance(node, ast.Assign) else [node.target]
                for target in targets:
                    yield from ((node, n.id) for n in ast.walk(target) if _stored(n))
            case ast.For() | ast.AsyncFor():
                yield from ((node, n.id) for n in ast.walk(node.target) if _stored(n))
            case ast.withitem(optional_vars=ast.expr() as target):
                yield from ((node, n.id) for n in ast.walk(target) if _stored(n))
            case ast.ExceptHandler(name=str() as name) | ast.MatchAs(name=str() as name):
                yield node, name
            case ast.MatchStar(name=str() as name) | ast.MatchMapping(rest=str() as name):
                yield node, name
        children = list(ast.iter_child_nodes(node))
        if isinstance(node, COMPREHENSIONS):
            children = [c for c in ast.walk(node) if isinstance(c, ast.NamedExpr)]
        yield from _in_scope(children)


def _stored(node: ast.AST) -> TypeGuard[ast.Name]:
    return isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)


def _declared_global(function: ast.AST) -> set[str]:
    body = function.body if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef) else []
    return {n for s in body for g in ast.walk(s) if isinstance(g, ast.Global) for n in g.names}
