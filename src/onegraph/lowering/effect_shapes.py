"""What counts as a host effect: statements that write, log, warn or raise and do nothing else."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator

LEVELS = frozenset(
    (
        "debug",
        "info",
        "warning",
        "warn",
        "error",
        "critical",
        "fatal",
        "exception",
        "log",
        "debug_once",
        "info_once",
        "warning_once",
        "error_once",
        "warning_advice",
        "warn_once",
        "log_once",
    )
)
WRITERS = frozenset(
    ("print", "pprint", "pp", "sys.stdout.write", "sys.stderr.write", "pprint.pprint", "pprint.pp")
)
WARNERS = frozenset(("warnings.warn", "warn", "warnings.warn_explicit"))
SINKS = frozenset(("append", "appendleft", "add", "write", "writelines", "put", "put_nowait"))


def dotted(node: ast.AST) -> str | None:
    """``a.b.c`` of names and attributes; None for anything else."""
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute):
        inner = dotted(node.value)
        return None if inner is None else f"{inner}.{node.attr}"
    return None


def call_of(statement: ast.AST | None) -> ast.Call | None:
    """The call that is the whole statement."""
    if isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Call):
        return statement.value
    return None


def first_call(statement: ast.If, node: ast.AST | None) -> ast.Call | None:
    """The effect call with which the arm of an ``if`` starts, where ``node`` is the ``if`` or in its test."""
    if node is not statement and node not in set(ast.walk(statement.test)):
        return None
    first = next((s for s in statement.body if not isinstance(s, ast.Assign | ast.Pass)), None)
    return call_of(first)


def only_effects(statement: ast.If, node: ast.AST | None) -> bool:
    """Whether nothing but effects hangs on an ``if``, where ``node`` is the ``if`` or in its test. ``statement``
    knows its parents."""
    if node is not statement and node not in set(ast.walk(statement.test)):
        return False
    module = _module_of(statement)
    return module is not None and Effects(module).only([statement]) and not _assigns(statement)


def everything_in(statement: ast.stmt) -> Iterator[ast.AST]:
    """The nodes of a statement that knows its parents, and of the module's functions that it calls."""
    module = _module_of(statement)
    effects, seen = Effects(module or ast.Module([], [])), set[str]()
    left: list[ast.stmt] = [statement]
    while left:
        for node in ast.walk(left.pop()):
            yield node
            helper = effects.helper(node) if isinstance(node, ast.Call) else None
            if helper is not None and helper.name not in seen:
                seen.add(helper.name)
                left.append(helper)


def _module_of(node: ast.AST) -> ast.Module | None:
    while (parent := getattr(node, "parent", None)) is not None:
        node = parent
    return node if isinstance(node, ast.Module) else None


def _assigns(statement: ast.If) -> bool:
    """Whether the ``if`` binds names that its function reads elsewhere."""
    made = {n.id for n in ast.walk(statement) if isinstance(n, ast.Name) and not isinstance(n.ctx, ast.Load)}
    inside, function = set(ast.walk(statement)), getattr(statement, "parent", None)
    while function is not None and not isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef):
        function = getattr(function, "parent", None)
    names = (n for n in ast.walk(function) if isinstance(n, ast.Name)) if function is not None else ()
    return any(n.id in made and isinstance(n.ctx, ast.Load) and n not in inside for n in names)


def is_print(call: ast.Call) -> bool:
    return dotted(call.func) in WRITERS


def is_warn(call: ast.Call) -> bool:
    """``warnings.warn(...)`` under its usual names."""
    return dotted(call.func) in WARNERS


def is_log(call: ast.Call) -> bool:
    """A call of a level method of something called log, logger, logging or got from getLogger."""
    function = call.func
    if not isinstance(function, ast.Attribute) or function.attr not in LEVELS or is_warn(call):
        return False
    base = function.value
    if isinstance(base, ast.Call):
        base = base.func
    name = base.attr if isinstance(base, ast.Attribute) else base.id if isinstance(base, ast.Name) else ""
    return "log" in name.lower()


def is_level_check(node: ast.AST) -> bool:
    """``log.isEnabledFor(...)`` or ``log.getEffectiveLevel()``."""
    return (
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr in ("isEnabledFor", "getEffectiveLevel", "hasHandlers")
    )


def is_sink(call: ast.Call) -> bool:
    """``NOTES.append(...)`` and the like: a value is handed to a Python container or file."""
    return isinstance(call.func, ast.Attribute) and call.func.attr in SINKS


class Effects:
    """Recognises effect statements; calls of the module's own helper functions are looked through."""

    def __init__(self, tree: ast.Module) -> None:
        self._functions = {s.name: s for s in tree.body if isinstance(s, ast.FunctionDef)}

    def only(self, body: Iterable[ast.stmt], seen: frozenset[str] = frozenset()) -> bool:
        """Whether the statements do nothing but effects, and at least one of them."""
        body = list(body)
        return all(self._allowed(s, seen) for s in body) and any(self._effect(s, seen) for s in body)

    def leaves(self, body: list[ast.stmt], seen: frozenset[str] = frozenset()) -> bool:
        """Whether the statements always end in an exception."""
        if not body:
            return False
        match body[-1]:
            case ast.Raise():
                return True
            case ast.If(body=then, orelse=otherwise):
                return self.leaves(then, seen) and self.leaves(otherwise, seen)
            case ast.Expr(value=ast.Call(func=ast.Name(id=name))) if name in self._functions:
                return name not in seen and self.leaves(self._functions[name].body, seen | {name})
        return False

    def helper(self, call: ast.Call) -> ast.FunctionDef | None:
        """The function of this module that a call names."""
        return self._functions.get(call.func.id) if isinstance(call.func, ast.Name) else None

    def _allowed(self, statement: ast.stmt, seen: frozenset[str]) -> bool:
        match statement:
            case ast.Pass() | ast.Expr(value=ast.Constant()):
                return True
            case ast.Assign(targets=targets):
                return all(isinstance(t, ast.Name) for t in targets)
            case ast.AugAssign(target=ast.Name()) | ast.AnnAssign(target=ast.Name()):
                return True
            case ast.If(body=then, orelse=otherwise):
                return all(self._allowed(s, seen) for s in [*then, *otherwise])
        return self._effect(statement, seen)

    def _effect(self, statement: ast.stmt, seen: frozenset[str]) -> bool:
        match statement:
            case ast.Raise(exc=exception):
                return exception is not None  # a bare `raise` belongs to the handler around it
            case ast.Assert():
                return True
            case ast.If(body=then, orelse=otherwise):
                return any(self._effect(s, seen) for s in [*then, *otherwise])
            case ast.Expr(value=ast.Call() as call):
                if is_print(call) or is_warn(call) or is_log(call):
                    return True
                helper = self.helper(call)
                return (
                    helper is not None
                    and helper.name not in seen
                    and self.only(helper.body, seen | {helper.name})
                )
        return False
