"""A loop that returns early, and the one ``return`` behind it: what they return is chosen value by value.

Where the values are tensors alone, the branch machinery does it; this is for tuples with Python numbers in them,
such as the depth at which a network was left.
"""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from onegraph.lowering.refused import Refused
from onegraph.rewrite.request import Fact

if TYPE_CHECKING:
    from onegraph.lowering.loop_exits import Exits


class Returned:
    """The two returns of one loop."""

    def __init__(self, owner: Exits) -> None:
        self.owner = owner

    def lines(self) -> str | None:
        """The statements behind the loop; None where there is nothing that needs this form."""
        owner = self.owner
        assert owner.returned is not None and owner.returned.value is not None
        last = owner.rest[-1] if len(owner.rest) == 1 else None
        if not (isinstance(last, ast.Return) and last.value is not None):
            return None
        early, late = _parts(owner.returned.value), _parts(last.value)
        if len(early) != len(late):
            return None
        kinds = [self._kind(e, f) for e, f in zip(early, late, strict=True)]
        if "number" not in kinds:
            return None
        code, values, both = "", list[str](), list[tuple[str, str, str]]()
        for kind, e, f in zip(kinds, early, late, strict=True):
            first, second = owner.source.code(e), owner.source.code(f)
            if ast.dump(e) == ast.dump(f):
                values.append(first)
            elif kind == "number":
                code += self._number(name := owner.unused("number"), first, second)
                values.append(name)
            else:
                values.append(name := owner.unused("result"))
                both.append((name, first, second))
        code += self._chosen(both)
        owner.last = last
        return f"{code}return {', '.join(values)}\n"

    def _kind(self, early: ast.expr, late: ast.expr) -> str:
        owner = self.owner
        facts = [self._facts(early, owner.leaving), self._facts(late, owner.staying)]
        if all(found and all(fact.type == "int" for fact in found) for found in facts):
            return "number"
        tensors = all(all(fact.is_tensor for fact in found) for found in facts)
        if tensors or ast.dump(early) == ast.dump(late):
            return "tensor"
        raise Refused(
            f"`{ast.unparse(early)}` is returned early, and `{ast.unparse(late)}` behind the loop: "
            "other types of Python values",
            "Return tensors on every path.",
        )

    def _facts(self, node: ast.expr, force: dict[ast.expr, bool]) -> tuple[Fact, ...]:
        """What the value is, also where no recorded call returns it."""
        if isinstance(node, ast.Constant):
            return (Fact(type(node.value).__name__),)
        facts = self.owner.facts
        return facts.values(node)[0] or facts.values(node, force=force)[0]

    def _number(self, name: str, early: str, late: str) -> str:
        """One Python number out of two: nothing of the early one is read where no trip decided."""
        owner = self.owner
        flag, last = owner.found or owner.running, owner.numbers.helper
        start = owner.flags[flag]
        kept = owner.numbers.frozen.get(early)
        if owner.found:
            pairs = f"(True, {late}), ({flag}, {early})"
        elif kept is not None:  # the values of the trips, and the one behind them
            owner.numbers.behind = [line for line in owner.numbers.behind if f"({kept})" not in line]
            pairs = f"*{kept}, ({flag}, {late})"
        else:
            pairs = f"(True, {early}), ({flag}, {late})"
        return f"{name} = {late} if {flag} is {start} else {last}([{pairs}])\n"

    def _chosen(self, both: list[tuple[str, str, str]]) -> str:
        """An ``if`` for the tensors that differ."""
        owner = self.owner
        if not both:
            return ""
        owner.guards += 1
        first = "".join(f"{owner.unit}{name} = {early}\n" for name, early, _ in both)
        second = "".join(f"{owner.unit}{name} = {late}\n" for name, _, late in both)
        flag = owner.found or f"not {owner.running}"
        return f"if {flag}:\n{first}else:\n{second}"


def _parts(value: ast.expr) -> list[ast.expr]:
    return list(value.elts) if isinstance(value, ast.Tuple) else [value]
