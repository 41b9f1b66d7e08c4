"""What an arm changes besides names: attributes, buffers and tensors in place; and what it must not
contain."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

from onegraph.lowering import flow
from onegraph.lowering.refused import Refused
from onegraph.rewrite.request import Facts

_EFFECTS = {"print": "print", "warn": "a warning", "warn_once": "a warning", "warning_once": "a warning"}
_LOGS = frozenset({"debug", "info", "warning", "error", "exception", "critical", "log"})
_MODULES = frozenset(
    {"torch", "F", "nn", "init", "nn.init", "nn.functional", "torch.nn.functional", "torch.nn.init"}
)
_PARTS = frozenset({"T", "mT", "H", "mH", "data", "real", "imag"})
_NOT_IN_PLACE = frozenset({"requires_grad_", "retain_grad", "register_hook"})


@dataclass
class Change:
    """An attribute or tensor that an arm changes; ``key`` is its source (``self.inv``, ``x``).

    ``writes`` are the statements that replace it whole (attribute assignment, register_buffer);
    ``in_place`` tells
    that its storage is written. ``uses`` are all nodes in the arm that mean it.
    """

    key: str
    base: ast.expr
    in_place: bool = False
    writes: list[ast.stmt] = field(default_factory=list)
    uses: list[ast.expr] = field(default_factory=list)

    @property
    def attribute(self) -> bool:
        return not isinstance(self.base, ast.Name)


def key_of(node: ast.expr) -> str | None:
    """``a.b.c`` for a chain of names; None for anything else."""
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute):
        inner = key_of(node.value)
        return f"{inner}.{node.attr}" if inner else None
    return None


def keys_read(code: ast.AST) -> frozenset[str]:
    """Names and attributes (``self.inv``) that the code reads."""
    attributes = (n for n in ast.walk(code) if isinstance(n, ast.Attribute) and isinstance(n.ctx, ast.Load))
    return flow.reads(code) | {key for node in attributes if (key := key_of(node))}


def registered(statement: ast.stmt) -> tuple[ast.expr, str, ast.expr] | None:
    """``(module, name, value)`` of ``module.register_buffer("name", value, ...)``."""
    if not (isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Call)):
        return None
    call = statement.value
    if not (isinstance(call.func, ast.Attribute) and call.func.attr == "register_buffer" and call.args):
        return None
    name = call.args[0]
    value = (
        call.args[1]
        if len(call.args) > 1
        else next((k.value for k in call.keywords if k.arg == "tensor"), None)
    )
    if isinstance(name, ast.Constant) and isinstance(name.value, str) and value is not None:
        return call.func.value, name.value, value
    return None


def memo_of(statement: ast.stmt) -> str | None:
    """The attribute that ``if not hasattr(self, "k"): self.k = ...`` makes once."""
    if not (
        isinstance(statement, ast.If) and not statement.orelse and isinstance(statement.test, ast.UnaryOp)
    ):
        return None
    call = statement.test.operand
    if not (isinstance(statement.test.op, ast.Not) and isinstance(call, ast.Call) and len(call.args) == 2):
        return None
    owner, name = call.args
    if ast.unparse(call.func) != "hasattr" or not isinstance(name, ast.Constant):
        return None
    key = f"{ast.unparse(owner)}.{name.value!s}"
    stores = {
        key_of(n)
        for n in ast.walk(statement)
        if isinstance(n, ast.Attribute) and isinstance(n.ctx, ast.Store)
    }
    return key if stores == {key} else None


def changes(arm: Sequence[ast.stmt], measured: Callable[[ast.stmt], Facts]) -> dict[str, Change]:
    """What the arm changes, in order; ``measured`` gives the facts of a statement in it, which may stand in an arm
    of its own. Raises Refused on what a tensor branch can't hold."""
    found: dict[str, Change] = {}
    for statement in _statements(arm):
        refuse(statement)
        for key, base, in_place, write in _changed_by(statement, measured(statement)):
            change = found.setdefault(key, Change(key, base))
            change.in_place |= in_place
            if write:
                change.writes.append(statement)
    if found:
        _collect_uses(arm, found)
        _refuse_hidden_reads(arm, found, measured(arm[0]))
    return found


def changed_keys(statement: ast.stmt, measured: Callable[[ast.stmt], Facts]) -> frozenset[str]:
    """The attributes, and tensors in place, that a statement and those inside it change."""
    return frozenset(
        key for part in _statements([statement]) for key, *_ in _changed_by(part, measured(part))
    )


def written_in_place(statement: ast.stmt) -> frozenset[str]:
    """What a single statement may change in place, by its text: ``x += 1``, ``x[0] = 1``, ``x.T.add_(1)``,
    ``F.relu(x, inplace=True)``."""
    written: list[ast.expr] = [statement.target] if isinstance(statement, ast.AugAssign) else []
    for node in ast.walk(statement):
        if isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Store):
            written.append(node.value)
        elif isinstance(node, ast.Call):
            written += _written_by(node)
    return frozenset(key for node in written for part in _parts_of(node) if (key := key_of(part)) is not None)


def _written_by(call: ast.Call) -> Iterator[ast.expr]:
    """What a call changes in place."""
    yield from (keyword.value for keyword in call.keywords if keyword.arg == "out")
    name = call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")
    function = not isinstance(call.func, ast.Attribute) or key_of(call.func.value) in _MODULES
    if name.endswith("_") and not name.endswith("__"):
        yield from call.args[:1] if function else [call.func]
    elif any(keyword.arg == "inplace" for keyword in call.keywords):
        yield from call.args[:1]


def _parts_of(node: ast.expr) -> Iterator[ast.expr]:
    """The expression, and the tensor of which it is a part or a view."""
    while True:
        yield node
        if isinstance(node, ast.Subscript):
            node = node.value
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            node = node.func.value
        elif isinstance(node, ast.Attribute) and (node.attr in _PARTS or node.attr.endswith("_")):
            node = node.value
        else:
            return


def refuse(statement: ast.stmt) -> None:
    """Raises Refused for a statement that has no place in a branch of the graph."""
    if isinstance(statement, ast.Break | ast.Continue):
        word = "break" if isinstance(statement, ast.Break) else "continue"
        raise Refused(
            f"`{word}` inside a tensor branch leaves a Python loop",
            "Give the loop a fixed number of rounds and select the value of each with torch.where.",
        )
    if isinstance(statement, ast.Raise | ast.Assert):
        word = "raise" if isinstance(statement, ast.Raise) else "assert"
        raise Refused(f"`{word}` inside a tensor branch", "Move the check in front of the branch.")
    if isinstance(statement, ast.Global | ast.Nonlocal):
        raise Refused("a tensor branch writes a global or outer name", "Return the value instead.")
    if isinstance(statement, ast.Delete) and not all(isinstance(t, ast.Name) for t in statement.targets):
        raise Refused("`del` of more than a name inside a tensor branch", "Move the `del` behind the branch.")
    if isinstance(statement, ast.Try | ast.TryStar):
        raise Refused("`try` inside a tensor branch", "Move the `try` around the branch.")
    if isinstance(statement, ast.While):
        raise Refused("`while` inside a tensor branch", "Give the loop a fixed number of rounds.")
    if isinstance(statement, ast.FunctionDef) and only_computes(statement):
        return
    if isinstance(
        statement, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | ast.Import | ast.ImportFrom
    ):
        raise Refused("a definition or import inside a tensor branch", "Move it in front of the branch.")
    for node in flow.inside(statement, ast.Yield, ast.YieldFrom, ast.Await):
        word = "await" if isinstance(node, ast.Await) else "yield"
        raise Refused(f"`{word}` inside a tensor branch", "Move it out of the branch.")


def only_computes(function: ast.FunctionDef) -> bool:
    """Whether a function, such as the arm of a branch that is lowered already, changes nothing but what it binds."""
    arguments = {a.arg for a in ast.walk(function.args) if isinstance(a, ast.arg)}
    stored = {
        key_of(n) for n in ast.walk(function) if isinstance(n, ast.Attribute) and isinstance(n.ctx, ast.Store)
    }
    own = flow.binds(function.body) | arguments
    written = frozenset[str]().union(*(written_in_place(s) for s in function.body))
    held = flow.inside(
        function.body,
        ast.Expr,
        ast.Raise,
        ast.Assert,
        ast.Yield,
        ast.YieldFrom,
        ast.Global,
        ast.Nonlocal,
        ast.Import,
    )
    calls = [s for s in held if not (isinstance(s, ast.Expr) and written_in_place(s) & own)]
    inner = [n for n in flow.inside(function.body, ast.FunctionDef) if isinstance(n, ast.FunctionDef)]
    return not (stored or calls or function.decorator_list or written - own) and all(
        map(only_computes, inner)
    )


def _statements(block: Sequence[ast.stmt]) -> Iterator[ast.stmt]:
    for statement in block:
        yield statement
        if isinstance(statement, ast.FunctionDef):
            continue
        for name in ("body", "orelse", "finalbody"):
            yield from _statements(getattr(statement, name, []))
        for case in getattr(statement, "cases", []):
            yield from _statements(case.body)


def _changed_by(statement: ast.stmt, facts: Facts) -> Iterator[tuple[str, ast.expr, bool, bool]]:
    """``(key, node, in place, replaces it whole)`` for each thing that the statement changes."""
    if found := registered(statement):
        owner, name, _ = found
        key = key_of(owner)
        if key is None:
            raise Refused(
                f"`{ast.unparse(owner)}.register_buffer` inside a tensor branch", "Name the module first."
            )
        yield f"{key}.{name}", ast.Attribute(owner, name, ast.Load()), False, True
        return
    if isinstance(statement, ast.Assign | ast.AnnAssign | ast.AugAssign):
        targets = statement.targets if isinstance(statement, ast.Assign) else [statement.target]
        for target in targets:
            yield from _target(statement, target, facts)
    elif isinstance(statement, ast.Expr):
        yield from _call(statement, facts)


def _target(
    statement: ast.stmt, target: ast.expr, facts: Facts
) -> Iterator[tuple[str, ast.expr, bool, bool]]:
    if isinstance(target, ast.Tuple | ast.List):
        for element in target.elts:
            yield from _target(statement, element, facts)
    elif isinstance(target, ast.Starred):
        yield from _target(statement, target.value, facts)
    elif isinstance(target, ast.Attribute):
        key = key_of(target)
        if key is None:
            raise Refused(
                f"`{ast.unparse(target)}` is written inside a tensor branch", "Name the object first."
            )
        in_place = isinstance(statement, ast.AugAssign)
        old = facts.values(target)[0]
        if old and not any(fact.is_tensor or fact.type.endswith("NoneType") for fact in old):
            raise Refused(
                f"`{key}` is a Python {old[0].type.rpartition('.')[2]} that a tensor decides",
                f"Keep `{key}` as a tensor (a buffer), or change it outside the branch.",
            )
        yield key, target, in_place, not in_place
    elif isinstance(target, ast.Subscript):
        key = key_of(target.value)
        seen = facts.values(target.value)[0]
        if key is None or any(not fact.is_tensor for fact in seen):
            raise Refused(
                f"`{ast.unparse(target)}` is written inside a tensor branch",
                "Only tensors can be written there.",
            )
        yield key, target.value, True, False
    elif (
        isinstance(target, ast.Name)
        and isinstance(statement, ast.AugAssign)
        and _is_tensor_name(target, statement, facts)
    ):
        yield target.id, target, True, False


def _is_tensor_name(target: ast.Name, statement: ast.stmt, facts: Facts) -> bool:
    return any(fact.is_tensor for fact in facts.names(statement, [target.id])[target.id])


def _call(statement: ast.Expr, facts: Facts) -> Iterator[tuple[str, ast.expr, bool, bool]]:
    value = statement.value
    if isinstance(value, ast.Constant):
        return
    code = ast.unparse(value)
    if not isinstance(value, ast.Call):
        return
    name = value.func.attr if isinstance(value.func, ast.Attribute) else ast.unparse(value.func)
    if name in _EFFECTS or name in _LOGS:
        what = _EFFECTS.get(name, "a log call")
        raise Refused(f"{what} inside a tensor branch: `{code}`", "Move it out of the branch, or drop it.")
    root: ast.expr = value
    in_place = False
    while isinstance(root, ast.Call) and isinstance(root.func, ast.Attribute):
        method = root.func.attr
        in_place |= method.endswith("_") and not method.endswith("__") and method not in _NOT_IN_PLACE
        root = root.func.value
    key = key_of(root)
    if in_place and key is not None and any(fact.is_tensor for fact in facts.values(root)[0]):
        yield key, root, True, False
        return
    raise Refused(
        f"`{code}` is called for its effect inside a tensor branch", "Move the call out of the branch."
    )


def _collect_uses(arm: Sequence[ast.stmt], found: dict[str, Change]) -> None:
    for node in (n for statement in arm for n in ast.walk(statement)):
        if isinstance(node, ast.Attribute | ast.Name) and (change := found.get(key_of(node) or "")):
            change.uses.append(node)


def _refuse_hidden_reads(arm: Sequence[ast.stmt], found: dict[str, Change], facts: Facts) -> None:
    """A method called behind a write could read the attribute that isn't written yet."""
    written = [change for change in found.values() if change.attribute]
    if not written:
        return
    first = min([n.lineno for c in written for n in c.writes] + [n.lineno for c in written for n in c.uses])
    owners = {c.key.rpartition(".")[0] for c in found.values() if c.attribute}
    for node in (n for statement in arm for n in ast.walk(statement)):
        if not isinstance(node, ast.Call) or node.lineno <= first:
            continue
        given = [key_of(a) for a in node.args]
        bound = isinstance(node.func, ast.Attribute) and key_of(node.func.value) in owners
        if bound:  # a submodule (self.linear) is no method: it doesn't see the attributes of its parent
            bound = all("method" in fact.type for fact in facts.values(node.func)[0])
        if (bound and not node.func.attr == "register_buffer") or any(g in owners for g in given):  # type: ignore[attr-defined]
            raise Refused(
                f"`{ast.unparse(node)}` may read an attribute that the tensor branch has just written",
                "Call it behind the branch.",
            )
