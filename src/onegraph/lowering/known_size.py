"""Whether the size of a tensor follows from the sizes that went in, or hangs on values (``nonzero``, ``x[:n]``)."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable, Iterator, Sequence

from onegraph.lowering import pure_code
from onegraph.rewrite.request import Fact

_NUMBERS = frozenset(("int", "float", "bool"))
_REDUCTIONS = frozenset(
    [
        "sum",
        "mean",
        "max",
        "min",
        "prod",
        "any",
        "all",
        "std",
        "var",
        "norm",
        "amax",
        "amin",
        "argmax",
        "argmin",
    ]
)
_PLACES = 8  # rounds until nothing new is found

Facts = Callable[[ast.expr], Sequence[Fact]]


class Sizes:
    """Which names of some statements have a size that hangs on values."""

    def __init__(self, statements: Iterable[ast.stmt], facts: Facts) -> None:
        self._facts = facts
        self._statements = list(statements)
        self.unknown: set[str] = set()
        self._counted: set[ast.AST] = set()
        for _ in range(_PLACES):
            before = len(self.unknown)
            self._counted = {
                call for s in self._statements if isinstance(s, ast.For) for call in self._once_a_trip(s)
            }
            for statement in self._statements:
                for node in ast.walk(statement):
                    self._bind(node)
            if len(self.unknown) == before:
                return

    def _bind(self, node: ast.AST) -> None:
        match node:
            case ast.Assign(targets=targets, value=value):
                plain = [t for t in targets if not isinstance(t, ast.Subscript)]
                if plain and not self.known(value):
                    self.unknown |= {n for t in plain for n in pure_code.names_stored(t)}
            case ast.AnnAssign(target=ast.Name(id=name), value=ast.expr() as value):
                self.unknown |= set() if self.known(value) else {name}
            case ast.AugAssign(target=ast.Name(id=name), value=value):
                self.unknown |= set() if self.known(value) or self._number(value) else {name}
            case ast.For(target=target, iter=iterated) if not self._counts(iterated):
                self.unknown |= pure_code.names_stored(target)
            case ast.Call(func=ast.Attribute(value=ast.Name(id=name), attr="append" | "extend" | "insert")):
                if node not in self._counted:
                    self.unknown.add(name)  # how many there are hangs on how often this runs

    def _once_a_trip(self, loop: ast.For) -> Iterator[ast.AST]:
        """The ``names.append(value)`` that every trip of a loop of known length makes once."""
        if not self.known(loop.iter) or any(isinstance(n, ast.Break | ast.Continue) for n in ast.walk(loop)):
            return
        for statement in loop.body:
            match statement:
                case ast.Expr(value=ast.Call(func=ast.Attribute(attr="append"), args=[value]) as call):
                    if self.known(value) or self._number(value):
                        yield call

    def _counts(self, node: ast.expr) -> bool:
        """``range(...)``: the loop variable is a number."""
        return isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "range"

    def known(self, node: ast.expr) -> bool:
        """Whether the size of an expression follows from what goes in."""
        match node:
            case ast.Constant():
                return True
            case ast.Name(id=name):
                return name not in self.unknown
            case ast.Attribute(value=inner):
                return self.known(inner)
            case ast.BinOp(left=left, right=right) | ast.Compare(left=left, comparators=[right]):
                return all(self.known(each) or self._number(each) for each in (left, right))
            case ast.UnaryOp(operand=inner):
                return self.known(inner)
            case ast.IfExp(body=body, orelse=orelse):
                return self.known(body) and self.known(orelse)
            case ast.Tuple(elts=parts) | ast.List(elts=parts):
                return all(map(self.known, parts))
            case ast.Subscript(value=base, slice=index):
                parts = index.elts if isinstance(index, ast.Tuple) else [index]
                return self.known(base) and all(map(self._index, parts))
            case ast.Call():
                return self._call(node)
        return False

    def _call(self, node: ast.Call) -> bool:
        name = node.func.attr if isinstance(node.func, ast.Attribute) else ""
        if name in _REDUCTIONS and not node.args and not node.keywords:
            return True  # one element
        if name in pure_code.TAKES_DATA and not (name == "where" and len(node.args) == 3):
            return False
        if isinstance(node.func, ast.Name) and node.func.id in ("int", "float", "bool", "round"):
            return all(self.known(each) and self._number(each) for each in node.args)
        base = [node.func.value] if isinstance(node.func, ast.Attribute) else []
        return all(self.known(each) for each in (*base, *node.args, *(k.value for k in node.keywords)))

    def _index(self, part: ast.expr) -> bool:
        if isinstance(part, ast.Slice):
            return all(each is None or self.known(each) for each in (part.lower, part.upper, part.step))
        if isinstance(part, ast.Constant) or self._number(part):
            return True
        facts = self._facts(part)
        return (
            bool(facts) and self.known(part) and all(f.is_tensor and f.dtype != "torch.bool" for f in facts)
        )

    def _number(self, node: ast.expr) -> bool:
        facts = self._facts(node)
        return bool(facts) and all(fact.type in _NUMBERS for fact in facts)
