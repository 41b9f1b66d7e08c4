"""Random programs with tensor branches: one seed, one program, with the inputs that it is called with.

A program is the text of a module that defines ``f``, a function or an nn.Module. Statements know the kinds of the
names in scope, so that most programs run; the oracle drops those that eager itself refuses.
"""

from __future__ import annotations

import ast
import random
from collections.abc import Callable
from dataclasses import dataclass

from fuzzing.expressions import (
    BOOL,
    COUNT,
    FLAG,
    INT,
    INTEGERS,
    LIST,
    MATRIX,
    MAYBE,
    NUMBER,
    ROW,
    SCALAR,
    VECTOR,
    WHATEVER,
    Expressions,
    Scope,
)  # fmt: skip
from fuzzing.loops import Loops

HEAD = "import torch\nimport torch.nn.functional as F\nfrom torch import nn\n\n\n"
HELPER = "def scaled(value, by):\n    return value * by\n\n\n"
MODULE = """\
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(4, 4)
        self.drop = nn.Dropout(0.5)
        self.layers = nn.ModuleList([nn.Linear(4, 4) for _ in range(3)])
        self.weight = nn.Parameter(torch.linspace(-1, 1, 4))
        self.register_buffer("scale", torch.tensor([0.5, 1.0, -1.0, 2.0]))
        self.register_buffer("steps", torch.zeros((), dtype=torch.long))
        self.register_buffer("total", torch.zeros(()))
        self.last = torch.zeros(4)
        self.count = 0
        self.enabled = True
        self.seen = []

    def forward({arguments}):
{body}

f = Net(){mode}
"""
FUNCTION = "def f({arguments}):\n{body}\n"
ARGUMENTS = {"x": MATRIX, "y": MATRIX, "v": VECTOR, "k": INTEGERS, "n": INT, "a": NUMBER, "m": MAYBE}


@dataclass(frozen=True)
class Generated:
    """``text`` defines ``f``; ``arguments`` are the names of its parameters; ``random``: it may draw numbers."""

    seed: int
    text: str
    arguments: tuple[str, ...]
    random: bool


def generate(seed: int, *, loops: bool = False) -> Generated:
    """The program of a seed, always the same. ``loops``: each has one that a tensor ends."""
    return _Writer(random.Random(seed), loops).program(seed)


class _Writer:
    def __init__(self, rng: random.Random, loops: bool) -> None:
        self.rng = rng
        self.wants_loop = loops
        self.loops = Loops(self)
        self.make = Expressions(rng)
        self.made = 0
        self.branches = 0

    def program(self, seed: int) -> Generated:
        rng = self.rng
        module = rng.random() < 0.5
        extra = [name for name in "yvkna" if rng.random() < 0.3] + (["m"] if rng.random() < 0.05 else [])
        arguments = ("x", *extra)
        draws = rng.random() < 0.08
        helper = rng.random() < 0.2
        scope = Scope({name: ARGUMENTS[name] for name in arguments}, module)
        scope.helpers = frozenset({"scaled"} if helper else ())
        scope.random = draws and module
        body = self.body(scope)
        while not self.branches:
            body = self.body(scope)
        header = ", ".join((["self"] if module else []) + list(arguments))
        if module:
            mode = "" if rng.random() < 0.5 else ".eval()"
            text = MODULE.format(arguments=header, body=_indented(body, 2), mode=mode)
        else:
            text = FUNCTION.format(arguments=header, body=_indented(body, 1))
        if self.loops.silent:
            start = "    def forward" if module else "def f("
            text = text.replace(
                start, f"{start[: len(start) - len(start.lstrip())]}@torch.no_grad()\n{start}"
            )
        return Generated(seed, HEAD + (HELPER if helper else "") + text, arguments, scope.random)

    def body(self, scope: Scope) -> list[str]:
        scope = scope.copy()
        if self.wants_loop:
            self.loops.silent = self.rng.random() < 0.3
            lines = self.block(scope, self.rng.randrange(2), 0, top=True)
            lines = [line for line in lines if line != "pass"] + self.loops.loop(scope, top=True)
            lines += self.block(scope, self.rng.randrange(3), 1, top=True)
            lines = [line for line in lines if line != "pass"]
            return [*lines, self.returned(scope)]
        lines = self.block(scope, 2 + self.rng.randrange(3), 1 + (self.rng.random() < 0.3), top=True)
        return lines if lines and lines[-1].startswith("return") else [*lines, self.returned(scope)]

    # --- blocks --------------------------------------------------------------------------------------------

    def block(self, scope: Scope, count: int, depth: int, *, top: bool = False) -> list[str]:
        lines: list[str] = []
        for _ in range(count):
            lines += self.statement(scope, depth, top)
        return lines or ["pass"]

    def statement(self, scope: Scope, depth: int, top: bool) -> list[str]:
        rng = self.rng
        if depth > 0 and rng.random() < (0.5 if top else 0.25):
            return self.compound(scope, depth, top)
        simple: list[tuple[int, Callable[[Scope], list[str]]]] = [
            (8, self.assign), (3, self.augment), (1, self.unpack), (1, self.star), (1, self.walrus),
            (1, self.chained), (2, self.store), (2, self.in_place), (1, self.show), (1, self.listed),
            (1, self.number), (1, self.deleted),
        ]  # fmt: skip
        if scope.module:
            rare = [(1, self.counter), (1, self.recorded)] if top or rng.random() < 0.3 else []
            simple += [(2, self.attribute), (3, self.buffer), *rare]
        weights = [weight for weight, _ in simple]
        return rng.choices([make for _, make in simple], weights)[0](scope)

    def compound(self, scope: Scope, depth: int, top: bool) -> list[str]:
        rng = self.rng
        choices: list[tuple[int, Callable[[Scope, int], list[str]]]] = [
            (12, self.branch), (1, self.match), (2, self.python_branch), (1, self.loop), (1, self.builtin),
            (1, self.comprehension), (1, self.checked), (1, self.disagreeing), (1, self.context),
            (1, self.bound_once),
        ]  # fmt: skip
        if top:
            choices += [(2, self.early)]
        if scope.module:
            choices += [(1, self.layers)]
        weights = [weight for weight, _ in choices]
        return rng.choices([make for _, make in choices], weights)[0](scope, depth)

    # --- simple statements ---------------------------------------------------------------------------------

    def fresh(self) -> str:
        self.made += 1
        return f"h{self.made}"

    def target(self, scope: Scope, kind: str) -> str:
        known = [name for name, k in scope.names.items() if k == kind]
        name = self.rng.choice(known) if known and self.rng.random() < 0.8 else self.fresh()
        scope.fresh.discard(name)
        return name

    def assign(self, scope: Scope) -> list[str]:
        kind = self.rng.choice([MATRIX] * 8 + [SCALAR] * 2 + [ROW, VECTOR, INTEGERS, COUNT, FLAG])
        code = self.make.of(kind, scope, 2)
        name = self.target(scope, kind)
        if _bare(code) == name:
            name = self.fresh()
        scope.names[name] = kind
        if code.startswith("(") or code.endswith(".clone()"):
            scope.fresh.add(name)
        return [f"{name} = {_bare(code)}"]

    def augment(self, scope: Scope) -> list[str]:
        name = self.matrix(scope)
        return (
            [f"{name} = {name} {self.rng.choice('+-*')} {self.make.of(MATRIX, scope, 1)}"]
            if (self.rng.random() < 0.5 or name not in scope.fresh)
            else [f"{name} {self.rng.choice('+-*')}= {self.make.of(MATRIX, scope, 1)}"]
        )

    def unpack(self, scope: Scope) -> list[str]:
        values = [self.make.of(MATRIX, scope, 1) for _ in range(2)]
        names = [self.fresh(), self.target(scope, MATRIX)]
        scope.names.update(dict.fromkeys(names, MATRIX))
        return [f"{names[0]}, {names[1]} = {', '.join(values)}"]

    def star(self, scope: Scope) -> list[str]:
        values, first, rest = [self.make.of(MATRIX, scope, 1) for _ in range(3)], self.fresh(), self.fresh()
        scope.names[first] = MATRIX
        scope.names[rest] = LIST
        return [f"{first}, *{rest} = {', '.join(values)}"]

    def walrus(self, scope: Scope) -> list[str]:
        value, inner, name = self.make.of(MATRIX, scope, 1), self.fresh(), self.target(scope, MATRIX)
        scope.names[inner] = scope.names[name] = MATRIX
        return [f"{name} = ({inner} := {_bare(value)}) * 2"]

    def chained(self, scope: Scope) -> list[str]:
        value, first, second = self.make.of(MATRIX, scope, 1), self.fresh(), self.fresh()
        scope.names[first] = scope.names[second] = MATRIX
        return [f"{first} = {second} = {_bare(value)}"]

    def store(self, scope: Scope) -> list[str]:
        lines, name = self.owned(scope)
        place = self.rng.choice(["[0]", "[:, 1]", "[:1]", f"[{self.make.of('mask', scope, 0)}]"])
        value = self.rng.choice(
            [self.make.literal(), f"{name}[0] * 2" if place == "[0]" else self.make.literal()]
        )
        return [*lines, f"{name}{place} = {value}"]

    def in_place(self, scope: Scope) -> list[str]:
        lines, name = self.owned(scope)
        matrix = self.make.of(MATRIX, scope, 1)
        how = self.rng.choice(["add_({m})", "mul_({l})", "clamp_(-1, 1)", "sub_({m}.abs())"])
        return [*lines, f"{name}.{how.format(m=matrix, l=self.make.literal())}"]

    def owned(self, scope: Scope) -> tuple[list[str], str]:
        """A tensor that may be changed in place, made anew where there is none."""
        fresh = [name for name in scope.names if name in scope.fresh and scope.names[name] == MATRIX]
        if fresh and self.rng.random() < 0.6:
            return [], self.rng.choice(sorted(fresh))
        value, name = self.make.of(MATRIX, scope, 1), self.fresh()
        scope.names[name] = MATRIX
        scope.fresh.add(name)
        return [f"{name} = {value}.clone()"], name

    def show(self, scope: Scope) -> list[str]:
        number = [name for name, kind in scope.names.items() if kind in (INT, NUMBER, SCALAR)]
        text = f'f"at {{{self.rng.choice(number)}}}"' if number and self.rng.random() < 0.4 else '"here"'
        return [f"print({text})"] if self.rng.random() < 0.5 else self.assign(scope)

    def listed(self, scope: Scope) -> list[str]:
        lists = [name for name, kind in scope.names.items() if kind == LIST]
        value = self.make.of(MATRIX, scope, 1)
        if lists:
            return [f"{self.rng.choice(lists)}.append({_bare(value)})"]
        name = self.fresh()
        scope.names[name] = LIST
        return [f"{name} = [{_bare(value)}]"]

    def number(self, scope: Scope) -> list[str]:
        kind = self.rng.choice([NUMBER, INT])
        name = self.target(scope, kind) if self.rng.random() < 0.5 else self.fresh()
        code = self.make.of(kind, scope, 0)
        scope.names[name] = kind
        return [f"{name} = {code}"]

    def deleted(self, scope: Scope) -> list[str]:
        value, name = self.make.of(MATRIX, scope, 1), self.fresh()
        target = self.target(scope, MATRIX)
        scope.names[target] = MATRIX
        return [f"{name} = {_bare(value)}", f"{target} = {name} + 1", f"del {name}"]

    def attribute(self, scope: Scope) -> list[str]:
        return [f"self.last = {self.make.of(VECTOR, scope, 1)}.detach()"]

    def buffer(self, scope: Scope) -> list[str]:
        make = self.make.of
        return [self.rng.choice([
            "self.steps += 1",
            f"self.total.add_({make(SCALAR, scope, 1)}.detach())",
            f"self.scale = {make(VECTOR, scope, 1)}.detach()",
            f"self.scale.mul_({self.make.literal()})",
            f"self.total = self.total + {make(SCALAR, scope, 1)}.detach()",
            f"self.scale.copy_({make(VECTOR, scope, 1)}.detach())",
        ])]  # fmt: skip

    def counter(self, scope: Scope) -> list[str]:
        return [self.rng.choice(["self.count += 1", "self.count = 0", "self.enabled = not self.enabled"])]

    def recorded(self, scope: Scope) -> list[str]:
        return [f"self.seen.append({self.make.of(SCALAR, scope, 1)}.detach())"]

    # --- compound statements -------------------------------------------------------------------------------

    def matrix(self, scope: Scope) -> str:
        return self.rng.choice([name for name, kind in scope.names.items() if kind == MATRIX])

    def branch(self, scope: Scope, depth: int) -> list[str]:
        """``if``/``elif``/``else``: names that every arm leaves with one kind go on."""
        self.branches += 1
        rng = self.rng
        test, bound = self.test(scope)
        before = scope.copy()
        arms, ends, lines = rng.choice([1, 2, 2, 2, 3]), [], []
        for number in range(arms):
            inner = before.copy()
            head = f"if {test}:" if number == 0 else "else:"
            if number and (number < arms - 1 or rng.random() < 0.2):
                head = f"elif {self.make.condition(before, 1)}:"
            if bound and number == 0:
                inner.names[bound] = SCALAR
            lines += [head, *_indented_lines(self.block(inner, 1 + rng.randrange(2), depth - 1))]
            ends.append(inner)
            last = head
        if last != "else:":
            ends.append(before)
        _join(scope, ends)
        return lines

    def test(self, scope: Scope) -> tuple[str, str | None]:
        if self.rng.random() < 0.04:
            name = self.fresh()
            return f"({name} := {self.make.of(SCALAR, scope, 1)}) > {self.make.literal()}", name
        if self.rng.random() < 0.03:
            return self.make.of(SCALAR, scope, 1), None
        return self.make.condition(scope, 2), None

    def match(self, scope: Scope, depth: int) -> list[str]:
        self.branches += 1
        before, ends, lines = scope.copy(), [], [f"match {self.make.of(COUNT, scope, 1)}:"]
        for case in ["case 0:", self.rng.choice(["case 1 | 2:", "case 3:"]), "case _:"]:
            inner = before.copy()
            lines += ["    " + case, *_indented_lines(_indented_lines(self.block(inner, 1, depth - 1)))]
            ends.append(inner)
        _join(scope, ends)
        return lines

    def python_branch(self, scope: Scope, depth: int) -> list[str]:
        before = scope.copy()
        first, second = before.copy(), before.copy()
        lines = [
            f"if {self.make.python_condition(scope)}:",
            *_indented_lines(self.block(first, 2, depth - 1)),
        ]
        if self.rng.random() < 0.5:
            lines += ["else:", *_indented_lines(self.block(second, 1, depth - 1))]
        _join(scope, [first, second])
        return lines

    def loop(self, scope: Scope, depth: int) -> list[str]:
        inner, name = scope.copy(), self.fresh()
        inner.names[name] = INT
        lines = self.block(inner, 1, 0) + self.branch(inner, 1)
        before = scope.copy()
        _join(scope, [before, inner])
        return [f"for {name} in range({self.rng.choice('23')}):", *_indented_lines(lines)]

    def layers(self, scope: Scope, depth: int) -> list[str]:
        """A loop over modules with a branch in it."""
        self.branches += 1
        name, layer = self.matrix(scope), self.fresh()
        scope.fresh.discard(name)
        body = [f"if {self.make.condition(scope, 1)}:", f"    {name} = {layer}({name})"]
        if self.rng.random() < 0.5:
            body += ["else:", f"    {name} = {self.make.of(MATRIX, scope, 1)}"]
        return [f"for {layer} in self.layers:", *_indented_lines(body)]

    def builtin(self, scope: Scope, depth: int) -> list[str]:
        self.branches += 1
        of, name = lambda kind: self.make.of(kind, scope, 1), self.fresh()
        draw = self.rng.randrange(5)
        if draw < 2:
            key = self.rng.choice(["", "", ", key=abs"])
            values = ", ".join(of(SCALAR) for _ in range(2 + draw))
            values = f"[{values}]" if draw else values
            scope.names[name] = SCALAR
            return [f"{name} = {self.rng.choice(['max', 'min'])}({values}{key})"]
        word = self.rng.choice(["any", "all"])
        target = self.matrix(scope)
        scope.fresh.discard(target)
        values = [f"[{of(FLAG)}, {of(FLAG)}]", f"part.sum() > 0 for part in ({of(MATRIX)}, {of(MATRIX)})",
                  f"row.max() > {self.make.literal()} for row in {of(MATRIX)}[:2]"]  # fmt: skip
        extra = self.rng.choice(["", "", f" and {self.make.leaf_condition(scope, 1)}",
                                 f" and not all([{of(FLAG)}, {of(FLAG)}])"])  # fmt: skip
        return [f"if {word}({self.rng.choice(values)}){extra}:", f"    {target} = {of(MATRIX)}"]

    def comprehension(self, scope: Scope, depth: int) -> list[str]:
        """A condition on each element of a comprehension."""
        self.branches += 1
        items, name = [self.make.of(MATRIX, scope, 1) for _ in range(2)], self.fresh()
        scope.names[name] = MATRIX
        value = self.rng.choice(["p * 2 if p.sum() > 0 else p", "p if (p > 1).any() else p - 1"])
        return [f"{name} = sum([{value} for p in ({', '.join(items)})])"]

    def checked(self, scope: Scope, depth: int) -> list[str]:
        """An assert, or an exception in an arm."""
        test = self.rng.choice([f"{self.make.of(SCALAR, scope, 1)} > 30", f"torch.isnan({self.matrix(scope)}).all()",
                                f"{self.matrix(scope)}.max() > 6"])  # fmt: skip
        self.branches += 1
        if self.rng.random() < 0.4:
            return [f'assert not {test}, "too large"' if self.rng.random() < 0.5 else f"assert not ({test})"]
        name = self.rng.choice(["ValueError", "RuntimeError"])
        lines = [f"if {test}:", f'    raise {name}("out of range")']
        if self.rng.random() < 0.3:
            target = self.matrix(scope)
            lines += ["else:", f"    {target} = {self.make.of(MATRIX, scope, 1)}"]
            scope.fresh.discard(target)
        return lines

    def disagreeing(self, scope: Scope, depth: int) -> list[str]:
        """Arms that leave values of different kinds, and a use that all of them allow."""
        self.branches += 1
        name, of = self.fresh(), lambda kind: self.make.of(kind, scope, 1)
        target = self.matrix(scope)
        scope.fresh.discard(target)
        use = f"{target} = {target} * {name}"
        displays = [f"({of(MATRIX)}, {of(MATRIX)})" for _ in range(2)]
        possible = [
            (self.make.literal(), self.make.literal()), (of(MATRIX), f"{of(MATRIX)}.t().contiguous().t()"),
            (str(self.rng.randrange(3)), str(self.rng.randrange(4))), (displays[0], displays[1]),
        ]  # fmt: skip
        impossible = [  # for one graph: what comes out has no single kind
            (of(MATRIX), f"{of(MATRIX)}.double()"), (of(MATRIX), of(VECTOR)), (of(MATRIX), "None"),
            (displays[0], f"[{displays[1][1:-1]}]"), (of(SCALAR), self.make.literal()),
            (f"{{'a': {of(MATRIX)}}}", f"{{'a': {of(MATRIX)}}}"),
        ]  # fmt: skip
        first, second = self.rng.choice(possible if self.rng.random() < 0.6 else impossible)
        if second == "None":
            use = f"if {name} is not None:\n    {target} = {target} + {name}"
        elif first.startswith("{"):
            use = f"{target} = {target} * {name}['a']"
        elif _is_display(first) and _is_display(second):
            use = f"{target} = {target} * {name}[1]"
        test = self.make.condition(scope, 1)
        return [f"if {test}:", f"    {name} = {first}", "else:", f"    {name} = {second}", *use.split("\n")]

    def context(self, scope: Scope, depth: int) -> list[str]:
        inner = scope.copy()
        lines = self.branch(inner, depth - 1) if depth > 0 else self.block(inner, 1, 0)
        _join(scope, [inner])
        scope.fresh.clear()
        return ["with torch.no_grad():", *_indented_lines(lines)]

    def bound_once(self, scope: Scope, depth: int) -> list[str]:
        """A name first bound on one path, and used where the same condition holds."""
        self.branches += 1
        flag, name, target = self.fresh(), self.fresh(), self.matrix(scope)
        scope.fresh.discard(target)
        lines = [f"{flag} = {self.make.leaf_condition(scope, 1)}", f"if {flag}:",
                 f"    {name} = {self.make.of(MATRIX, scope, 1)}", f"{target} = {self.make.of(MATRIX, scope, 1)}",
                 f"if {flag}:", f"    {target} = {target} + {name}"]  # fmt: skip
        scope.names[flag] = FLAG
        return lines

    def early(self, scope: Scope, depth: int) -> list[str]:
        self.branches += 1
        inner = scope.copy()
        lines = [*self.block(inner, self.rng.randrange(2), 0)]
        lines = [line for line in lines if line != "pass"]
        value = self.make.of(MATRIX, inner, 1)
        self.result = MATRIX
        return [f"if {self.make.condition(scope, 1)}:", *_indented_lines([*lines, f"return {_bare(value)}"])]

    result: str | None = None

    def returned(self, scope: Scope) -> str:
        if self.result is not None:
            return f"return {_bare(self.make.of(MATRIX, scope, 1))}"
        usable = [name for name, kind in scope.names.items() if kind not in (WHATEVER, MAYBE, BOOL)]
        tensors = [name for name in usable if scope.names[name] == MATRIX]
        chosen = self.rng.sample(usable, min(len(usable), self.rng.choice([1, 1, 2, 3])))
        if not set(chosen) & set(tensors):
            chosen[:1] = [self.rng.choice(tensors)]
        draw = self.rng.random()
        if draw < 0.08:
            return "return {" + ", ".join(f'"{name}": {name}' for name in chosen) + "}"
        if draw < 0.14 and len(chosen) > 1:
            return f"return [{', '.join(chosen)}]"
        return f"return {', '.join(chosen)}"


def _join(scope: Scope, ends: list[Scope]) -> None:
    """What every path leaves with one kind goes on; the rest can't be used."""
    names = dict(ends[0].names)
    for end in ends[1:]:
        names = {name: kind for name, kind in names.items() if end.names.get(name) == kind}
    scope.names = names
    scope.fresh = {name for name in names if all(name in end.fresh for end in ends)}


def _is_display(code: str) -> bool:
    return isinstance(ast.parse(code, mode="eval").body, ast.Tuple | ast.List)


def _bare(code: str) -> str:
    """Without the parentheses around the whole."""
    if not code.startswith("(") or not code.endswith(")"):
        return code
    depth = 0
    for at, sign in enumerate(code):
        depth += (sign == "(") - (sign == ")")
        if depth == 0:
            return code[1:-1] if at == len(code) - 1 else code
    return code


def _indented_lines(lines: list[str]) -> list[str]:
    return [f"    {line}" for line in lines]


def _indented(lines: list[str], steps: int) -> str:
    return "".join("    " * steps + line + "\n" for line in lines).rstrip("\n") + "\n"
