"""Lists that a loop makes longer, where a tensor ends the loop: how long one gets only the tensors say.

::

    outs = []                               outs = []
    for layer in layers:                    outs_kept = [True] * len(outs)
        x = layer(x)                        for layer in layers:
        outs.append(x * 2)          →           if running:
        if x.norm() < tol:                          x = layer(x)
            break                                   appended = x * 2
    return torch.stack(outs)                    outs.append(appended)
                                                outs_kept.append(running)
                                                ...
                                            return _stacked(outs, outs_kept)

The list gets a value on every trip, and a flag with it; a mask takes out what the program would not have appended.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from onegraph.lowering import flow
from onegraph.lowering.refused import Refused
from onegraph.rewrite import text as edit

if TYPE_CHECKING:
    from onegraph.lowering.loop_exits import Exits

_ROOM = "Write the values into a tensor with room for all trips, or stack them with `torch.stack` behind the loop."


class Lists:
    """The lists of one loop. ``helper`` is the name of `_stacked`."""

    def __init__(self, owner: Exits, helper: str) -> None:
        self.owner, self.helper = owner, helper
        self.setup: list[str] = []
        self.behind: list[edit.Edit] = []  # what the uses behind the loop become
        self._flags: dict[str, str] = {}  # list -> the list of its flags
        self._values: dict[ast.stmt, str] = {}  # append -> the name of the value in a trip
        if owner.running:
            for statement in owner.loop.body:
                if (name := _appended_to(statement)) is not None:
                    self._take(name, statement)

    def _take(self, name: str, statement: ast.stmt) -> None:
        if name not in self._flags:
            self._flags[name] = self.owner.unused(f"{name}_kept")
            self.setup.append(f"{self._flags[name]} = [True] * len({name})")
            self._uses(name)
        self._values[statement] = self.owner.unused("appended")

    # --- in a trip ------------------------------------------------------------------------------------------

    def replaced(self, statements: Sequence[ast.stmt]) -> Mapping[ast.AST, str]:
        """What the appends among guarded statements become under the guard: the value gets a name."""
        return {s: f"{self._values[s]} = {self._code(s)}\n" for s in statements if s in self._values}

    def _code(self, statement: ast.stmt) -> str:
        assert isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Call)
        return self.owner.source.code(statement.value.args[0])

    def lines(self, statements: Sequence[ast.stmt], armed: Sequence[str], *, first: bool) -> str:
        """The appends of guarded statements, behind the guard."""
        code = ""
        for statement in (s for s in statements if s in self._values):
            name = _appended_to(statement)
            assert name is not None
            if any(flag != self.owner.running for flag in armed):
                raise Refused(
                    f"`{ast.unparse(statement)}` follows a `continue`",
                    f"Append in front of it, and leave out behind the loop what should not be in `{name}`.",
                )
            if not first:
                raise Refused(
                    f"`{ast.unparse(statement)}` follows an exit, so that `{name}` may get no value at all",
                    f"Append in front of the exit, and leave the last value out behind the loop: `{name}[:-1]`.",
                )
            code += f"{name}.append({self._values[statement]})\n"
            code += f"{self._flags[name]}.append({self.owner.running})\n"
        return code

    # --- behind the loop --------------------------------------------------------------------------------------

    def _uses(self, name: str) -> None:
        """Each use of the list outside the appends. Raises Refused for one that needs its length."""
        owner = self.owner
        parents = {c: p for p in ast.walk(owner.function) for c in ast.iter_child_nodes(p)}
        end = edit.position(owner.loop)[2]
        made = 0
        for use in (n for n in ast.walk(owner.function) if isinstance(n, ast.Name) and n.id == name):
            statement = _statement(use, parents)
            if _appended_to(statement) == name and _is_owner(use, parents):
                if use.lineno > owner.loop.lineno and not any(s is statement for s in owner.loop.body):
                    raise Refused(f"`{ast.unparse(statement)}` stands in no trip's own block", _ROOM)
            elif isinstance(use.ctx, ast.Store):
                made += 1
                self._refuse_unless_list(name, statement)
            elif use.lineno > end:
                self._stacked(name, use, parents)
            elif use.lineno >= owner.loop.lineno:
                raise self._refused(name, parents[use])
        if made != 1 or any(
            _loops(n, owner.loop) for n in flow.inside(owner.function.body, ast.For, ast.While)
        ):
            raise Refused(f"`{name}` is a list that grows with the trips of two loops", _ROOM)

    def _refuse_unless_list(self, name: str, statement: ast.stmt) -> None:
        single = isinstance(statement, ast.Assign) and len(statement.targets) == 1
        own = isinstance(statement, ast.Assign) and single and isinstance(statement.value, ast.List)
        if statement.lineno > self.owner.loop.lineno:
            raise Refused(
                f"`{name}` is bound in line {statement.lineno}, and appended to in a trip",
                "Write out what is in it: `[a, b]`.",
            )
        if not own:
            raise Refused(
                f"`{name}` grows by as many values as the loop makes trips, and `{ast.unparse(statement)}` may not be "
                "a list of its own",
                f"Begin with a list of its own: `{name} = []`.",
            )

    def _stacked(self, name: str, use: ast.Name, parents: Mapping[ast.AST, ast.AST]) -> None:
        """``torch.stack(outs)`` and ``torch.cat(outs)`` take what the flags say; ``outs[-1]`` is right as it is."""
        owner, call = self.owner, parents[use]
        if _is_last(call):
            return
        function = ast.unparse(call.func) if isinstance(call, ast.Call) else ""
        whole = (
            isinstance(call, ast.Call)
            and call.args[:1] == [use]
            and not call.keywords
            and len(call.args) == 1
        )
        if not whole or function not in (f"{owner.torch}.stack", f"{owner.torch}.cat"):
            raise self._refused(name, call)
        code = f"{self.helper}({name}, {self._flags[name]})"
        self.behind.append(
            (*edit.position(call), code if function.endswith("stack") else f"{code}.flatten(0, 1)")
        )

    def check(self, last: ast.stmt) -> None:
        """Raises Refused where a use stands in a statement that the loop takes along."""
        for line, *_ in self.behind:
            if line <= edit.position(last)[2]:
                raise Refused(
                    f"the list in line {line} is read by a `return` that the loop chooses from",
                    "Give what is returned a name before the `return`.",
                )

    def _refused(self, name: str, use: ast.AST) -> Refused:
        code = ast.unparse(use).splitlines()[0]
        return Refused(
            f"`{name}` grows by as many values as the loop makes trips, and `{code}` needs to know how many",
            _ROOM,
        )


def _appended_to(statement: ast.stmt) -> str | None:
    """``outs`` of ``outs.append(value)``."""
    call = statement.value if isinstance(statement, ast.Expr) else None
    if not (
        isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute) and call.func.attr == "append"
    ):
        return None
    owner = call.func.value
    return owner.id if isinstance(owner, ast.Name) and len(call.args) == 1 and not call.keywords else None


def _is_owner(use: ast.Name, parents: Mapping[ast.AST, ast.AST]) -> bool:
    """Whether the name is that of the list that is appended to, not of what is appended."""
    parent = parents[use]
    return isinstance(parent, ast.Attribute) and parent.attr == "append"


def _is_last(node: ast.AST) -> bool:
    """``outs[-1]``"""
    return (
        isinstance(node, ast.Subscript) and ast.unparse(node.slice) == "-1" and isinstance(node.ctx, ast.Load)
    )


def _statement(node: ast.AST, parents: Mapping[ast.AST, ast.AST]) -> ast.stmt:
    while not isinstance(node, ast.stmt):
        node = parents[node]
    return node


def _loops(outer: ast.AST, inner: ast.stmt) -> bool:
    return outer is not inner and any(part is inner for part in ast.walk(outer))
