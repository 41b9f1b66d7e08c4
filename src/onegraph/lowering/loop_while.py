"""A loop of which Python doesn't know the number of trips becomes ``torch.while_loop``, where no gradient flows.

::

    while (x > limit).any():                def trip(x):
        x = x * 0.5                 →           x = x * 0.5
                                                return (x,)

                                            (x,) = _while_loop(lambda x: (x > limit).any(), trip, (x,))

The backward pass of ``torch.while_loop`` is wrong (2.13: after no trip at all, and beside other values): where a
gradient may flow the loop is declined, and the helper leaves it to Python on another call that needs one.
"""

from __future__ import annotations

import ast
from collections.abc import Sequence
from dataclasses import dataclass, field

from onegraph.lowering import choice, flow, ops, state
from onegraph.lowering.aliases import sharing
from onegraph.lowering.loop_in_text import Loop, LoopInText, exits, tensor_exits
from onegraph.lowering.predicate import is_tensor_test
from onegraph.lowering.refused import Refused
from onegraph.lowering.source import operand
from onegraph.lowering.written_behind import written_behind
from onegraph.rewrite import text as edit
from onegraph.rewrite.request import UNDEFINED, Fact, Facts

MANY = 16  # trips; more of them are no longer written out one by one


def trips_unknown(loop: Loop, facts: Facts) -> bool:
    """Whether Python doesn't bound the loop, or only by many trips."""
    if isinstance(loop, ast.For):
        limit = _range_limit(loop)
        counted = limit is not None and _value(limit, facts)
        return _reads_tensor(loop, facts) or bool(counted and counted > MANY)
    if isinstance(loop.test, ast.Constant):
        return not any(_python_break(s, facts) for s in loop.body)
    if not is_tensor_test(facts, loop.test, {}):
        return False
    parts = loop.test.values if isinstance(loop.test, ast.BoolOp) else [loop.test]
    python = [part for part in parts if not is_tensor_test(facts, part, {})]
    bounds = [b for part in python if (b := _bound(part, facts)) is not None]
    return not python or min(bounds, default=0) > MANY


@dataclass(kw_only=True)
class WhileLoop(LoopInText):
    """Rewrites one loop."""

    helper: str
    trips: str
    notes: list[str] = field(default_factory=list)

    def text(self) -> str:
        """The lines that take the place of the loop (at indentation zero). Raises Refused."""
        loop = self.loop
        if loop.orelse:
            raise Refused("the `else` of a loop on a tensor", "Put its statements behind the loop.")
        body, stop = self._body()
        names = self._state(body)
        kinds = {name: self._kind(name) for name in names}
        self._judged(body, names, kinds)
        conditions = self._conditions(names, kinds)
        numbers = [n for n in names if kinds[n] == "int" and n not in self.live_after()]
        names = [*numbers, *(n for n in names if n not in numbers)]
        setup, extra_names, extra_values, extra_start = "", list[str](), list[str](), list[str]()
        if isinstance(loop, ast.For):
            counter, limit, setup = self._counted()
            extra_names.append(counter)
            extra_values.append(f"{counter} + 1")
            extra_start.append("0")
            conditions.append(f"{counter} < {limit}")
        if stop is not None:
            running = self.unused("running")
            extra_names.append(running)
            extra_values.append(stop)
            extra_start.append("True")
            conditions.insert(0, running)
        every = [*extra_names, *names]
        lines = self.source.block(body, above=self.head_end)
        values = [*extra_values, *names]
        returned = f"{values[0]}," if len(values) == 1 else ", ".join(values)
        trip = self.unused("trip")
        self._note(names, kinds)
        code = setup + f"def {trip}({', '.join(every)}):\n"
        code += edit.reindent(f"{lines}return {returned}\n", self.unit) + "\n"
        going = " & ".join(operand(c, of="&") if len(conditions) > 1 else c for c in conditions)
        inner = len(extra_names) + len(numbers)
        given = f"lambda {', '.join(every)}: {going}, {trip}, {_tuple([*extra_start, *names])}"
        call = f"{self.helper}({given}{f', inner={inner}' if inner else ''})"
        targets = [*("_" for _ in range(inner)), *names[len(numbers) :]]
        left = f"({targets[0]},)" if len(targets) == 1 else ", ".join(targets)
        code += edit.wrap_call(f"{left} = {call}").rstrip("\n") + "\n"
        return code

    # --- parts of the loop --------------------------------------------------------------------------------

    def _body(self) -> tuple[list[ast.stmt], str | None]:
        """The statements of a trip, and the code for going on where a ``break`` at its end decides."""
        body = list(self.loop.body)
        found = list(exits(body))
        if not found:
            return body, None
        last = body[-1]
        at_end = isinstance(last, ast.If) and not last.orelse and [*last.body] == found
        if not (at_end and len(found) == 1 and isinstance(found[0], ast.Break)):
            word = type(found[0]).__name__.lower()
            raise Refused(
                f"the `{word}` in line {found[0].lineno} in a loop whose trips Python can't count",
                "Put one `break` at the end of the loop, or give the loop a limit.",
            )
        assert isinstance(last, ast.If)
        test = self.tests.split(last.test, {})
        if not is_tensor_test(self.facts, last.test, {}):
            raise Refused(
                f"`{self.source.code(last.test)}` is decided by Python, in a loop that a tensor ends",
                "Put it into the test of the loop, joined by `and`: `while go_on and n < limit`.",
            )
        if test.python:
            raise Refused(
                f"`{self.source.code(last.test)}` mixes Python and tensors", "Test the tensor alone."
            )
        code = test.select_code(self.torch)
        self.record(test.before, code, endless=test.negated)
        return body[:-1], code if test.negated else f"~{operand(code)}"

    def _conditions(self, names: Sequence[str], kinds: dict[str, str]) -> list[str]:
        """What must hold for another trip, by the loop's own test."""
        loop = self.loop
        if isinstance(loop, ast.For) or isinstance(loop.test, ast.Constant):
            return []
        test = self.tests.split(loop.test, {})
        if test.is_or or (test.python and test.negated):
            raise Refused(f"`{self.source.code(loop.test)}` joins Python and tensors by `or`", "Use `and`.")
        counters = {name for name in names if kinds[name] == "int"}
        for part in loop.test.values if test.python and isinstance(loop.test, ast.BoolOp) else []:
            tensor = is_tensor_test(self.facts, part, {})
            if not tensor and not (isinstance(part, ast.Compare) and flow.reads(part) & counters):
                raise Refused(f"`{self.source.code(part)}` is decided by Python", "Test it before the loop.")
        code = test.select_code(self.torch)
        self.record(test.before, code, endless=not test.negated)
        return [f"~{operand(code)}" if test.negated else code, *test.python]

    def _counted(self) -> tuple[str, str, str]:
        """Counter, limit and the line that binds it, of a loop over ``range(n)``."""
        loop = self.loop
        assert isinstance(loop, ast.For)
        limit = _range_limit(loop)
        if limit is None or not isinstance(loop.target, ast.Name):
            raise Refused(f"`for ... in {self.source.code(loop.iter)}` over a number that a tensor gives",
                          "Loop over `range(n)`.")  # fmt: skip
        counter = loop.target.id
        if counter in self.live_after():
            raise Refused(
                f"`{counter}` is read behind the loop", f"Keep it under another name: `last = {counter}`."
            )
        self._refuse_uses(counter)
        if counter == "_":
            counter = self.unused("index")
        if isinstance(limit, ast.Constant):
            return counter, self.source.code(limit), ""
        name, inner = self.unused("limit"), _number_of(limit)
        if inner is None:
            return counter, name, f"{name} = len(range({self.source.code(limit)}))\n"
        take = (
            "int"
            if isinstance(limit, ast.Call) and isinstance(limit.func, ast.Name)
            else "lambda t: t.item()"
        )
        return counter, name, f"{name} = {self.trips}({self.source.code(inner)}, {take})\n"

    # --- what is carried ----------------------------------------------------------------------------------

    def _state(self, body: Sequence[ast.stmt]) -> list[str]:
        """The names that one trip hands to the next, or to what is behind the loop."""
        loop = self.loop
        test = flow.reads(loop.test) if isinstance(loop, ast.While) else frozenset[str]()
        wanted = flow.needed_first(body) | test | self.live_after()
        bound = flow.binds(body) | frozenset(
            key for key, c in state.changes(list(body), lambda _: self.facts).items() if not c.attribute
        )
        own = flow.binds(loop.target) if isinstance(loop, ast.For) else frozenset[str]()
        found = sorted((bound & wanted) - own)
        if not found:
            raise Refused("the loop computes nothing that is used", "Delete the loop.")
        return found

    def _kind(self, name: str) -> str:
        """ "tensor" or "int". Raises Refused for anything that changes its kind or shape from trip to trip."""
        first, last = self.loop.body[0], self.loop.body[-1]
        before = list(self.facts.names(self.loop, [name])[name])
        after = [f for f in self.facts.names(last, [name], after=True)[name] if f.type != UNDEFINED]
        after += [f for f in self.facts.names(first, [name])[name] if f.type != UNDEFINED]
        if any(f.type == UNDEFINED for f in before) or not before:
            raise Refused(
                f"`{name}` has no value before the loop", f"Give `{name}` a value of its kind there."
            )
        types = {f.type for f in (*before, *after)}
        if types == {"int"}:
            self._refuse_uses(name)
            return "int"
        if not all(f.is_tensor for f in (*before, *after)):
            raise Refused(
                f"`{name}` is a Python {_words(types)} that the loop changes", "Keep it as a tensor."
            )
        if {_meta(f) for f in after} - {_meta(f) for f in before}:
            raise Refused(
                f"`{name}` changes its shape or dtype from trip to trip",
                "Begin with a tensor of the dtype and shape that it keeps.",
            )
        if any(f.requires_grad for f in after):
            raise Refused(
                f"gradients flow through `{name}` in a loop whose trips Python can't count, or that has many",
                "Give the loop a small limit (`and trips < 10`), or run it under torch.no_grad().",
            )
        return "tensor"

    def _refuse_uses(self, name: str) -> None:
        """In the graph the number is a tensor: what needs a Python number can't have it."""
        loop = self.loop
        parents = {c: p for p in ast.walk(loop) for c in ast.iter_child_nodes(p)}
        for use in ast.walk(loop):
            if not (isinstance(use, ast.Name) and use.id == name and isinstance(use.ctx, ast.Load)):
                continue
            parent = parents[use]
            if isinstance(parent, ast.Compare) and isinstance(loop, ast.While) and _inside(parent, loop.test):
                continue
            if isinstance(parent, ast.BinOp):
                other = parent.right if parent.left is use else parent.left
                seen = self.facts.values(other)[0]
                alone = isinstance(other, ast.Constant) and type(other.value) is int
                if isinstance(parent.op, ast.Add | ast.Sub | ast.Mult) and alone:
                    grand = parents[parent]
                    if isinstance(grand, ast.Assign) and [ast.unparse(t) for t in grand.targets] == [name]:
                        continue
                if seen and all(f.shape and (f.dtype or "").startswith("torch.float") for f in seen):
                    continue
            raise Refused(
                f"`{ast.unparse(parent)}` needs `{name}` as a Python number",
                f"Keep `{name}` as a tensor, or give the loop a limit.",
            )

    def _judged(self, body: list[ast.stmt], names: Sequence[str], kinds: dict[str, str]) -> None:
        """Raises Refused on what a trip must not hold."""
        random = choice.draws_random(body, self.facts)
        if random is not None:
            raise Refused(
                f"`{ast.unparse(random.func)}` draws random numbers in each trip", "Draw before the loop."
            )
        nested = [n for n in flow.inside(body, ast.If, ast.While) if is_tensor_test(self.facts, n.test, {})]  # type: ignore[attr-defined]
        if nested:
            raise Refused(
                f"line {nested[0].lineno} decides by a tensor inside the loop",  # type: ignore[attr-defined]
                "Write the choice as torch.where.",
            )
        for key, change in state.changes(body, lambda _: self.facts).items():
            if change.attribute or key not in names:
                raise Refused(
                    f"`{key}` is changed in each trip", f"Compute it under a local name; set `{key}` behind."
                )
            if kinds[key] == "tensor" and change.in_place and not self._fresh(key):
                raise Refused(
                    f"`{key}` is changed in place in each trip, and others may see the tensor",
                    f"Loop over a copy of `{key}`, and write it back behind the loop: `{key}.copy_(result)`.",
                )

    def _note(self, names: Sequence[str], kinds: dict[str, str]) -> None:
        """What moves: gradients stay with Python; a tensor that no trip replaced comes out as a copy."""
        self.notes.append(
            "one graph where no gradient flows through the loop; else Python runs it, as before"
        )
        live = self.live_after()
        shared = [n for n in names if kinds[n] == "tensor" and n in live and not self._fresh(n)]
        for name in shared:
            same = sharing(name, self.loop, self.function, self.facts)
            if (written := written_behind(self.function, self.loop, same, self.facts)) is not None:
                raise Refused(
                    f"line {written.lineno} changes in place what `{name}` is if the loop makes no trip",
                    f"Loop over a copy with a name of its own, `copy = {name}.clone()`, or bind a new value "
                    f"in line {written.lineno}.",
                )
        if shared:
            names_ = ", ".join(f"`{n}`" for n in shared)
            self.notes.append(f"where the loop makes no trip, a copy of {names_} comes out of it")

    def _fresh(self, name: str) -> bool:
        """Whether the tensor was made in this function, right before the loop, and given to nobody."""
        values = [
            s.value
            for s in flow.inside(self.function.body, ast.Assign)
            if isinstance(s, ast.Assign) and [ast.unparse(t) for t in s.targets] == [name]
        ]
        arguments = {a.arg for a in ast.walk(self.function.args) if isinstance(a, ast.arg)}
        made = ops.VALUES | ops.CREATE
        return (
            name not in arguments
            and bool(values)
            and all(
                isinstance(v, ast.BinOp) or (isinstance(v, ast.Call) and choice.called(v) in made)
                for v in values
            )
        )


def _tuple(parts: Sequence[str]) -> str:
    return f"({parts[0]},)" if len(parts) == 1 else f"({', '.join(parts)})"


def _inside(node: ast.AST, whole: ast.AST) -> bool:
    return any(part is node for part in ast.walk(whole))


def _words(types: set[str]) -> str:
    return " or ".join(sorted(t.rpartition(".")[2] for t in types))


def _meta(fact: Fact) -> tuple[object, ...]:
    return fact.dtype, fact.device, fact.shape


def _range_limit(loop: ast.For) -> ast.expr | None:
    """``n`` of ``range(n)``."""
    call = loop.iter
    if isinstance(call, ast.Call) and isinstance(call.func, ast.Name) and call.func.id == "range":
        return call.args[0] if len(call.args) == 1 and not call.keywords else None
    return None


def _number_of(node: ast.expr) -> ast.expr | None:
    """``t`` of ``int(t)`` and ``t.item()``."""
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "int":
        return node.args[0] if len(node.args) == 1 else None
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "item":
        return node.func.value
    return None


def _reads_tensor(loop: ast.For, facts: Facts) -> bool:
    limit = _range_limit(loop)
    inner = _number_of(limit) if limit is not None else None
    return inner is not None and any(f.is_tensor for f in facts.values(inner)[0])


def needs_while(loop: Loop, facts: Facts) -> bool:
    """Whether only a loop in the graph can hold it."""
    if isinstance(loop, ast.For):
        return _reads_tensor(loop, facts)
    return trips_unknown(loop, facts) and (
        is_tensor_test(facts, loop.test, {}) or bool(tensor_exits(loop, facts))
    )


def _value(node: ast.expr, facts: Facts) -> int | None:
    if isinstance(node, ast.Constant):
        return node.value if isinstance(node.value, int) else None
    found = [f.value for f in facts.values(node)[0] if f.type == "int" and f.value is not None]
    return max((int(v) for v in found), default=None)


def _bound(test: ast.expr, facts: Facts) -> int | None:
    """The limit in ``n < limit``."""
    if isinstance(test, ast.Compare) and len(test.ops) == 1 and isinstance(test.ops[0], ast.Lt | ast.LtE):
        return _value(test.comparators[0], facts)
    return None


def _python_break(statement: ast.stmt, facts: Facts) -> bool:
    """Whether Python alone may leave the loop here: ``if n >= 3``, ``if done or n >= 3``."""
    if not isinstance(statement, ast.If):
        return False
    test = statement.test
    parts = test.values if isinstance(test, ast.BoolOp) and isinstance(test.op, ast.Or) else [test]
    leaves = any(isinstance(e, ast.Break | ast.Return) for e in exits([statement]))
    return leaves and any(not is_tensor_test(facts, part, {}) for part in parts)
