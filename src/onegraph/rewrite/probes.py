"""Instrument one function's tree so that a run records what its expressions and names were."""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch

from onegraph.rewrite import text
from onegraph.rewrite.request import UNDEFINED, Fact
from onegraph.torch_private.tensors import has_plain_storage, storage_key

VALUE, NAMES, FORCE = "__onegraph_value__", "__onegraph_names__", "__onegraph_force__"
OLD = "__onegraph_old__"
LOOP_LIMIT = 32  # evaluations of a forced predicate inside a loop: it may never end
MAX_TEXT = 80  # characters of a str constant that a fact keeps
MAX_ITEMS = 256  # of a tuple or list of ints that a fact keeps

_FSTRING: Any = (ast.JoinedStr, getattr(ast, "TemplateStr", ast.JoinedStr))
_FIELD: Any = (ast.FormattedValue, getattr(ast, "Interpolation", ast.FormattedValue))

Place = tuple[int, int, int, int]
Key = tuple[str, Place]  # type and place of a node


class Enough(BaseException):
    """Ends a run whose forced predicate would go on for ever."""


def key(node: ast.AST) -> Key:
    """What identifies a node in any tree of one text."""
    return type(node).__name__, text.position(node)


def fact(value: Any) -> Fact:
    """The metadata of one value."""
    kind = type(value)
    name = kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"
    if isinstance(value, torch.Tensor):
        return Fact(
            name,
            tuple(value.shape),
            str(value.dtype),
            str(value.device),
            value.requires_grad,
            tuple(value.stride()) if value.layout is torch.strided else None,
            storage=storage_key(value) if has_plain_storage(value) else None,
        )
    if name == "numpy.ndarray":
        return Fact(name, dtype=str(value.dtype), sizes=tuple(value.shape))
    constant = kind in (type(None), bool, int, float) or (kind is str and len(value) <= MAX_TEXT)
    return Fact(name, value=repr(value) if constant else None, items=_few_ints(value))


def _few_ints(value: Any) -> tuple[int, ...] | None:
    """A short tuple or list of ints, as sizes are given."""
    if not isinstance(value, tuple | list) or len(value) > MAX_ITEMS:
        return None
    return tuple(value) if all(type(item) is int for item in value) else None


@dataclass(slots=True)
class Record:
    """What one run saw. Facts that differ only in their storage count once, as first seen."""

    force: Mapping[Key, bool]
    values: dict[Key, dict[tuple[Any, ...], Fact]] = field(default_factory=dict)
    locals: dict[tuple[Key, bool], dict[str, dict[tuple[Any, ...], Fact]]] = field(default_factory=dict)
    wanted: dict[tuple[Key, bool], frozenset[str]] = field(
        default_factory=dict
    )  # names to record at a statement
    in_loop: set[Key] = field(default_factory=set)
    forced: Counter[Key] = field(default_factory=Counter)
    errors: list[BaseException] = field(default_factory=list)
    alive: list[Any] = field(default_factory=list)  # a storage's key must not be used again in this run

    def names_in(self) -> dict[str, Any]:
        """What the instrumented code calls."""
        return {VALUE: self.see, NAMES: self.see_names, FORCE: self.replace, OLD: self.see_old}

    def see(self, where: Key, value: Any) -> Any:
        self._add(self.values.setdefault(where, {}), value)
        return value

    def see_old(self, where: Key, owner: Any, name: str) -> None:
        """An attribute that the object itself holds; none that has to be computed."""
        own = getattr(owner, "__dict__", {})
        for held in (own, own.get("_buffers", {}), own.get("_parameters", {})):
            if name in held:
                self.see(where, held[name])
                return

    def see_names(self, where: Key, after: bool, local: Mapping[str, Any], outer: Mapping[str, Any]) -> None:
        found = self.locals.setdefault((where, after), {})
        for name, is_local in self._names(where, after):
            facts = found.setdefault(name, {})
            if name in local:
                self._add(facts, local[name])
            elif not is_local and name in outer:
                self._add(facts, outer[name])
            else:
                facts.setdefault((UNDEFINED,), Fact(UNDEFINED))

    def _names(self, where: Key, after: bool) -> Iterable[tuple[str, bool]]:
        return ((name.removeprefix("."), name.startswith(".")) for name in self.wanted[where, after])

    def _add(self, facts: dict[tuple[Any, ...], Fact], value: Any) -> None:
        seen = fact(value)
        kind = (seen.type, seen.shape, seen.dtype, seen.device, seen.requires_grad, seen.stride, seen.value)
        same = (*kind, *(sizes and len(sizes) for sizes in (seen.items, seen.sizes)))
        if same not in facts:
            facts[same] = seen
            if seen.storage is not None:
                self.alive.append(value.untyped_storage())

    def replace(self, where: Key, value: Any) -> Any:
        """The outcome in the type and shape of the predicate's value."""
        outcome = self.force[where]
        self.forced[where] += 1
        if where in self.in_loop and self.forced[where] > LOOP_LIMIT:
            raise Enough
        if isinstance(value, torch.Tensor):
            return torch.full_like(value, outcome, requires_grad=False)
        return type(value)(outcome) if isinstance(value, int | float) else outcome


def instrument(
    tree: ast.Module, functions: Iterable[Key], statements: Iterable[Key], record: Record
) -> ast.Module:
    """The tree with every expression of ``functions`` recorded, the names around ``statements``, and the
    forced predicates replaced. Top-level statements without any of it are dropped.
    """
    functions, statements = frozenset(functions), frozenset(statements)
    kept: list[ast.stmt] = [
        s for s in tree.body if isinstance(s, ast.ImportFrom) and s.module == "__future__"
    ]
    places = [where[1] for where in (*functions, *statements, *record.force)]
    for statement in tree.body:
        end = text.position(statement)[2]
        if not any(statement.lineno <= place[0] <= end for place in places):
            continue
        visitor = _Instrument(functions, statements, record)
        visitor.visit(statement)
        if visitor.changed:
            kept.append(statement)
    return ast.Module(kept, [])


class _Instrument(ast.NodeTransformer):
    def __init__(self, functions: frozenset[Key], statements: frozenset[Key], record: Record) -> None:
        self.functions = functions
        self.statements = statements
        self.record = record
        self.changed = False
        self.inside = 0  # depth of functions that are recorded
        self.loops = 0
        self.twice: frozenset[Key] = frozenset()
        self.local: frozenset[str] = frozenset()

    def visit(self, node: ast.AST) -> Any:
        if isinstance(node, (ast.pattern, ast.Slice, ast.arguments, ast.keyword, *_FIELD)):
            return self._parts(node)
        if isinstance(node, ast.expr):
            return self._expression(node)
        return self._statement(node) if isinstance(node, ast.stmt) else self.generic_visit(node)

    def _parts(self, node: Any) -> Any:
        """Of a node that itself is no value: visit what in it is one."""
        if isinstance(node, ast.pattern):
            return node
        if isinstance(node, _FIELD):
            node.value = self.visit(node.value)
            return node
        if isinstance(node, ast.arguments):
            node.defaults = [self.visit(default) for default in node.defaults]
            node.kw_defaults = [default and self.visit(default) for default in node.kw_defaults]
            return node
        self.generic_visit(node)
        return node

    def _expression(self, node: ast.expr) -> ast.expr:
        where = key(node)
        if isinstance(node, _FSTRING):
            node.values = [v if isinstance(v, ast.Constant) else self.visit(v) for v in node.values]
        else:
            was, self.inside = self.inside, self.inside + (where in self.functions)
            if was != self.inside:
                self._enter(node)
            self.generic_visit(node)
            self.inside = was
        return self._wrapped(node, where)

    def _wrapped(self, node: ast.expr, where: Key) -> ast.expr:
        loaded = isinstance(getattr(node, "ctx", None), ast.Load | None)
        sliced = isinstance(node, ast.Tuple) and any(isinstance(e, ast.Slice) for e in node.elts)
        if not loaded or sliced or isinstance(node, ast.Starred):
            return node
        result = node
        is_super = isinstance(node, ast.Name) and node.id == "super"
        if self.inside and where not in self.twice and not is_super:
            result = _call(VALUE, where, result)
            self.changed = True
        if where in self.record.force:
            if self.loops:
                self.record.in_loop.add(where)
            result = _call(FORCE, where, result)
            self.changed = True
        return ast.copy_location(result, node)

    def _statement(self, node: ast.stmt) -> Any:
        where = key(node)
        names = text.names(node) if where in self.statements else frozenset()
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            return self._function(node, where, names)
        loop = isinstance(node, ast.While | ast.For | ast.AsyncFor)
        old = self._old_value(node)
        self.loops += loop
        if isinstance(node, ast.AnnAssign):
            node.value = node.value and self.visit(node.value)
            node.target = self.visit(node.target)
        elif not isinstance(node, ast.Expr) or not isinstance(
            node.value, ast.Constant
        ):  # a docstring stays one
            self.generic_visit(node)
        self.loops -= loop
        around = self._around(node, where, names)
        return around if old is None else [old, *_listed(around)]

    def _old_value(self, node: ast.stmt) -> ast.stmt | None:
        """Records what an attribute holds before a statement changes it, under the position of the target."""
        targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
        found = [t for t in targets if isinstance(t, ast.Attribute) and isinstance(t.value, ast.Name)]
        if not found or not self.inside or not isinstance(node, ast.Assign | ast.AugAssign):
            return None
        self.changed = True
        code = "; ".join(f"{OLD}({key(t)!r}, {ast.unparse(t.value)}, {t.attr!r})" for t in found)
        statement = ast.parse(f"({code.replace('; ', ', ')})").body[0]
        for inner in ast.walk(statement):
            ast.copy_location(inner, node)
        return statement

    def _function(
        self, node: ast.FunctionDef | ast.AsyncFunctionDef, where: Key, names: frozenset[str]
    ) -> Any:
        was = self.inside, self.local, self.loops, self.twice
        node.decorator_list = [self.visit(d) for d in node.decorator_list]
        self.visit(node.args)
        if where in self.functions and not self.inside:
            self._enter(node)
            self.inside = 1
        self.loops = 0
        self.local = locals_of(node) | self.local
        node.body = [part for s in node.body for part in _listed(self.visit(s))]
        self.inside, self.local, self.loops, self.twice = was
        return self._around(node, where, names)

    def _enter(self, node: ast.AST) -> None:
        """Some nodes inside an f-string have no right place on older Pythons; what isn't unique is left
        out."""
        count = Counter(key(n) for n in ast.walk(node) if isinstance(n, ast.expr))
        self.twice = frozenset(k for k, times in count.items() if times > 1)

    def _around(self, node: ast.stmt, where: Key, names: frozenset[str]) -> Any:
        if where not in self.statements:
            return node
        self.changed = True
        asked = names | self.record.wanted.get((where, False), frozenset()) | self.local
        marked = frozenset("." + name if name in self.local else name for name in asked)
        parts: list[ast.stmt] = []
        for after in (False, True):
            self.record.wanted[where, after] = marked
            call = f"{NAMES}({where!r}, {after}, locals(), globals())"
            parts.append(ast.Expr(ast.parse(call, mode="eval").body))
        for part in parts:
            for inner in ast.walk(part):
                ast.copy_location(inner, node)
        return [parts[0], node, parts[1]]


def locals_of(function: ast.AST) -> frozenset[str]:
    """The names that a function binds itself (comprehensions' own names included)."""
    if not isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
        return frozenset()
    arguments = function.args
    every = [
        *arguments.posonlyargs,
        *arguments.args,
        *arguments.kwonlyargs,
        arguments.vararg,
        arguments.kwarg,
    ]
    found = {a.arg for a in every if a is not None}
    outer: set[str] = set()
    todo: list[ast.AST] = [function.body] if isinstance(function, ast.Lambda) else list(function.body)
    while todo:
        node = todo.pop()
        if isinstance(node, ast.stmt):
            found |= text.bound_names(node)
        if isinstance(node, ast.Global | ast.Nonlocal):
            outer |= set(node.names)
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store | ast.Del):
            found.add(node.id)
        if isinstance(node, ast.ExceptHandler | ast.MatchAs | ast.MatchStar) and node.name:
            found.add(node.name)
        if isinstance(node, ast.MatchMapping) and node.rest:
            found.add(node.rest)
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda | ast.ClassDef):
            todo += ast.iter_child_nodes(node)
    return frozenset(found - outer)


def _call(name: str, where: Key, value: ast.expr) -> ast.Call:
    place = ast.parse(repr(where), mode="eval").body
    return ast.Call(ast.Name(name, ast.Load()), [place, value], [])


def _listed(found: Any) -> list[ast.stmt]:
    return found if isinstance(found, list) else [found]
