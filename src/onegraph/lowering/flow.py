"""Which names a piece of code reads, binds and needs later: liveness and definite assignment on ``ast``."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

Block = Sequence[ast.stmt]
_SCOPES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.ClassDef)
_COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)


def reads(node: ast.AST | Iterable[ast.AST]) -> frozenset[str]:
    """Names that are read anywhere in the code, also by functions defined in it (free names only)."""
    return frozenset(name.id for name in loads(node))


def loads(node: ast.AST | Iterable[ast.AST]) -> Iterator[ast.Name]:
    """The ``Name`` nodes that read a name of this scope, in source order. ``x += 1`` reads ``x``."""
    for part in _parts(node):
        yield from _loads(part, frozenset())


def _loads(node: ast.AST, hidden: frozenset[str]) -> Iterator[ast.Name]:
    if isinstance(node, ast.Name):
        if isinstance(node.ctx, ast.Load | ast.Del) and node.id not in hidden:
            yield node
    elif isinstance(node, ast.AugAssign):
        if isinstance(node.target, ast.Name) and node.target.id not in hidden:
            yield node.target
        yield from _loads(node.target, hidden)
        yield from _loads(node.value, hidden)
    elif isinstance(node, _COMPREHENSIONS):
        inner = hidden | {
            n.id for g in node.generators for n in ast.walk(g.target) if isinstance(n, ast.Name)
        }
        for index, generator in enumerate(node.generators):
            yield from _loads(generator.iter, inner if index else hidden)
            for test in generator.ifs:
                yield from _loads(test, inner)
        results = [node.key, node.value] if isinstance(node, ast.DictComp) else [node.elt]
        for result in results:
            yield from _loads(result, inner)
    elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
        arguments = node.args
        outside: list[ast.AST] = [*arguments.defaults, *(d for d in arguments.kw_defaults if d is not None)]
        if not isinstance(node, ast.Lambda):
            outside += node.decorator_list
        for part in outside:
            yield from _loads(part, hidden)
        body: list[ast.AST] = [node.body] if isinstance(node, ast.Lambda) else list(node.body)
        own = {a.arg for a in ast.walk(arguments) if isinstance(a, ast.arg)} | binds(body)
        declared = {
            n for s in body for d in ast.walk(s) if isinstance(d, ast.Nonlocal | ast.Global) for n in d.names
        }
        for part in body:
            yield from _loads(part, (hidden | own) - declared)
    else:
        for child in ast.iter_child_nodes(node):
            yield from _loads(child, hidden)


def binds(node: ast.AST | Iterable[ast.AST]) -> frozenset[str]:
    """Local names that the code may bind in its own scope (walrus included; not inside functions it
    defines)."""
    found: set[str] = set()
    for part in _parts(node):
        _binds(part, found)
    return frozenset(found)


def _binds(node: ast.AST, found: set[str], target: bool = False) -> None:
    if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store | ast.Del):
        found.add(node.id)
    elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        found.add(node.name)
        return
    elif isinstance(node, ast.Lambda):
        return
    elif isinstance(node, _COMPREHENSIONS):
        found.update(n.target.id for n in ast.walk(node) if isinstance(n, ast.NamedExpr))
        return
    elif isinstance(node, ast.Import | ast.ImportFrom):
        found.update((alias.asname or alias.name).partition(".")[0] for alias in node.names)
    elif isinstance(node, ast.ExceptHandler | ast.MatchAs | ast.MatchStar) and node.name:
        found.add(node.name)
    elif isinstance(node, ast.MatchMapping) and node.rest:
        found.add(node.rest)
    for child in ast.iter_child_nodes(node):
        _binds(child, found)


def captured(function: ast.AST, before: tuple[int, int] | None = None) -> frozenset[str]:
    """Names of a function's scope that functions inside it read: they are looked up when those run, at any
    time. ``before``: only by those that are made in front of this position."""
    inner = [n for n in ast.walk(function) if isinstance(n, _SCOPES) and n is not function]
    made = [n for n in inner if before is None or (n.lineno, n.col_offset) < before]
    declared = {n for d in ast.walk(function) if isinstance(d, ast.Global | ast.Nonlocal) for n in d.names}
    return reads(made) | declared


def needed_first(block: Block) -> frozenset[str]:
    """Names that the block may read before it has bound them: what it needs from outside."""
    return Liveness().before(block, frozenset())


@dataclass
class Liveness:
    """Backward liveness over structured statements.

    ``exits`` holds what is live where ``break``/``continue`` lead to; an exception may leave from
    anywhere, so a
    handler's needs are live in the whole ``try`` body.
    """

    at_break: list[frozenset[str]] = field(default_factory=list)
    at_continue: list[frozenset[str]] = field(default_factory=list)
    after_of: dict[int, frozenset[str]] = field(default_factory=dict)  # id(statement) -> live after it

    def before(self, block: Block, after: frozenset[str]) -> frozenset[str]:
        """The names live before a block, given those live after it."""
        for statement in reversed(block):
            self.after_of[id(statement)] = after
            after = self._statement(statement, after)
        return after

    def _statement(self, node: ast.stmt, after: frozenset[str]) -> frozenset[str]:
        if isinstance(node, ast.Return | ast.Raise):
            return reads(node)
        if isinstance(node, ast.Break):
            return self.at_break[-1] if self.at_break else after
        if isinstance(node, ast.Continue):
            return self.at_continue[-1] if self.at_continue else after
        if isinstance(node, ast.If):
            return reads(node.test) | self.before(node.body, after) | self.before(node.orelse, after)
        if isinstance(node, ast.While):
            return self._loop(node.body, node.orelse, reads(node.test), frozenset(), after)
        if isinstance(node, ast.For | ast.AsyncFor):
            return reads(node.iter) | self._loop(
                node.body, node.orelse, frozenset(), binds(node.target), after
            )
        if isinstance(node, ast.With | ast.AsyncWith):
            return reads([item.context_expr for item in node.items]) | (
                self.before(node.body, after)
                - binds([item.optional_vars for item in node.items if item.optional_vars is not None])
            )
        if isinstance(node, ast.Try | ast.TryStar):
            final = self.before(node.finalbody, after)
            handlers = frozenset[str]().union(
                *(reads([h.type] if h.type else []) | self.before(h.body, final) for h in node.handlers)
            )
            body = self.before(node.body, self.before(node.orelse, final) | handlers)
            return body | handlers | final
        if isinstance(node, ast.Match):
            cases = [
                (reads([c.guard] if c.guard else []) | self.before(c.body, after)) - binds(c.pattern)
                for c in node.cases
            ]
            return reads(node.subject) | after.union(*cases)
        return (after - _surely_binds(node)) | (reads(node) - _bound_first(node))

    def _loop(
        self,
        body: Block,
        orelse: Block,
        test: frozenset[str],
        target: frozenset[str],
        after: frozenset[str],
    ) -> frozenset[str]:
        exit_ = self.before(orelse, after)
        top = exit_ | test
        while True:  # to a fixpoint: what the next pass reads is live at the end of this one
            self.at_break.append(after)
            self.at_continue.append(top)
            again = exit_ | test | (self.before(body, top) - target)
            self.at_break.pop()
            self.at_continue.pop()
            if again == top:
                return top
            top = again | top


def _surely_binds(node: ast.stmt) -> frozenset[str]:
    value = getattr(node, "value", None)
    inner = frozenset(_always_bound(value)) if isinstance(value, ast.expr) else frozenset[str]()
    if isinstance(node, ast.Assign):
        return inner | frozenset(
            n.id
            for t in node.targets
            for n in ast.walk(t)
            if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)
        )
    if isinstance(node, ast.AnnAssign) and node.value is not None and isinstance(node.target, ast.Name):
        return inner | {node.target.id}
    if isinstance(node, ast.AugAssign) and isinstance(node.target, ast.Name):
        return inner | {node.target.id}
    if isinstance(node, ast.Expr):
        return inner
    if isinstance(
        node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | ast.Import | ast.ImportFrom | ast.Delete
    ):
        return binds(node)
    return frozenset()


def _bound_first(node: ast.stmt) -> frozenset[str]:
    """Names that an expression binds by ``:=`` before it reads them."""
    value = getattr(node, "value", None)
    bound = frozenset(_always_bound(value)) if isinstance(value, ast.expr) else frozenset[str]()
    if not bound or isinstance(node, ast.AugAssign):
        return frozenset()
    firsts: dict[str, ast.Name] = {}
    for name in (n for n in ast.walk(node) if isinstance(n, ast.Name) and n.id in bound):
        known = firsts.setdefault(name.id, name)
        if (name.lineno, name.col_offset) < (known.lineno, known.col_offset):
            firsts[name.id] = name
    return frozenset(name for name, first in firsts.items() if isinstance(first.ctx, ast.Store))


def _always_bound(node: ast.expr) -> Iterator[str]:
    """Names bound by ``:=`` in an expression, whatever comes out."""
    if isinstance(node, (ast.Lambda, ast.IfExp, ast.BoolOp, *_COMPREHENSIONS)):
        return
    if isinstance(node, ast.NamedExpr):
        yield node.target.id
    if isinstance(node, ast.Compare) and len(node.comparators) > 1:
        yield from _always_bound(node.left)
        return
    for child in ast.iter_child_nodes(node):
        for part in [child.value] if isinstance(child, ast.keyword) else [child]:
            if isinstance(part, ast.expr):
                yield from _always_bound(part)


def live_after(function: ast.FunctionDef | ast.AsyncFunctionDef, statement: ast.stmt) -> frozenset[str]:
    """The local names that may still be read once ``statement`` (anywhere in ``function``) is done."""
    analysis = Liveness()
    analysis.before(function.body, frozenset())
    everywhere = captured(function)
    if any(
        isinstance(n, ast.Name) and n.id in {"locals", "vars", "eval", "exec"} for n in ast.walk(function)
    ):
        everywhere |= binds(function.body)
    return analysis.after_of[id(statement)] | everywhere


def always_leaves(block: Block) -> bool:
    """Whether the block can't be left at its end: every path returns or raises."""
    if not block:
        return False
    last = block[-1]
    if isinstance(last, ast.Return | ast.Raise):
        return True
    if isinstance(last, ast.If):
        return always_leaves(last.body) and always_leaves(last.orelse)
    if isinstance(last, ast.With | ast.AsyncWith):
        return always_leaves(last.body)
    return False


def inside(block: ast.AST | Iterable[ast.AST], *kinds: type[ast.AST]) -> Iterator[ast.AST]:
    """Nodes of the given types in the block, not inside functions or classes that it defines."""
    for part in _parts(block):
        if isinstance(part, kinds):
            yield part
        if not isinstance(part, _SCOPES):
            yield from inside(ast.iter_child_nodes(part), *kinds)


def _parts(node: ast.AST | Iterable[ast.AST]) -> Iterator[ast.AST]:
    if isinstance(node, ast.AST):
        yield node
    else:
        yield from node
