"""A loop's exits become a flag: ``break``, ``continue`` and ``return`` that a tensor decides.

The loop keeps its header, and so its number of trips; what came behind an exit is guarded::

    for layer in layers:                    running = True
        x = layer(x)                        for layer in layers:
        if x.norm() < tol:        →             if running:
            break                                   x = layer(x)
        y = y + x                               running = running & ~(x.norm() < tol)
                                                if running:
                                                    y = y + x

The text in between runs as it is, and does the same; `loop` then lowers its guards as branches.
"""

from __future__ import annotations

import ast
import math
from collections.abc import Sequence
from dataclasses import dataclass, field

from onegraph.lowering import choice, flow
from onegraph.lowering.effect_shapes import Effects
from onegraph.lowering.loop_end import is_known, limit_of, unsafe
from onegraph.lowering.loop_in_text import Exit, Loop, LoopInText, exits, tensor_exits
from onegraph.lowering.loop_lists import Lists
from onegraph.lowering.loop_numbers import Numbers, decided
from onegraph.lowering.loop_returns import Returned
from onegraph.lowering.predicate import is_tensor_test, operand_of_boolop
from onegraph.lowering.refused import Refused
from onegraph.lowering.source import operand
from onegraph.rewrite import text as edit
from onegraph.rewrite.request import Facts

FAR = 100  # trips; a limit beyond them may be infinite


@dataclass(kw_only=True)
class Exits(LoopInText):
    """Rewrites one loop of a function."""

    last_helper: str  # the name of `_last`
    stacked_helper: str  # and of `_stacked`
    rest: Sequence[ast.stmt] = ()  # behind the loop to the end of the function, where it is one block
    flags: dict[str, bool] = field(default_factory=dict)  # name of a flag that may be Python's -> its value
    first_is_free: bool = True  # no exit was met yet: on the first trip the flag is Python's
    free: list[int] = field(default_factory=list)  # ordinals of guards that the first trip meets so
    guards: int = 0
    running: str = ""
    found: str = ""  # the flag of a return, where there are breaks as well
    returned: ast.Return | None = None
    made: list[str] = field(default_factory=list)  # every flag
    staying: dict[ast.expr, bool] = field(default_factory=dict)  # outcomes on which the loop goes on
    leaving: dict[ast.expr, bool] = field(default_factory=dict)  # and on which it is left
    limit: ast.expr | None = None  # of the trips, where another call may give another one
    last: ast.stmt | None = None  # the last statement that the lines take the place of

    def text(self) -> str:
        """The lines that take the place of the loop (at indentation zero). Raises Refused."""
        loop = self.loop
        self.last = loop
        kinds = {
            type(e) for node in tensor_exits(loop, self.facts) for e in exits([*node.body, *node.orelse])
        }
        if isinstance(loop, ast.While) and is_tensor_test(self.facts, loop.test, {}):
            kinds.add(ast.Break)
        leaving = kinds & {ast.Break, ast.Return}
        if leaving:
            self.running = self.flag("running")
            self.flags[self.running] = True
        if leaving == {ast.Break, ast.Return}:
            self.found = self.flag("found")
            self.flags[self.found] = False
        self.effects = Effects(self.source.tree)
        self.numbers = Numbers(self, self.last_helper)
        self.lists = Lists(self, self.stacked_helper)
        limit = limit_of(self, self.numbers.drivers) if leaving else None
        if limit is not None and not is_known(limit):
            self.limit = limit
        armed = [self.running] if self.running else []
        header, front = self._header(armed)
        body = front + self.block(loop.body, armed, self._header_end())
        body = self.numbers.at_top + body
        setup = f"{self.running} = True\n" if self.running else ""
        setup += f"{self.found} = False\n" if self.found else ""
        setup += "".join(f"{line}\n" for line in (*self.numbers.setup, *self.lists.setup))
        for name, value in self.flags.items():
            if name not in (self.running, self.found):
                body = f"{name} = {value}\n" + body
        behind = self._behind()
        self.lists.check(self.last)
        after = "".join(f"{line}\n" for line in self.numbers.behind)
        return setup + header + edit.reindent(body or "pass\n", self.unit) + after + behind

    def flag(self, base: str) -> str:
        """A new name for a flag."""
        self.made.append(self.unused(base))
        return self.made[-1]

    # --- the frame ----------------------------------------------------------------------------------------

    def _header_end(self) -> int:
        first = self.loop.body[0]
        if edit.first_line(first) == self.head_end:
            raise Refused("the loop stands on one line", "Put its body on lines of its own.")
        return self.head_end

    def _header(self, armed: list[str]) -> tuple[str, str]:
        """The loop's header, and what its test becomes at the top of a trip."""
        loop = self.loop
        if isinstance(loop, ast.For) or not is_tensor_test(self.facts, loop.test, {}):
            if self.limit is not None and isinstance(loop, ast.While):
                endless = isinstance(loop.test, ast.Constant)
                return self._while(
                    [] if endless else [operand_of_boolop(self.source.code(loop.test), is_or=False)]
                ), ""
            rows = edit.lines(self.source.text)[loop.lineno - 1 : self._header_end()]
            return edit.reindent("".join(rows).replace("\r\n", "\n"), ""), ""
        test = self.tests.split(loop.test, {})
        if test.is_or or not test.python:
            raise Refused(
                f"`while {self.source.code(loop.test)}` has no limit that Python knows",
                "Give the loop a limit: `while ... and trips < 10`.",
            )
        codes = [ast.parse(code, mode="eval").body for code in test.python]
        if why := next((w for c in codes if (w := self._unsafe(c))), None):
            raise Refused(f"`{self.source.code(loop.test)}`: {why}", "Test it in the loop.")
        if not self._same_as_before(loop.test):
            self._require_safe(loop.test, armed)
        code = test.select_code(self.torch)
        hit = f"~{operand(code)}" if test.negated else code
        self.record(test.before, code)
        self.first_is_free = False
        return self._while(list(test.python)), f"{self.running} = {self.running} & {_grouped(hit)}\n"

    def _same_as_before(self, test: ast.expr) -> bool:
        """Whether trips that don't run ask the test that ended the loop once more, of the same values."""
        leaving = [e for e in exits(self.loop.body) if not isinstance(e, ast.Continue)]
        return not leaving and not any(
            flow.reads(part) & self.numbers.drivers
            for part in (test.values if isinstance(test, ast.BoolOp) else [test])
            if is_tensor_test(self.facts, part, {})
        )

    def _while(self, tests: list[str]) -> str:
        """The header of a ``while``: Python goes on to its limit, unless another call gives a far one."""
        if self.limit is None:
            return f"while {' and '.join(tests)}:\n"
        far, limit = _far(self.limit, self.facts), operand(self.source.code(self.limit), of="&")
        near = f"-{far} <= {limit} <= {far} or {self.running}"
        note = f"# Within {far} Python comes to the limit; before one that is farther the tensor ends the loop.\n"
        return f"{note}while {' and '.join([*tests, f'({near})']) if tests else near}:\n"

    def _behind(self) -> str:
        """``else`` of the loop, and a return that was put off."""
        loop, early = self.loop, ""
        if self.returned is not None:
            if self.returned.value is None:
                raise Refused("the loop returns None early", "Return a tensor on every path.")
            if not loop.orelse and (together := Returned(self).lines()):
                return together
            test = self.found or f"not {self.running}"
            early = f"if {test}:\n{self.unit}return {self.source.code(self.returned.value)}\n"
            self.guards += 1
        if not loop.orelse:
            return early
        lines = self.source.block(loop.orelse, above=_else_line(loop))
        if self.running and (self.found or self.returned is None):
            return self._guarded(lines, [self.running], first=False) + early
        return early + lines

    # --- the body -----------------------------------------------------------------------------------------

    def block(self, statements: Sequence[ast.stmt], armed: list[str], header: int | None) -> str:
        """The lines of a block of a trip, with the flags in ``armed`` already in force (and more behind it)."""
        code, pending = "", list[ast.stmt]()
        above = header
        for statement in statements:
            if not any(exits([statement])) or (not armed and not decided(self, statement)):
                pending.append(statement)
                continue
            code += self._segment(pending, armed, above)
            pending, above = [], None
            code += self._exit(statement, armed)
            if isinstance(statement, Exit):
                return code
        return code + self._segment(pending, armed, above)

    def _segment(self, statements: list[ast.stmt], armed: list[str], header: int | None) -> str:
        """Statements without exits: guarded where a flag is in force; those on Python numbers apart."""
        if not statements:
            return ""
        if not armed:
            return self.source.block(statements, above=header)
        code, pending = "", list[ast.stmt]()
        for statement in self.numbers.ordered(statements):
            line = self.numbers.line(statement, armed)
            if line is None:
                pending.append(statement)
                continue
            code += self._plain(pending, armed, header) + line
            pending, header = [], None
        return code + self._plain(pending, armed, header)

    def _plain(self, statements: list[ast.stmt], armed: list[str], header: int | None) -> str:
        """Guarded statements, and the appends among them behind the guard."""
        if all(isinstance(s, ast.Pass) for s in statements):
            return ""
        lines = self._under(statements, armed, header, first=self.first_is_free)
        return lines + self.lists.lines(statements, armed, first=self.first_is_free)

    def _under(
        self, statements: Sequence[ast.stmt], flags: Sequence[str], header: int | None, *, first: bool
    ) -> str:
        """The statements under flags; effects apart, under an ``if`` that is mended as one on its own."""
        code, pending = "", list[ast.stmt]()
        for statement in (*statements, None):
            shown = statement is not None and self.effects.only([statement])
            if statement is not None and not shown:
                pending.append(statement)
                continue
            if pending:
                lines = self.source.block(pending, self.lists.replaced(pending), above=header)
                code += self._guarded(lines, flags, first=first)
                pending, header = [], None
            if statement is not None:
                code += self._shown(self.source.block([statement], above=header), flags)
                header = None
        return code

    def _shown(self, lines: str, flags: Sequence[str]) -> str:
        """An effect under flags, all of them in one tensor: an op takes no bool in one trip and a tensor in another."""
        name, torch = self.unused("is_on"), self.torch
        parts = [
            f"{torch}.ones((), dtype={torch}.bool)"
        ]  # no constant, which a compiler would calculate with
        for flag in flags:
            skipped = flag.startswith("not ")
            parts.append(f"~{torch}.as_tensor({flag.removeprefix('not ')})" if skipped else flag)
        return f"{name} = {' & '.join(parts)}\nif {name}:\n" + edit.reindent(lines, self.unit)

    def _guarded(self, lines: str, armed: Sequence[str], *, first: bool) -> str:
        if first:
            self.free.append(self.guards)
        self.guards += 1
        for flag in reversed(armed):
            lines = f"if {flag}:\n" + edit.reindent(lines, self.unit)
        return lines

    def _exit(self, node: ast.stmt, armed: list[str]) -> str:
        if isinstance(node, ast.Break | ast.Continue):
            if armed and isinstance(node, ast.Break) and self.loop.orelse:
                raise Refused(
                    f"the `break` in line {node.lineno} and the `else` of the loop", "Drop the `else`."
                )
            return "break\n" if isinstance(node, ast.Break) else "continue\n"
        if isinstance(node, ast.Return):
            raise Refused(
                f"the `return` in line {node.lineno} leaves the loop whatever the tensors hold",
                "Move it behind the loop.",
            )
        if not isinstance(node, ast.If):
            word = type(node).__name__.lower()
            what = next(type(e).__name__.lower() for e in exits([node]))
            raise Refused(
                f"a `{what}` inside a `{word}` in the loop", f"Move the `{what}` out of the `{word}`."
            )
        if is_tensor_test(self.facts, node.test, {}):
            return self._tensor_exit(node, armed)
        return self._python_exit(node, armed)

    # --- exits --------------------------------------------------------------------------------------------

    def _python_exit(self, node: ast.If, armed: list[str], test: str | None = None) -> str:
        """An ``if`` that Python decides stays one, around what its arms become."""
        if armed and (why := self._unsafe(node.test)):
            raise Refused(
                f"`if {self.source.code(node.test)}` around an exit: {why}", "Nest it the other way."
            )
        code = f"if {test or self.source.code(node.test)}:\n"
        before = list(armed)
        body = self.block(node.body, inner := list(before), node.test.end_lineno)
        code += edit.reindent(body or "pass\n", self.unit)
        armed += [flag for flag in inner if flag not in armed]
        if node.orelse:
            orelse = self.block(node.orelse, inner := list(before), _else_line(node))
            code += "else:\n" + edit.reindent(orelse or "pass\n", self.unit)
            armed += [flag for flag in inner if flag not in armed]
        for flag in armed:
            if flag not in before:  # set in an arm only: it begins as Python's
                self.flags[flag.removeprefix("not ")] = not flag.startswith("not ")
        return code

    def _tensor_exit(self, node: ast.If, armed: list[str]) -> str:
        test = self.tests.split(node.test, {})
        body_leaves, else_leaves = _leaves(node.body), _leaves(node.orelse)
        if not body_leaves and not else_leaves:
            what = next(type(e).__name__.lower() for e in exits([node]))
            raise Refused(
                f"the `{what}` in line {next(exits([node])).lineno} depends on two tensor conditions in turn",
                f"Join the conditions: `if a & b: {what}`.",
            )
        if test.python:
            return self._mixed_exit(node, armed)
        code = test.select_code(self.torch)
        self.record(test.before, code)
        arm, others = (node.body, node.orelse) if body_leaves else (node.orelse, node.body)
        inverted = test.negated == body_leaves
        self.leaving |= test.when_true if body_leaves else test.when_false
        self.staying |= test.when_false if body_leaves else test.when_true
        hit = f"~{operand(code)}" if inverted else code
        return self._leave(node, arm, others, hit, node.test, armed)

    def _mixed_exit(self, node: ast.If, armed: list[str]) -> str:
        """``if python and tensor: break``, ``if python or tensor: break``."""
        assert isinstance(node.test, ast.BoolOp)
        test = self.tests.split(node.test, {})
        kinds = [is_tensor_test(self.facts, value, {}) for value in node.test.values]
        if node.orelse or not test.python or not _leaves(node.body):
            raise Refused(
                f"`{self.source.code(node.test)}` decides an exit by Python and tensor conditions",
                "Use an `if` for each, those that need no tensor outside.",
            )
        python = [value for value, tensor in zip(node.test.values, kinds, strict=True) if not tensor]
        moved = kinds != sorted(kinds)  # Python's part comes first, even if it stood behind the tensor's
        if (armed or moved) and (why := next((w for p in python if (w := self._unsafe(p))), None)):
            raise Refused(f"`{self.source.code(node.test)}`: {why}", "Test it in an `if` of its own.")
        hit = test.select_code(self.torch)
        self.record(test.before, hit)
        if not test.is_or:
            new = list(armed)
            lines = self._leave(node, node.body, [], hit, node.test, new)
            for flag in new:
                if flag not in armed:
                    self.flags[flag.removeprefix("not ")] = False
                    armed.append(flag)
            return f"if {' and '.join(test.python)}:\n" + edit.reindent(lines, self.unit)
        if len(node.body) > 1 or isinstance(node.body[-1], ast.Return):
            raise Refused(
                f"`{self.source.code(node.test)}` decides an exit by Python or tensor conditions",
                "Use an `if` for each.",
            )
        word = self._exit(node.body[-1], armed)
        python_part = f"if {' or '.join(test.python)}:\n" + edit.reindent(word, self.unit)
        return python_part + self._leave(node, node.body, [], hit, node.test, armed)

    def _leave(
        self,
        node: ast.If,
        arm: Sequence[ast.stmt],
        others: Sequence[ast.stmt],
        hit: str,
        test: ast.expr,
        armed: list[str],
    ) -> str:
        """The lines for an exit where ``hit`` holds; ``arm`` ends with it, ``others`` run where it doesn't."""
        last = arm[-1]
        assert isinstance(last, Exit)
        code = ""
        skipping = [flag.removeprefix("not ") for flag in armed if flag.startswith("not ")]
        free = self.first_is_free and not skipping
        if armed and choice.unsafe_to_evaluate(test, sized=free and self._keeps_sizes(test)):
            name = self.flag("stop" if not isinstance(last, ast.Continue) else "skipped")
            if not free:  # a value of its kind, for the trips that don't run
                code += f"{name} = {skipping[-1] if skipping else self.running}\n"
            code += self._guarded(f"{name} = {hit}\n", armed, first=free)
            hit = name
        for name in skipping:
            skipped = f"{self.torch}.as_tensor({name})" if name in self.flags else name
            hit = f"{_grouped(hit)} & ~{skipped}"
        if isinstance(last, ast.Continue):
            return code + self._skip(arm[:-1], others, hit, armed, node)
        prelude = list(arm[:-1])
        if prelude or (isinstance(last, ast.Return) and self.found):
            name = self.flag("stop")
            code += f"{name} = {self.running} & {_grouped(hit)}\n"
            hit = name
        if prelude:
            code += self._under(prelude, [name], _arm_line(node, arm), first=False)
        if isinstance(last, ast.Return):
            if self.returned is not None and ast.dump(self.returned) != ast.dump(last):
                raise Refused(
                    f"the loop returns from two places, in lines {self.returned.lineno} and {last.lineno}",
                    "Leave it by `break`, and return behind it.",
                )
            self.returned = last
            if self.found:
                code += f"{self.found} = {self.found} | {hit}\n"
        code += f"{self.running} = {self.running} & ~{operand(hit)}\n"
        self.first_is_free = False
        if others:
            code += self.block(others, armed, _arm_line(node, others))
        return code

    def _skip(
        self,
        prelude: Sequence[ast.stmt],
        others: Sequence[ast.stmt],
        hit: str,
        armed: list[str],
        node: ast.If,
    ) -> str:
        """A ``continue``: what follows in the trip runs where ``hit`` does not hold."""
        name = self.flag("skip")
        code = f"{name} = {hit}\n"
        if prelude:
            code += self._under(prelude, [*armed, name], _arm_line(node, prelude), first=False)
        armed.append(f"not {name}")
        if others:
            code += self.block(others, armed, _arm_line(node, others))
        return code

    # --- judgement ----------------------------------------------------------------------------------------

    def _unsafe(self, test: ast.expr) -> str | None:
        return unsafe(self, test, self.numbers.drivers)

    def _keeps_sizes(self, test: ast.expr) -> bool:
        """Whether the tensors that the test looks into have the same sizes on all trips."""
        for part in (n for n in ast.walk(test) if isinstance(n, ast.Subscript)):
            name = part.value.id if isinstance(part.value, ast.Name) else ""
            inside = {fact.shape for fact in self.facts.values(part.value)[0]}
            if not name or None in inside or not inside:
                return False
            before = {fact.shape for fact in self.facts.names(self.loop, [name])[name]}
            if name in flow.binds(self.loop) and inside - before:
                return False
        return True

    def _require_safe(self, test: ast.expr, armed: Sequence[str]) -> None:
        if armed and (why := choice.unsafe_to_evaluate(test)):
            raise Refused(
                f"`{self.source.code(test)}` would run once more than it does ({why})",
                "Compute it at the end of each trip.",
            )


def _leaves(block: Sequence[ast.stmt]) -> bool:
    return bool(block) and isinstance(block[-1], Exit) and not any(exits(block[:-1]))


def _else_line(node: Loop | ast.If) -> int:
    return edit.position(node.body[-1])[2]


def _arm_line(node: ast.If, arm: Sequence[ast.stmt]) -> int:
    first = arm[0] if arm else None
    if first is not None and any(first is s for s in node.body):
        return node.test.end_lineno or node.lineno
    return _else_line(node)


def _grouped(code: str) -> str:
    """The code as an operand of ``&``."""
    return operand(code, of="&")


def _far(limit: ast.expr, facts: Facts) -> int:
    """A limit that no recorded call came to. Raises Refused."""
    seen = [abs(float(f.value)) for f in facts.values(limit)[0] if f.value is not None]
    if not all(map(math.isfinite, seen)):
        raise Refused(f"`{ast.unparse(limit)}` is infinite: Python never ends the loop", "Give it a limit.")
    return max([FAR, *(math.ceil(value) for value in seen)])
