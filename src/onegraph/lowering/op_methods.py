"""Methods that an op calls: of the class itself, where they only compute and don't look at their object.

The op stands outside of the class and has no object, so it calls ``Model.positions(None, ...)``. That is the method of
an object whose class does not override it, which is asked where the op is called.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from onegraph.lowering import pure_code
from onegraph.lowering.effect_scope import Scope, scope_of
from onegraph.lowering.refused import Refused
from onegraph.rewrite import text as text_


@dataclass(frozen=True, slots=True)
class Method:
    """``self.name(first, ...)``."""

    call: ast.Call
    owner: str  # the class
    object: str  # what the method calls its object
    name: str
    static: bool

    @property
    def nodes(self) -> tuple[ast.AST, ...]:
        """What names the method in the call."""
        assert isinstance(self.call.func, ast.Attribute)
        return self.call.func, self.call.func.value

    @property
    def asked(self) -> str:
        """Whether it is the method of the class, as an expression."""
        return f"type({self.object}).{self.name} is {self.owner}.{self.name}"

    def replaced(self) -> dict[ast.AST, str]:
        """Nodes and the text that takes their place in the op. Raises Refused."""
        if self.static:
            return {self.call.func: f"{self.owner}.{self.name}"}
        if not self.call.args or not isinstance(self.call.args[0], ast.Name | ast.Constant):
            raise Refused(f"`{self.name}` gets no plain value first.", "Give it a name, and pass that first.")
        first = self.call.args[0]
        return {self.call.func: f"{self.owner}.{self.name}", first: f"None, {ast.unparse(first)}"}


def own_methods(tree: ast.Module, scope: Scope, statements: Iterable[ast.stmt]) -> list[Method]:
    """The calls of methods that the statements may make in an op."""
    function, owner = scope.function, scope.owner
    if function is None or owner is None or owner not in tree.body or function not in owner.body:
        return []
    if not function.args.args or any(ast.unparse(d) == "staticmethod" for d in function.decorator_list):
        return []
    this, found = function.args.args[0].arg, []
    for node in (n for s in statements for n in ast.walk(s)):
        match node:
            case ast.Call(func=ast.Attribute(value=ast.Name(id=name), attr=attr)) if name == this:
                method = next(
                    (m for m in owner.body if isinstance(m, ast.FunctionDef) and m.name == attr), None
                )
                if method is not None and _only_computes(tree, method):
                    found.append(Method(node, owner.name, this, attr, bool(method.decorator_list)))
    return found


def _only_computes(tree: ast.Module, method: ast.FunctionDef) -> bool:
    """Whether a method only computes with its arguments, and does not look at its object."""
    body = _without_docstring(method.body)
    if [ast.unparse(d) for d in method.decorator_list] not in ([], ["staticmethod"]) or not body:
        return False
    arguments = method.args
    if arguments.vararg or arguments.kwarg or not isinstance(body[-1], ast.Return):
        return False
    if not method.decorator_list:
        this = arguments.args[0].arg if arguments.args else ""
        if any(isinstance(n, ast.Name) and n.id == this for s in body for n in ast.walk(s)):
            return False
    names = {a.arg for a in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs)}
    try:
        pure_code.check(tree, body, scope_of(tree, body[0]).names, may_return=True)
    except Refused:
        return False
    written = [pure_code.root_of(place) for place in pure_code.written_roots(body)]
    return not any(isinstance(root, ast.Name) and root.id in names for root in written)


def _without_docstring(body: Sequence[ast.stmt]) -> Sequence[ast.stmt]:
    first = body[0]
    documented = isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant)
    return body[1:] if documented else body


def asked_of(methods: Iterable[Method]) -> str:
    """The condition under which an op that calls them is right; "" where there are none to ask for."""
    return " and ".join(dict.fromkeys(method.asked for method in methods if not method.static))


def guarded(text: str, statements: Sequence[ast.stmt], call: str, asked: str) -> str:
    """``call``, or the statements themselves where a method is overridden; for the place of the last statement."""
    unit = text_.indent_unit(text)
    rows = "".join(text_.block_of(text, s, s) for s in statements)
    return f"if {asked}:\n{unit}{call}\nelse:\n{text_.reindent(rows, unit)}"
