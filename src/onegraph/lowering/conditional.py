"""The branch form: both sides as closures named for what they make, and ``_cond`` between them."""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from onegraph.lowering import flow, state, wording
from onegraph.lowering.choice import draws_random
from onegraph.lowering.gradient_free import only_free_writes
from onegraph.lowering.parts import RETURN, Agreed, Branch, Out, Side
from onegraph.lowering.predicate import is_tensor_test
from onegraph.lowering.refused import Refused
from onegraph.lowering.select import Selected
from onegraph.lowering.source import operand
from onegraph.rewrite import text as edit
from onegraph.rewrite.request import Facts

if TYPE_CHECKING:
    from onegraph.lowering.branch import Lowering

LAMBDA = 60  # characters; a longer arm gets a name


@dataclass(frozen=True)
class Arm:
    """``name`` is what to pass to ``_cond``: a name or a lambda. ``reads`` are the names that it takes
    from outside."""

    name: str
    definition: str
    reads: frozenset[str]


class Conditional:
    """Builds the branch form of the branches of one function."""

    def __init__(self, lowering: Lowering) -> None:
        self.lowering = lowering

    def of(self, branch: Branch, outs: list[Out]) -> str:
        """The statements of the branch form, at indentation zero. Raises Refused."""
        apart = [
            out
            for out in outs
            if out.discrete or out.number or self._unknown(branch, out) or self._marked(branch, out, outs)
        ]
        joined = [out for out in outs if out not in apart]
        if not joined and not any(out.number for out in apart):
            apart, joined = [], apart
        if not apart:
            return self._joined(branch, joined, branch.test.branch_code())[0]
        return self._apart(branch, apart, joined)

    def _unknown(self, branch: Branch, out: Out) -> bool:
        """A buffer of which nothing was measured, such as ``self.count`` in ``self.count += 1``: it may
        count."""
        unknown = out.in_place and not any(kind.known for kind in out.kinds)
        return unknown and isinstance(self.lowering.selection.of(branch, [out]), Selected)

    def _marked(self, branch: Branch, out: Out, outs: Sequence[Out]) -> bool:
        """State without a gradient: beside a value with one, torch.cond would make it require one too."""
        beside = any(other.needs_grad for other in outs)
        return beside and out.attribute and not (out.needs_grad or self.detached(branch, out))

    def _apart(self, branch: Branch, apart: list[Out], joined: list[Out]) -> str:
        """Numbers, counters and flags are selected beside the branch: torch.cond can't differentiate next
        to them."""
        lowering = self.lowering
        names = ", ".join(f"`{out.key}`" for out in apart)
        if branch.test.python:
            return self._under_python(branch)
        if not branch.test.selectable:
            code = branch.test.tensor
            raise Refused(
                f"{names}: `{code}` may be a Python value on another call", "Annotate it as a torch.Tensor."
            )
        selected = lowering.selection.of(branch, apart)
        if not isinstance(selected, Selected) and joined and not any(out.number for out in apart):
            return self._twice(branch, apart, joined)
        if not isinstance(selected, Selected):
            raise Refused(f"{names}: {selected}", "Compute it outside the branch, or keep it as a tensor.")
        lowering.selects += 1
        if not joined:
            return lowering.selection.written(branch, apart, selected)
        flag, lines = lowering.selection.flag(branch)
        chosen = lowering.selection.written(branch, apart, selected, flag)
        keys = {out.key for out in apart}
        rest = replace(
            branch,
            first=_without(branch.first, keys, joined, lowering.facts_at),
            second=_without(branch.second, keys, joined, lowering.facts_at),
        )
        branched, reads = self._joined(rest, joined, flag)
        chosen_reads = state.keys_read(ast.parse(chosen))
        if not chosen_reads & {out.key for out in joined}:
            return lines + branched + chosen
        if not keys & reads:
            return lines + chosen + branched
        raise Refused(f"{names} and the rest of the branch need each other's old values", "Split the branch.")

    def _twice(self, branch: Branch, apart: list[Out], joined: list[Out]) -> str:
        """Two branches on one condition: what has gradients, and integers and flags beside it."""
        lowering = self.lowering
        flag, lines = lowering.selection.flag(branch)
        parts = []
        for mine, others in ((joined, apart), (apart, joined)):
            keys = {out.key for out in others}
            sides = [_without(side, keys, mine, lowering.facts_at) for side in (branch.first, branch.second)]
            parts.append(replace(branch, first=sides[0], second=sides[1], comments=()))
        first, _ = self._joined(parts[0], joined, flag)
        mark = set(lowering.taken)
        second, reads = self._joined(parts[1], apart, flag)
        again = [out for out in joined if out.key in reads]
        if not again:
            return lines + first + second
        if any(out.in_place or out.attribute for out in again):
            names = ", ".join(f"`{out.key}`" for out in apart)
            raise Refused(
                f"{names} and the rest of the branch need each other's old values", "Split the branch."
            )
        lowering.taken = mark
        saved = {out.key: lowering.unused(f"old_{out.key}") for out in again}
        second, _ = self._joined(parts[1], apart, flag, saved)
        kept = "".join(f"{name} = {key}\n" for key, name in saved.items())
        return lines + kept + first + second

    def _under_python(self, branch: Branch) -> str:
        """`if python and tensor` as two: Python's part stays an ``if``, around the branch on the tensor."""
        lowering, test = self.lowering, branch.test
        inner = lowering.lowered(replace(branch, test=replace(test, python=()), comments=()))
        decided = branch.first if test.is_or else branch.second
        other = lowering.block(decided.statements, decided.force, decided.header)
        word = " or " if test.is_or else " and "
        head, yes, no = f"if {word.join(test.python)}:\n", inner, other
        if test.is_or:
            yes, no = other or "pass\n", inner
        unit = lowering.place.unit
        behind = "else:\n" + edit.reindent(no, unit) if no else ""
        return head + edit.reindent(yes, unit) + behind

    def _joined(
        self, branch: Branch, outs: list[Out], predicate: str, saved: Mapping[str, str] | None = None
    ) -> tuple[str, frozenset[str]]:
        """The lines of one ``_cond``, and the names that they read; ``saved`` are names for old values."""
        lowering = self.lowering
        self.refuse_random(branch)
        callee = self.callee(branch, outs)
        lowering.moves.one_sided(branch)
        lowering.moves.aliases(branch, outs)
        lowering.moves.layouts(outs)
        lowering.moves.gradients(outs, [out for out in outs if not self.detached(branch, out)])
        lowering.record(
            branch.test, branch.test.tensor if predicate == branch.test.branch_code() else predicate
        )
        local, lines = self._locals(branch, outs)
        local |= saved or {}
        arms = [self._arm(branch, side, outs, local, name) for side, name in self._sides(branch, outs)]
        used = frozenset[str]().union(*(arm.reads for arm in arms))
        setup = "".join(line for name, line in lines.items() if name in used)
        definitions = "".join(arm.definition for arm in arms)
        call = f"{callee}({predicate}, {arms[0].name}, {arms[1].name})"
        return setup + definitions + self._assigned(branch, outs, call), used | state.keys_read(
            ast.parse(setup)
        )

    def callee(self, branch: Branch, outs: list[Out]) -> str:
        """The helper that chooses between the arms."""
        return self.lowering.cond

    def refuse_random(self, branch: Branch) -> None:
        """The backward of torch.cond runs the arm again, with other random numbers (2.13): wrong
        gradients."""
        if not self.lowering.choice.gradients:
            return
        for side in (branch.first, branch.second):
            found = draws_random(side.statements, self.lowering.facts)
            if found is not None:
                raise Refused(
                    f"`{ast.unparse(found.func)}` draws random numbers inside a tensor branch, and "
                    "torch.cond draws others for the gradient",
                    "Draw them in front of the branch.",
                )

    # --- the arms -----------------------------------------------------------------------------------------

    def _sides(self, branch: Branch, outs: list[Out]) -> list[tuple[Side, str]]:
        word = wording.conditions(branch.test.leaves)
        stem = "result" if branch.target == RETURN else wording.what([out.key for out in outs])
        return [(branch.first, f"{stem}_if_{word}"), (branch.second, f"{stem}_otherwise")]

    def _locals(self, branch: Branch, outs: list[Out]) -> tuple[dict[str, str], dict[str, str]]:
        """What the arms read under another name, and the lines that bind those names in front of the branch.

        Attributes, because Dynamo loses later writes of a module's buffers when a buffer is first read
        inside an arm
        (2.13); tensors that share storage, because torch.cond takes no two of them.
        """
        lowering = self.lowering
        local: dict[str, str] = {}
        lines: dict[str, str] = {}
        statements = branch.first.statements + branch.second.statements
        groups = lowering.place.sharing_storage(statements, branch.node, lowering.facts)
        changed = {
            key for side in (branch.first, branch.second) for key, c in side.changes.items() if c.in_place
        }
        for group in groups:
            if written := sorted(changed & set(group)):
                others = ", ".join(f"`{key}`" for key in group if key != written[0])
                raise Refused(
                    f"`{written[0]}` is changed in place and shares its memory with {others}",
                    "Read it under one name inside the branch.",
                )
        shared = [key for group in groups for key in group[1:]]
        for key in lowering.place.attributes_read(statements, outs, lowering.facts):
            name = local[key] = lowering.unused(key.rpartition(".")[2])
            out = next((out for out in outs if out.key == key), None)
            copied = (
                ".clone()" if (out is not None and out.in_place and not out.discrete) or key in shared else ""
            )
            lines[name] = f"{name} = {key}{copied}\n"
        for out in outs:
            if out.in_place and out.key not in local and not out.discrete:
                name = local[out.key] = lowering.unused(f"old_{out.key}")
                lines[name] = f"{name} = {out.key}.clone()\n"
        for key in shared:
            if key not in local:
                name = local[key] = lowering.unused(f"{key.rpartition('.')[2]}_copy")
                lines[name] = f"{name} = {key}.clone()\n"
        return local, lines

    def _arm(self, branch: Branch, side: Side, outs: list[Out], local: Mapping[str, str], name: str) -> Arm:
        lowering = self.lowering
        last = side.statements[-1] if side.statements else None
        participle = (
            wording.done(getattr(last, "value", None)) if last is not None and len(outs) == 1 else None
        )
        name = lowering.unused(participle or name)
        with lowering.renaming():
            prefix, names = self._renames(side, outs, local)
            expression, body = self._body(branch, side, outs, names)
        if expression is not None and not prefix and not body:
            short = f"lambda: {_grouped(expression)}"
            if len(short) <= LAMBDA and "\n" not in short:
                lowering.taken.discard(name)
                return Arm(short, "", state.keys_read(ast.parse(short)))
        if expression is not None:
            body += edit.wrap_call(f"return {expression}") + "\n"
        body = _returning_directly(prefix + body)
        function = _parsed(body)
        both = sorted(flow.needed_first(function.body) & flow.binds(function.body))
        defaults = [f"{key}={local.get(key, key)}" for key in both]
        definition = f"def {name}({', '.join(defaults)}):\n" + edit.reindent(body, lowering.place.unit)
        needed = flow.needed_first(function.body) | {local.get(key, key) for key in both}
        attributes = {key for key in state.keys_read(function) if "." in key}
        return Arm(name, definition + "\n", frozenset(needed | attributes))

    def _renames(self, side: Side, outs: list[Out], local: Mapping[str, str]) -> tuple[str, dict[str, str]]:
        """Notes replacements in an arm; its first lines, and the name or code of each out at its end."""
        lowering = self.lowering
        names: dict[str, str] = {}
        prefix = ""
        for out in outs:
            change = side.changes.get(out.key)
            start = lowering.fillers.get(out.key) or local.get(out.key, out.key)
            if change is None:
                names[out.key] = out.key if out.key in flow.binds(side.statements) else start
            elif (
                not change.attribute
            ):  # a copy under the same name, which comes in as the default of a parameter
                names[out.key] = out.key
                prefix += f"{out.key} = {out.key}.clone()\n"
            else:
                names[out.key], lines = self._attribute(side, out, change, start, alone=len(outs) == 1)
                prefix += lines
        own = flow.binds(side.statements) | {
            key for key, change in side.changes.items() if not change.attribute
        }
        free = {id(name) for name in flow.loads(side.statements)}  # not what a function inside binds itself
        for node in (
            n for s in side.statements for n in ast.walk(s) if isinstance(n, ast.Attribute | ast.Name)
        ):
            known = isinstance(node, ast.Attribute) or id(node) in free
            key = state.key_of(node) if known and isinstance(node.ctx, ast.Load) else None
            if key is not None and key in local and key not in own and key not in side.changes:
                lowering.renamed[node] = local[key]
        for out in outs:  # register_buffer("x", value) becomes an assignment of the new name
            for write in side.changes[out.key].writes if out.key in side.changes else ():
                if found := state.registered(write):
                    lowering.renamed[write] = f"{names[out.key]} = {lowering.code(found[2], side.force)}"
        return prefix, names

    def _attribute(
        self, side: Side, out: Out, change: state.Change, start: str, *, alone: bool
    ) -> tuple[str, str]:
        """The local name that stands for an attribute in an arm, and the line that binds it first."""
        lowering = self.lowering
        nested = [
            n for n in flow.inside(side.statements, ast.If)
            if isinstance(n, ast.If) and is_tensor_test(lowering.facts, n.test, side.force)
        ]  # fmt: skip
        if any(use in set(ast.walk(node)) for node in nested for use in (*change.uses, *change.writes)):
            raise Refused(f"`{out.key}` is written in a branch inside a branch", "Write it behind both.")
        last = self._last_value(side.statements[-1], side, out)
        if alone and last is not None and change.writes == side.statements[-1:] and not change.in_place:
            reads = [n for n in change.uses if isinstance(getattr(n, "ctx", None), ast.Load)]
            lowering.renamed.update(dict.fromkeys(reads, start))
            return start, ""
        out.inner = out.inner or lowering.unused(f"new_{out.key.rpartition('.')[2]}")
        lowering.renamed.update(dict.fromkeys(change.uses, out.inner))
        copied = ".clone()" if change.in_place else ""
        first = copied or not _written_first(side.statements, change)
        return out.inner, f"{out.inner} = {start}{copied}\n" if first else ""

    def _body(
        self, branch: Branch, side: Side, outs: list[Out], names: Mapping[str, str]
    ) -> tuple[str | None, str]:
        """The value that the arm returns (None: its lines return), and the lines before."""
        lowering, statements = self.lowering, side.statements
        early = any(
            isinstance(s, ast.If)
            and is_tensor_test(lowering.facts, s.test, side.force)
            and any(flow.inside(s, ast.Return))
            for s in statements
        )
        if branch.target == RETURN:
            last = statements[-1]
            if early or not isinstance(last, ast.Return) or last.value is None:
                if any(kind.constant for kind in outs[0].kinds):
                    raise Refused(
                        "a constant is returned from inside a nested branch", "Return it at the end."
                    )
                return None, lowering.block(statements, side.force, side.header)
            parts = self._chosen(last.value, outs[0])
            kinds = [kind for kind in outs[0].kinds if not kind.constant]
            codes = [lowering.code(part, side.force) for part in parts]
            if len(kinds) == len(codes):
                codes = [_laid_out(code, kind) for code, kind in zip(codes, kinds, strict=True)]
            value = ", ".join(codes)
            return value, lowering.block(statements[:-1], side.force, side.header)
        value = ", ".join(_laid_out(names[out.key], *out.kinds) for out in outs)
        if len(outs) == 1 and statements:
            node = self._last_value(statements[-1], side, outs[0])
            if node is not None:
                code = _laid_out(lowering.code(node, side.force), *outs[0].kinds)
                return code, lowering.block(statements[:-1], side.force, side.header)
        return value, lowering.block(statements, side.force, side.header)

    def _last_value(self, last: ast.stmt, side: Side, out: Out) -> ast.expr | None:
        """The value of the arm's last statement, where that is all that the arm makes."""
        change = side.changes.get(out.key)
        if change is not None and change.in_place:
            return None
        if (
            isinstance(last, ast.Assign)
            and len(last.targets) == 1
            and state.key_of(last.targets[0]) == out.key
        ):
            return last.value
        found = state.registered(last)
        return found[2] if found and change is not None and last in change.writes else None

    def _chosen(self, value: ast.expr, out: Out) -> list[ast.expr]:
        """The returned values that differ between the sides; constants stay outside."""
        if not isinstance(value, ast.Tuple):
            return [value]
        return [part for part, kind in zip(value.elts, out.kinds, strict=True) if not kind.constant]

    def _assigned(self, branch: Branch, outs: list[Out], call: str) -> str:
        if outs[0].key == RETURN:
            return self._returned(branch, outs[0], call)
        lowering = self.lowering
        targets, behind = [], ""
        for out in outs:
            if out.change is None or not (out.change.attribute or out.in_place):
                targets.append(out.key)
                continue
            detached = ".detach()" if self.detached(branch, out) else ""
            value = call if len(outs) == 1 else lowering.unused(f"next_{out.key.rpartition('.')[2]}")
            targets.append(value)
            behind += out.assigned(value + detached)
        if len(outs) == 1 and behind:
            return edit.wrap_call(behind)
        return edit.wrap_call(f"{', '.join(targets)} = {call}") + "\n" + behind

    def detached(self, branch: Branch, out: Out) -> bool:
        """Whether no gradient ever belongs to what is written back: torch.cond makes all require one."""
        if not out.attribute or out.needs_grad:
            return False
        sides = [s for side in (branch.first, branch.second) for s in side.statements]
        return only_free_writes(out.key, sides) or self._without_gradient(branch) or _without_inputs(branch)

    def _without_gradient(self, branch: Branch) -> bool:
        """Whether the branch stands under ``no_grad``."""
        return not self.lowering.place.gradients

    def _returned(self, branch: Branch, out: Out, call: str) -> str:
        lowering = self.lowering
        constants = [kind.constant for kind in out.kinds]
        last = branch.first.statements[-1]
        if not any(constants) or not (isinstance(last, ast.Return) and isinstance(last.value, ast.Tuple)):
            return edit.wrap_call(f"return {call}") + "\n"
        names = [f"result_{i}" for i, constant in enumerate(constants) if not constant]
        values = iter([call] if len(names) == 1 else [lowering.unused(name) for name in names])
        parts = [
            lowering.code(part) if constant else next(values)
            for part, constant in zip(last.value.elts, constants, strict=True)
        ]
        line = "" if len(names) == 1 else edit.wrap_call(f"{', '.join(names)} = {call}") + "\n"
        return line + edit.wrap_call(f"return {', '.join(parts)}") + "\n"


def _laid_out(code: str, *kinds: Agreed) -> str:
    """The code of a value, laid out in memory as that of the other side: torch.cond wants them alike."""
    return f"{operand(code)}.contiguous()" if any(kind.laid_out for kind in kinds) else code


def _without_inputs(branch: Branch) -> bool:
    """Whether no gradient comes in from outside, by the text: everything local is detached."""
    return any(
        "detach()" in ast.unparse(s) for side in (branch.first, branch.second) for s in side.statements
    )


def _without(side: Side, keys: set[str], outs: Sequence[Out], measured: Callable[[ast.stmt], Facts]) -> Side:
    """The side without the assignments that only serve what is computed apart."""
    live = {out.key for out in outs}
    kept: list[ast.stmt] = []
    for statement in reversed(side.statements):
        made = flow.binds(statement) | state.changed_keys(statement, measured)
        simple = isinstance(statement, ast.Assign | ast.AugAssign | ast.AnnAssign)
        if simple and made and made <= keys and not made & live:
            continue
        if shared := sorted(key for key in made & keys if "." in key):
            raise Refused(
                f"`{shared[0]}` is changed together with other values", "Change it on its own line."
            )
        kept.append(statement)
        live |= flow.reads(statement) | {
            key for n in ast.walk(statement) if isinstance(n, ast.Attribute) and (key := state.key_of(n))
        }
    return replace(side, statements=kept[::-1])


def _grouped(expression: str) -> str:
    """A tuple of values in parentheses, as a lambda needs it."""
    node = ast.parse(f"({expression}\n)", mode="eval").body
    bare = isinstance(node, ast.Tuple) and len(ast.parse(expression.strip()).body) == 1
    value = ast.parse(expression.strip(), mode="eval").body if bare else node
    whole = isinstance(value, ast.Tuple) and value.col_offset == 0 and expression.strip().startswith("(")
    return f"({expression})" if isinstance(node, ast.Tuple) and not whole else expression


def _parsed(body: str) -> ast.FunctionDef:
    function = ast.parse("def _():\n" + edit.reindent(body, "    ")).body[0]
    assert isinstance(function, ast.FunctionDef)
    return function


def _returning_directly(body: str) -> str:
    """``y = value`` and ``return y`` as the last lines become ``return value``."""
    function = _parsed(body)
    if len(function.body) < 2:
        return body
    assign, last = function.body[-2:]
    if not (isinstance(last, ast.Return) and isinstance(last.value, ast.Name)):
        return body
    name = last.value.id
    target = assign.targets[0] if isinstance(assign, ast.Assign) and len(assign.targets) == 1 else None
    if not (isinstance(target, ast.Name) and target.id == name):
        return body
    rows = body.splitlines(keepends=True)
    first, end = assign.lineno - 2, last.lineno - 2
    if end != (assign.end_lineno or assign.lineno) - 1 or not rows[first].startswith(f"{name} = "):
        return body
    rows[first] = "return " + rows[first][len(name) + 3 :]
    return "".join(rows[:end])


def _written_first(statements: Sequence[ast.stmt], change: state.Change) -> bool:
    """Whether the arm replaces the thing before it reads it, on every path."""
    for statement in statements:
        if statement in change.writes:
            found = state.registered(statement)
            value = found[2] if found else getattr(statement, "value", None)
            return value is None or not any(use in set(ast.walk(value)) for use in change.uses)
        if any(use in set(ast.walk(statement)) for use in change.uses):
            return False
    return False
