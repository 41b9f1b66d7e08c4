"""Python numbers carried as 0-dim tensors: where one goes in a function, and what must change on its way.

`carry` follows numbers forward from where they become tensors, through assignments, branches and loops, and
checks every use against the rules in `numbers`. It either gives the text that keeps the meaning exactly, or
raises `NotAlike` at the first use that only a Python number can serve (an index, a size, a condition, a text,
a return value, ...).
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace

from onegraph.lowering import number_helper, numbers
from onegraph.lowering.inserts import Inserts
from onegraph.lowering.number_calls import Calls
from onegraph.lowering.number_index import Indices
from onegraph.lowering.number_ops import Operators
from onegraph.lowering.number_uses import Bound, NotAlike, bound_in
from onegraph.lowering.numbers import Carried
from onegraph.rewrite import text as source
from onegraph.rewrite.request import Facts

Env = dict[str, Carried | None]  # None: carried in ways that don't fit together; any use is declined
Function = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda


@dataclass(frozen=True, slots=True)
class Root:
    """An expression that gives a number now and a 0-dim tensor after the repair, and the edits that make it
    one."""

    carried: Carried
    edits: tuple[source.Edit, ...]


def carry(
    text: str,
    function: Function,
    facts: Facts,
    *,
    roots: Mapping[ast.expr, Root] | None = None,
    after: Mapping[ast.stmt, Mapping[str, Carried]] | None = None,
) -> str:
    """The text in which numbers travel as 0-dim tensors through ``function``.

    ``roots`` are expressions that become tensors; ``after`` gives names that a statement (lowered by someone
    else) leaves as tensors. Raises NotAlike.
    """
    mine = roots or {}
    if earlier := _earlier(text, function, facts):
        try:
            return _Flow(text, function, facts, {**earlier, **mine}, after or {}).run()
        except NotAlike:
            pass  # what an earlier repair wrote is then a tensor like any other
    return _Flow(text, function, facts, mine, after or {}).run()


def _earlier(text: str, function: Function, facts: Facts) -> dict[ast.expr, Root]:
    """The numbers that earlier repairs have made tensors."""
    name, found = number_helper.names_in(text)["_number"], dict[ast.expr, Root]()
    for node in ast.walk(function):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == name:
            kind = numbers.of_type(ast.unparse(node.args[1]))
            seen = facts.values(node)[0]
            devices = {fact.device for fact in seen}
            if kind is not None and len(devices) == 1 and all(fact.is_tensor for fact in seen):
                found[node] = Root(Carried(kind, devices.pop() or ""), ())
    return found


@dataclass(slots=True)
class _Loop:
    breaks: list[Env] = field(default_factory=list)
    continues: list[Env] = field(default_factory=list)


class _Flow:
    """One forward pass over the statements of a function; expressions are checked by `Operators`."""

    def __init__(
        self,
        text: str,
        function: Function,
        facts: Facts,
        roots: Mapping[ast.expr, Root],
        after: Mapping[ast.stmt, Mapping[str, Carried]],
    ) -> None:
        self.function, self.facts, self.roots, self.after = function, facts, roots, after
        self.inserts = Inserts(text)
        self.operators = Operators(facts, self.inserts, function)
        self.indices = Indices(self.operators)
        self.calls = Calls(self.operators, self.inserts, function)
        self.loops: list[_Loop] = []
        self.tries: list[Env] = []
        self.ever: set[str] = set()  # names that carry a number somewhere
        self.seen: set[ast.expr] = set()  # roots that were met on the way
        self.decides = False  # whether a number decides a condition

    def run(self) -> str:
        if isinstance(self.function, ast.Lambda):
            if self.expr(self.function.body, {}):
                raise NotAlike(self.function.body, Bound.RETURN)
        else:
            self.block(self.function.body, {})
        self.check_inner_functions()
        for root in self.roots.keys() - self.seen:
            raise NotAlike(root, Bound.OTHER)
        mended = self.inserts.apply(edit for root in self.roots.values() for edit in root.edits)
        mended = source.ensure_torch_import(mended)[0] if self.operators.names_torch else mended
        return number_helper.complete(mended, self.operators.helpers)

    def check_inner_functions(self) -> None:
        for node in ast.walk(self.function):
            if node is self.function:
                continue
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda | ast.ClassDef):
                for inner in ast.walk(node):
                    if isinstance(inner, ast.Name) and inner.id in self.ever - bound_in(node):
                        raise NotAlike(inner, Bound.INNER)
            elif isinstance(node, ast.Global | ast.Nonlocal) and self.ever & set(node.names):
                raise NotAlike(node, Bound.STORED)

    # --- statements ------------------------------------------------------------

    def block(self, body: Iterable[ast.stmt], env: Env) -> Env | None:
        """The names after a block; None where its end isn't reached."""
        state: Env | None = env
        for statement in body:
            assert state is not None
            state = self.statement(statement, state)
            if state is None:
                return None
            for name, carried in self.after.get(statement, {}).items():
                self.bind(state, name, carried)
            for collected in self.tries:
                _join_into(collected, state)
        return state

    def statement(self, node: ast.stmt, env: Env) -> Env | None:
        match node:
            case ast.Assign():
                self.assign(node.targets, node.value, env)
            case ast.AnnAssign(value=ast.expr() as value):
                self.assign([node.target], value, env)
            case ast.AugAssign():
                self.augmented(node, env)
            case ast.Return(value=ast.expr() as value):
                self.returned(value, env)
                return None
            case ast.Return() | ast.Raise():
                self.children(node, env, Bound.RAISED)
                return None
            case ast.If():
                self.test(node.test, env)
                return _join(self.block(node.body, dict(env)), self.block(node.orelse, dict(env)))
            case ast.For() | ast.AsyncFor():
                self.forbid(node.iter, env, Bound.LOOP)
                return self.loop(node, env, set(_names(node.target)))
            case ast.While():
                return self.loop(node, env, set())
            case ast.Break():
                self.loops[-1].breaks.append(dict(env))
                return None
            case ast.Continue():
                self.loops[-1].continues.append(dict(env))
                return None
            case ast.With() | ast.AsyncWith():
                for item in node.items:
                    self.forbid(item.context_expr, env, Bound.CALL)
                    for name in _names(item.optional_vars):
                        env.pop(name, None)
                return self.block(node.body, env)
            case ast.Try() | ast.TryStar():
                return self.guarded(node, env)
            case ast.Match():
                self.forbid(node.subject, env, Bound.CONDITION)
                for case in node.cases:
                    if case.guard is not None:
                        self.forbid(case.guard, dict(env), Bound.CONDITION)
                ends = [self.block(case.body, dict(env)) for case in node.cases]
                return _join(env, *ends)
            case ast.Delete():
                for name in _names(node):
                    env.pop(name, None)
            case ast.Expr():
                self.expr(node.value, env)
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
                env.pop(node.name, None)  # what it reads is checked once for all, at the end
            case ast.Import() | ast.ImportFrom():
                for alias in node.names:
                    env.pop((alias.asname or alias.name).partition(".")[0], None)
            case _:
                self.children(node, env, Bound.CONDITION if isinstance(node, ast.Assert) else Bound.OTHER)
        return env

    def loop(self, node: ast.For | ast.AsyncFor | ast.While, env: Env, targets: set[str]) -> Env | None:
        state = env
        while True:
            start = {name: carried for name, carried in state.items() if name not in targets}
            if isinstance(node, ast.While):
                self.forbid(node.test, start, Bound.CONDITION)
            self.loops.append(_Loop())
            end = self.block(node.body, dict(start))
            loop = self.loops.pop()
            joined = _join(state, end, *loop.continues)
            assert joined is not None
            if joined == state:
                return _join(self.block(node.orelse, dict(state)), *loop.breaks)
            state = joined

    def guarded(self, node: ast.Try | ast.TryStar, env: Env) -> Env | None:
        self.tries.append(dict(env))
        end = self.block(node.body, dict(env))
        raised = self.tries.pop()
        if end is not None:
            end = self.block(node.orelse, end)
        ends = [end, *(self.block(handler.body, dict(raised)) for handler in node.handlers)]
        if not node.finalbody:
            return _join(*ends)
        final = self.block(node.finalbody, _join(raised, *ends) or {})
        return final if _join(*ends) is not None else None

    def assign(self, targets: list[ast.expr], value: ast.expr, env: Env) -> None:
        if isinstance(value, ast.Tuple | ast.List) and all(
            isinstance(t, ast.Tuple | ast.List) and len(t.elts) == len(value.elts) for t in targets
        ):
            held: list[Carried | None] = [self.expr(element, env) for element in value.elts]
            pairs = [
                (element, carried)
                for target in targets
                if isinstance(target, ast.Tuple | ast.List)
                for element, carried in zip(target.elts, held, strict=True)
            ]
        else:
            carried = self.expr(value, env)
            pairs = [(target, carried) for target in targets]
        for target, carried in pairs:
            self.store(target, carried, value, env)

    def store(self, target: ast.expr, carried: Carried | None, value: ast.expr, env: Env) -> None:
        if isinstance(target, ast.Name):
            self.bind(env, target.id, carried)
        elif carried is None:
            for name in _names(target, stored=True):
                env.pop(name, None)
            if isinstance(target, ast.Subscript):
                self.subscript(target, env)
            else:
                self.children(target, env, Bound.INDEX)
        elif isinstance(target, ast.Subscript):
            self.children(target, env, Bound.INDEX)
            self.operators.fill(target, carried)
        else:
            raise NotAlike(value, Bound.STORED)

    def bind(self, env: Env, name: str, carried: Carried | None) -> None:
        if carried is None:
            env.pop(name, None)
        else:
            self.ever.add(name)
            env[name] = carried

    def augmented(self, node: ast.AugAssign, env: Env) -> None:
        value = self.expr(node.value, env)
        if not isinstance(node.target, ast.Name):
            self.children(node.target, env, Bound.INDEX)
            if value is not None:
                self.operators.in_place(node, value)
            return
        held = self.read(node.target, env, target_of=node)
        if held is None and value is None:
            return
        if held is None and value is not None and self.operators.is_tensor_name(node):
            self.operators.in_place(node, value)
            return
        result = self.operators.binary(node, node.target, held, node.op, node.value, value, statement=node)
        self.bind(env, node.target.id, result)

    # --- expressions -----------------------------------------------------------

    def expr(self, node: ast.expr, env: Env) -> Carried | None:
        """What the expression carries; None where it is no carried number."""
        if node in self.roots:
            self.seen.add(node)
            self.children(node, env, Bound.CALL)
            return self.roots[node].carried
        match node:
            case ast.Name():
                return self.read(node, env)
            case ast.NamedExpr():
                value = self.expr(node.value, env)
                self.bind(env, node.target.id, value)
                return value
            case ast.BinOp():
                left, right = self.expr(node.left, env), self.expr(node.right, env)
                return self.operators.binary(node, node.left, left, node.op, node.right, right)
            case ast.UnaryOp():
                return self.operators.unary(node, self.expr(node.operand, env))
            case ast.Compare():
                values = [self.expr(part, env) for part in (node.left, *node.comparators)]
                return self.operators.compare(node, values)
            case ast.IfExp():
                self.test(node.test, env)
                body, orelse = dict(env), dict(env)
                result = self.operators.choice(
                    node, self.expr(node.body, body), self.expr(node.orelse, orelse)
                )
                env.clear()
                env.update(_join(body, orelse) or {})
                return result
            case ast.Call():
                return self.call(node, env)
            case ast.Subscript():
                return self.subscript(node, env)
            case ast.ListComp() | ast.SetComp() | ast.GeneratorExp() | ast.DictComp():
                self.comprehension(node, env)
            case ast.Lambda():
                pass  # what it reads is checked once for all, at the end
            case _:
                self.children(node, env, _BOUND_BY.get(type(node), Bound.OTHER))
        return None

    def test(self, node: ast.expr, env: Env) -> None:
        """A condition: a tensor without dimensions is as true as the number in it."""
        if isinstance(node, ast.BoolOp):
            for value in node.values:
                self.test(value, env)
        elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
            self.test(node.operand, env)
        elif self.expr(node, env) is not None:
            self.decides = True

    def subscript(self, node: ast.Subscript, env: Env) -> Carried | None:
        """``tensor[number]``, read or written: with a tensor of one index, where the dimension is dropped again. An
        element of a list of numbers is a carried number."""
        self.inserts.clear(node)
        self.forbid(node.value, env, Bound.INDEX)
        parts = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
        held = {part: self.expr(part, env) for part in parts if not isinstance(part, ast.Slice)}
        for part in parts:
            if isinstance(part, ast.Slice):
                self.children(part, env, Bound.INDEX)
        indices = {part: carried for part, carried in held.items() if carried is not None}
        return self.indices.index(node, parts, indices) if indices else None

    def call(self, node: ast.Call, env: Env) -> Carried | None:
        if isinstance(node.func, ast.Attribute):
            held = self.expr(node.func.value, env)
            if held is not None:
                return self.calls.on_number(node, node.func, held)
        else:
            self.forbid(node.func, env, Bound.CALL)
        values: dict[ast.expr, Carried] = {}
        for argument in [*node.args, *(keyword.value for keyword in node.keywords)]:
            carried = self.expr(argument, env)
            if carried is not None:
                values[argument] = carried
        return self.calls.call(node, values) if values else None

    def comprehension(
        self, node: ast.ListComp | ast.SetComp | ast.GeneratorExp | ast.DictComp, env: Env
    ) -> None:
        inner = dict(env)
        for generator in node.generators:
            self.forbid(generator.iter, inner, Bound.LOOP)
            for name in _names(generator.target):
                inner.pop(name, None)
            for test in generator.ifs:
                self.forbid(test, inner, Bound.CONDITION)
        parts = (node.key, node.value) if isinstance(node, ast.DictComp) else (node.elt,)
        for part in parts:
            self.forbid(part, inner, Bound.COLLECTED)

    def read(self, node: ast.Name, env: Env, target_of: ast.AugAssign | None = None) -> Carried | None:
        if node.id not in env:
            return None
        carried = env[node.id]
        if carried is None:
            raise NotAlike(node, Bound.PATHS)
        if not carried.certain:
            self.operators.check_plain(node, target_of)
        return carried

    def children(self, node: ast.AST, env: Env, bound: Bound) -> None:
        """The expressions directly in a node; none of them may be carried."""
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.expr):
                self.forbid(child, env, bound)
            elif not isinstance(child, ast.stmt):
                self.children(child, env, bound)

    def returned(self, node: ast.expr, env: Env) -> None:
        """A return value, and what a tuple, list or dict in it holds."""
        if isinstance(node, ast.Tuple | ast.List | ast.Set | ast.Dict):
            for child in ast.iter_child_nodes(node):
                if isinstance(child, ast.expr):
                    self.returned(child, env)
        else:
            self.forbid(node, env, Bound.RETURN)

    def forbid(self, node: ast.expr, env: Env, bound: Bound) -> None:
        if self.expr(node, env) is not None:
            raise NotAlike(node, bound)


_BOUND_BY: dict[type[ast.expr], Bound] = {
    ast.BoolOp: Bound.CONDITION,
    ast.Subscript: Bound.INDEX,
    ast.Slice: Bound.INDEX,
    ast.JoinedStr: Bound.TEXT,
    ast.FormattedValue: Bound.TEXT,
    ast.Tuple: Bound.COLLECTED,
    ast.List: Bound.COLLECTED,
    ast.Set: Bound.COLLECTED,
    ast.Dict: Bound.COLLECTED,
    ast.Attribute: Bound.ATTRIBUTE,
    ast.Yield: Bound.RETURN,
    ast.YieldFrom: Bound.RETURN,
    ast.Await: Bound.RETURN,
    ast.Starred: Bound.CALL,
}


def _names(node: ast.AST | None, *, stored: bool = False) -> Iterator[str]:
    if node is not None:
        for inner in ast.walk(node):
            if isinstance(inner, ast.Name) and (not stored or isinstance(inner.ctx, ast.Store)):
                yield inner.id


def _join(*envs: Env | None) -> Env | None:
    """What holds on every path that gets here."""
    reached = [env for env in envs if env is not None]
    if not reached:
        return None
    joined = dict(reached[0])
    for env in reached[1:]:
        _join_into(joined, env)
    return joined


def _join_into(into: Env, env: Env) -> None:
    for name in into.keys() | env.keys():
        if name in into and name in env:
            left, right = into[name], env[name]
            into[name] = numbers.join(left, right) if left and right else None
        else:
            only = into[name] if name in into else env[name]
            into[name] = replace(only, certain=False) if only else None


__all__ = ["Bound", "NotAlike", "Root", "carry"]
