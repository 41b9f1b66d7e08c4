"""The select form: both sides as expressions, and ``torch.where`` between them."""

from __future__ import annotations

import ast
import struct
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from onegraph.lowering import flow, state, wording
from onegraph.lowering.choice import Hazard
from onegraph.lowering.parts import RETURN, Agreed, Branch, Out, Side
from onegraph.lowering.predicate import Force, is_tensor_test
from onegraph.lowering.source import operand
from onegraph.rewrite import text as edit

if TYPE_CHECKING:
    from onegraph.lowering.branch import Lowering

_SIGNS: dict[type[ast.operator], str] = {
    ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.Div: "/", ast.FloorDiv: "//", ast.Mod: "%", ast.Pow: "**",
    ast.MatMult: "@", ast.BitAnd: "&", ast.BitOr: "|", ast.BitXor: "^", ast.LShift: "<<", ast.RShift: ">>",
}  # fmt: skip


@dataclass
class Selected:
    """``values[key]`` are the codes on the two sides, one pair for each element of a returned tuple."""

    values: dict[str, list[tuple[str, str]]]
    before: list[str] = field(default_factory=list)  # lines of names that the sides bind for themselves
    safe: dict[str, tuple[str, bool]] = field(
        default_factory=dict
    )  # name -> (safe name, used on the first side)


@dataclass
class _Value:
    codes: list[str]
    why: str | None = None  # why torch.where can't take it
    needs: frozenset[str] = frozenset()  # names of the side that the code reads


class _Stop(Exception):
    pass


class Selection:
    """Builds the select form of the branches of one function."""

    def __init__(self, lowering: Lowering) -> None:
        self.lowering = lowering

    def hazard(self, node: ast.expr, force: Force) -> Hazard | None:
        """Why the expression can't be evaluated for nothing; tensor branches inside it are judged by their
        parts."""
        if isinstance(node, ast.IfExp) and is_tensor_test(self.lowering.facts, node.test, force):
            test = self.lowering.tests.split(node.test, force)
            if not test.selectable:
                return Hazard("a Python value may decide inside")
            return self.hazard(node.body, {**force, **test.when_true}) or self.hazard(
                node.orelse, {**force, **test.when_false}
            )
        return self.lowering.choice.hazard(node, force)

    def of(self, branch: Branch, outs: Sequence[Out]) -> Selected | str:
        """The select form for some of the things that a branch makes, or why there is none."""
        keys = {out.key for out in outs}
        selected = Selected({out.key: [] for out in outs})
        runs = []
        sides = (branch.first, branch.second)
        for side, other in (sides, sides[::-1]):
            run = _Run(self.lowering, branch, side, other, keys, selected)
            try:
                run.statements()
            except _Stop as stop:
                return str(stop)
            runs.append(run)
        for out in outs:
            if out.in_place and any(
                out.key in side.changes and not _augmented(side, out.key) for side in sides
            ):
                return f"`{out.key}` is changed in place"
            first, second = (run.final(out.key) for run in runs)
            for value in (first, second):
                if value.why:
                    return value.why
            if len(first.codes) != len(second.codes):
                return "the sides return different numbers of values"
            kinds = out.kinds or [Agreed()] * len(first.codes)
            if len(kinds) != len(first.codes):
                kinds = [Agreed()] * len(first.codes)
            for a, b, kind in zip(first.codes, second.codes, kinds, strict=True):
                if kind.number and (why := self._misused(branch, out, kind.number)):
                    return why
                selected.values[out.key].append(self.numbers((a, b), kind))
        for run in runs:
            selected.before += run.needed_lines(keys)
        codes = "\n".join(
            [*selected.before, *(c for pairs in selected.values.values() for p in pairs for c in p)]
        )
        read = flow.reads(ast.parse(codes))
        selected.safe = {name: safe for name, safe in selected.safe.items() if safe[0] in read}
        return selected

    def _misused(self, branch: Branch, out: Out, number: str) -> str | None:
        root = self.lowering.place.root
        use = self.lowering.place.number_misused(out.key, root, number, self.lowering.facts)
        if use is None:
            return None
        return f"as a tensor it would change `{ast.unparse(use).splitlines()[0]}`"

    def numbers(self, codes: Sequence[str], kind: Agreed) -> tuple[str, str]:
        """Python numbers keep double precision: ``torch.where`` would round them to the default dtype."""
        first, second = codes
        if kind.number != "float" or all(_exact(code) for code in codes):
            return first, second
        torch = self.lowering.torch
        wrapped = [
            code if code.startswith(f"{torch}.where(") else f"{torch}.tensor({code}, dtype={torch}.float64)"
            for code in codes
        ]
        return wrapped[0], wrapped[1]

    def flag(self, branch: Branch) -> tuple[str, str]:
        """A name for the predicate of ``torch.where``, and the line that binds it ("" where it has one)."""
        predicate = branch.test.select_code(self.lowering.torch)
        if isinstance(ast.parse(predicate, mode="eval").body, ast.Name | ast.Attribute):
            return predicate, ""
        name = self.lowering.unused(wording.flag(branch.test.leaves))
        return name, f"{name} = {predicate}\n"

    def written(
        self, branch: Branch, outs: Sequence[Out], selected: Selected, flag: str | None = None
    ) -> str:
        """The statements of the select form, at indentation zero. ``flag`` is the name of the predicate."""
        torch = self.lowering.torch
        pairs = [pair for out in outs for pair in selected.values[out.key]]
        uses = sum(a != b for a, b in pairs) + len(selected.safe)
        lines = ""
        predicate = flag or branch.test.select_code(torch)
        if (uses > 1 or (uses and len(pairs) > 1)) and flag is None:
            predicate, lines = self.flag(branch)
        if uses:
            self.lowering.record(branch.test, predicate)
        for name, (safe, on_first) in selected.safe.items():
            a, b = (name, "1.0") if on_first else ("1.0", name)
            lines += f"{safe} = {torch}.where({predicate}, {a}, {b})\n"
        lines += "".join(selected.before)
        targets, codes = [], []
        for out in outs:
            for a, b in selected.values[out.key]:
                targets.append(out)
                codes.append(self.lowering.where(predicate, a, b, tensors=not out.number))
        if outs[0].key == RETURN:
            return lines + edit.wrap_call(f"return {', '.join(codes)}") + "\n"
        bound = [out.key for out in targets]
        if not _crossing(bound, codes):
            return lines + "".join(edit.wrap_call(o.assigned(c)) for o, c in zip(targets, codes, strict=True))
        if not any(out.in_place or out.attribute for out in targets):
            return lines + edit.wrap_call(f"{', '.join(bound)} = {', '.join(codes)}") + "\n"
        names = [self.lowering.unused(f"new_{key.rpartition('.')[2]}") for key in bound]
        lines += "".join(
            edit.wrap_call(f"{name} = {code}") + "\n" for name, code in zip(names, codes, strict=True)
        )
        return lines + "".join(out.assigned(name) for out, name in zip(targets, names, strict=True))


class _Run:
    """Runs one side symbolically: what each name and attribute holds at its end, as code."""

    def __init__(
        self, lowering: Lowering, branch: Branch, side: Side, other: Side, keys: set[str], selected: Selected
    ) -> None:
        self.lowering, self.branch, self.side, self.other = lowering, branch, side, other
        self.keys, self.selected = keys, selected
        self.values: dict[str, _Value] = {}
        self.lines: list[tuple[str, str, frozenset[str], str | None]] = []  # name, line, needs, why not

    def statements(self) -> None:
        for index, statement in enumerate(self.side.statements):
            self._statement(statement, self.side.statements[index + 1 :])

    def final(self, key: str) -> _Value:
        """What the key holds at the end of the side; its old value where the side leaves it alone."""
        value = self.values.get(key)
        if value is None:
            return _Value([self.lowering.fillers.get(key, key)])
        for name, _, _, why in self._needed(value.needs):
            if why:
                return _Value(value.codes, f"{why} (`{name}`)", value.needs)
        return value

    def needed_lines(self, keys: set[str]) -> list[str]:
        """The lines of helper names that the values read, in order."""
        needs = frozenset[str]().union(*(v.needs for k, v in self.values.items() if k in keys))
        return [line for _, line, _, _ in self._needed(needs)]

    def _needed(self, needs: frozenset[str]) -> list[tuple[str, str, frozenset[str], str | None]]:
        found = []
        for entry in reversed(self.lines):
            if entry[0] in needs:
                found.append(entry)
                needs |= entry[2]
        return found[::-1]

    def _statement(self, statement: ast.stmt, rest: Sequence[ast.stmt]) -> None:
        lowering = self.lowering
        if isinstance(statement, ast.Pass | ast.Delete) or (
            isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)
        ):
            return
        if isinstance(statement, ast.Return) and statement.value is not None:
            parts = statement.value.elts if isinstance(statement.value, ast.Tuple) else [statement.value]
            values = [self._evaluate(part) for part in parts]
            self.values[RETURN] = _Value(
                [v.codes[0] for v in values],
                next((v.why for v in values if v.why), None),
                frozenset().union(*(v.needs for v in values)),
            )
            return
        if isinstance(statement, ast.If) and is_tensor_test(lowering.facts, statement.test, self.side.force):
            self._nested(statement)
            return
        inner = [n.target.id for n in ast.walk(statement) if isinstance(n, ast.NamedExpr)]
        target = _target(statement)
        if target is None or inner:
            self._poison(statement)
            return
        key, node = target
        value = self._evaluate(node)
        if isinstance(statement, ast.AugAssign):
            old = self.values.get(key, _Value([key]))
            sign = _SIGNS[type(statement.op)]
            value = _Value(
                [f"{operand(old.codes[0])} {sign} {operand(value.codes[0])}"],
                value.why or old.why,
                value.needs | old.needs,
            )
            if not isinstance(statement.op, ast.Add | ast.Sub) and not value.why:
                value.why = self._augmented_hazard(statement)
        if key in self.keys or "." in key or key in self._outs():
            if self._read_often(key, rest) and not _is_simple(value.codes[0]):
                value = _Value(value.codes, f"`{key}` is used more than once on its side", value.needs)
            self.values[key] = value
        else:
            self._bind(statement, key, value)

    def _outs(self) -> frozenset[str]:
        return self.lowering.place.live_after(self.branch.node)

    def _bind(self, statement: ast.stmt, key: str, value: _Value) -> None:
        """A name of the side's own becomes a line in front of the select, if nobody else means that name."""
        test = getattr(self.branch.node, "test", None)
        strangers = flow.reads(self.other.statements) | flow.binds(self.other.statements)
        strangers |= flow.reads(test) if test is not None else frozenset()
        why = value.why
        if key in strangers or any(entry[0] == key for entry in self.lines):
            why = f"`{key}` means something else on the other side"
        line = self.lowering.source.block([statement], self.lowering.renamed)
        needs = value.needs - {key}
        if not isinstance(statement, ast.Assign | ast.AnnAssign) or value.codes[
            0
        ] != self.lowering.source.code(
            statement.value  # type: ignore[arg-type]
        ):
            line = f"{key} = {value.codes[0]}\n"
        self.lines.append((key, line, needs, why))
        self.values.pop(key, None)

    def _evaluate(self, node: ast.expr) -> _Value:
        """The code of an expression, with what the side has computed so far put in."""
        lowering = self.lowering
        hazard = lowering.selection.hazard(node, self.side.force)
        safe = self._made_safe(node) if hazard is not None and hazard.only_gradient else None
        replaced: dict[ast.AST, str] = {}
        why = hazard.why if hazard is not None and safe is None else None
        needs: set[str] = set()
        for use in ast.walk(node):
            key = state.key_of(use) if isinstance(use, ast.Name | ast.Attribute) else None
            if key is None or not isinstance(getattr(use, "ctx", None), ast.Load):
                continue
            if any(entry[0] == key for entry in self.lines):
                needs.add(key)
            elif key in self.values:
                value = self.values[key]
                replaced[use] = operand(value.codes[0]) if use is not node else value.codes[0]
                why = why or value.why
                needs |= value.needs
            elif safe is not None and key == safe[0]:
                replaced[use] = safe[1]
        with lowering.renaming():
            lowering.renamed.update(replaced)
            code = lowering.code(node, self.side.force)
        return _Value([code], why, frozenset(needs))

    def _made_safe(self, node: ast.expr) -> tuple[str, str] | None:
        """The double where: ones in place of the one differentiable name where the side isn't taken."""
        lowering = self.lowering
        names = lowering.choice.differentiable_names(node, self.side.force)
        if len(names) != 1:
            return None
        name = next(iter(names))
        on_first = self.side is self.branch.first
        if name in self.values or name in flow.binds(self.side.statements):
            return None
        if lowering.choice.hazard(node, self.side.force, names) is not None:
            return None
        known = self.selected.safe.get(name)
        if known is not None:
            return (name, known[0]) if known[1] == on_first else None
        if self.selected.safe:
            return None
        safe = lowering.unused(f"safe_{name}")
        self.selected.safe[name] = (safe, on_first)
        return name, safe

    def _nested(self, statement: ast.If) -> None:
        if any(flow.inside(statement, ast.Return)):
            raise _Stop("one of its paths returns early")
        inner = self.lowering.selected(statement, self.side.force)
        if inner is None:
            self._poison(statement)
            return
        branch, selected = inner
        if selected.before or selected.safe:
            self._poison(statement)
            return
        predicate = branch.test.select_code(self.lowering.torch)
        reads = flow.reads(statement)
        if any(key in reads for key in self.values):
            self._poison(statement)
            return
        for key, pairs in selected.values.items():
            codes = [self.lowering.where(predicate, a, b) for a, b in pairs]
            needs = frozenset(entry[0] for entry in self.lines if entry[0] in reads)
            self.values[key] = _Value(codes, None, needs)

    def _poison(self, statement: ast.stmt) -> None:
        """What a statement computes that has no expression form can't be selected."""
        why = f"`{ast.unparse(statement).splitlines()[0]}` is no assignment of an expression"
        changed = flow.binds(statement) | state.changed_keys(statement, self.lowering.facts_at)
        for key in changed:
            self.values[key] = _Value([key], why)
        self.lines = [
            (name, line, needs, why if name in changed else old) for name, line, needs, old in self.lines
        ]
        if not changed:
            raise _Stop(why)
        if any(flow.inside(statement, ast.Return)):
            raise _Stop(why)

    def _read_often(self, key: str, rest: Sequence[ast.stmt]) -> bool:
        return (
            sum(
                state.key_of(n) == key and isinstance(n.ctx, ast.Load)
                for s in rest
                for n in ast.walk(s)
                if isinstance(n, ast.Name | ast.Attribute)
            )
            > 1
        )

    def _augmented_hazard(self, statement: ast.AugAssign) -> str | None:
        code = ast.unparse(statement)
        value = statement.value
        if isinstance(statement.op, ast.Mult | ast.Div) and isinstance(value, ast.Constant) and value.value:
            return None
        return f"the gradient of `{code}` can be NaN where it isn't taken"


def _crossing(keys: Sequence[str], codes: Sequence[str]) -> bool:
    """Whether a code reads what an earlier one has just bound."""
    reads = [state.keys_read(ast.parse(code, mode="eval")) for code in codes]
    return any(key in read for i, key in enumerate(keys) for read in reads[i + 1 :])


def _target(statement: ast.stmt) -> tuple[str, ast.expr] | None:
    """``(key, value)`` of a statement that assigns one name or attribute."""
    if found := state.registered(statement):
        owner, name, value = found
        key = state.key_of(owner)
        return (f"{key}.{name}", value) if key else None
    if isinstance(statement, ast.Assign) and len(statement.targets) == 1:
        key = state.key_of(statement.targets[0])
        return (key, statement.value) if key else None
    if isinstance(statement, ast.AnnAssign | ast.AugAssign) and statement.value is not None:
        key = state.key_of(statement.target)
        return (key, statement.value) if key else None
    return None


def _augmented(side: Side, key: str) -> bool:
    """Whether the side changes the tensor by ``x += ...`` alone."""
    return all(
        isinstance(s, ast.AugAssign) for s in side.statements if key in {state.key_of(t) for t in _changed(s)}
    )


def _changed(statement: ast.stmt) -> list[ast.expr]:
    if isinstance(statement, ast.AugAssign):
        return [statement.target]
    if isinstance(statement, ast.Assign):
        return [t.value if isinstance(t, ast.Subscript) else t for t in statement.targets]
    return [n for n in ast.walk(statement) if isinstance(n, ast.Name | ast.Attribute)]


def _is_simple(code: str) -> bool:
    return isinstance(ast.parse(code, mode="eval").body, ast.Name | ast.Constant)


def _exact(code: str) -> bool:
    """Whether a number (or a choice of such) has the same value in single precision."""
    try:
        value = ast.literal_eval(code)
    except ValueError:
        node = ast.parse(code, mode="eval").body
        if isinstance(node, ast.Call) and getattr(node.func, "attr", "") == "where":
            return all(_exact(ast.unparse(argument)) for argument in node.args[1:])
        return False
    try:
        return bool(struct.unpack("f", struct.pack("f", value))[0] == value)
    except OverflowError:
        return False
