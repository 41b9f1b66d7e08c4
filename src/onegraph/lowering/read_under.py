"""A name that one side of a branch binds, and that is read only where the same flag says so again."""

from __future__ import annotations

import ast

from onegraph.lowering import flow
from onegraph.lowering.choice import called
from onegraph.lowering.place import Place


def read_only_under(place: Place, name: str, node: ast.If) -> bool:
    """Whether a name is read only where the branch's own condition, kept in a name, says that it is set."""
    flag = node.test.id if isinstance(node.test, ast.Name) else None
    names = [n for n in ast.walk(place.function) if isinstance(n, ast.Name)]
    bound = sum(n.id == flag and not isinstance(n.ctx, ast.Load) for n in names)
    if flag is None or bound > 1 or place.in_loop(node):
        return False
    under = _Under(place, flag, on_first=name in flow.binds(node.body))
    return all(
        any(under.leads(around, use) for around in place.around(use))
        for use in names
        if use.id == name and isinstance(use.ctx, ast.Load)
    )


class _Under:
    """The code that runs where a flag holds, or where it doesn't."""

    def __init__(self, place: Place, flag: str, *, on_first: bool) -> None:
        self.place, self.flag, self.on_first = place, flag, on_first

    def leads(self, around: ast.AST, use: ast.AST) -> bool:
        """Whether an ``if`` on the flag, or the choice that one became, leads to the use."""
        test, on_first = around.test if isinstance(around, ast.If) else None, self.on_first
        while isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
            test, on_first = test.operand, not on_first
        if isinstance(around, ast.If) and self._is_flag(test):
            block = around.body if on_first else around.orelse
            return any(part is use for statement in block for part in ast.walk(statement))
        if isinstance(around, ast.FunctionDef):
            calls = [n for n in ast.walk(self.place.function) if isinstance(n, ast.Call)]
            given = [n for n in calls if any(_names(argument, around.name) for argument in n.args)]
            return bool(given) and all(_names(self._side(call), around.name) for call in given)
        side = self._side(around) if isinstance(around, ast.Call) else None
        return side is not None and any(part is use for part in ast.walk(side))

    def _side(self, call: ast.Call) -> ast.expr | None:
        """What ``torch.where(flag, ...)`` or ``_cond(flag, ...)`` takes on the side."""
        chooses = called(call) == "where" or called(call).startswith("_cond")
        if not (chooses and len(call.args) == 3 and self._is_flag(call.args[0])):
            return None
        return call.args[1 if self.on_first else 2]

    def _is_flag(self, node: ast.expr | None) -> bool:
        return _names(node, self.flag)


def _names(node: ast.expr | None, name: str) -> bool:
    return isinstance(node, ast.Name) and node.id == name
