"""A branch on a tensor becomes ``torch.where`` or ``torch.cond``; see `choice` for which.

The whole nest is lowered at once: an outer tensor branch takes the inner ones, its ``elif``s and, where an arm
returns early, the rest of the function with it, because nothing that breaks the graph may stay inside an arm.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from onegraph.lowering import flow, helper, state, wording
from onegraph.lowering.agreement import Agreement
from onegraph.lowering.choice import Choice
from onegraph.lowering.parts import RETURN, Branch, Out, Side
from onegraph.lowering.place import Place, find
from onegraph.lowering.predicate import Force, Test, Tests, is_tensor_test
from onegraph.lowering.refused import Refused
from onegraph.lowering.select import Selected, Selection
from onegraph.lowering.source import Source
from onegraph.model import Candidate, Declined, Level, Predicate
from onegraph.rewrite import text as edit
from onegraph.rewrite.request import Request

KIND = "branch_on_tensor"


def lower_branch(request: Request) -> Iterator[Candidate | Declined]:
    """Candidates for the tensor test at ``request.site.span``, best first: select where it is safe, then branch."""
    seen: set[str] = set()
    try:
        place = find(request)
    except Refused as refused:
        yield Declined(KIND, refused.reason, refused.next_step)
        return
    refusals: dict[str, Declined] = {}
    for selecting in (True, False):
        try:
            candidate = Lowering(request, place, selecting=selecting).candidate()
        except Refused as refused:
            refusals.setdefault(refused.reason, Declined(KIND, refused.reason, refused.next_step))
            continue
        if candidate.text in seen:
            continue
        seen.add(candidate.text)
        if candidate.level == Level.RELAXED and request.level == Level.EXACT:
            reason = candidate.notes[0] if candidate.notes else "something observable moves"
            refusals.setdefault(reason, Declined(KIND, reason, "Allow it with --level relaxed."))
            continue
        yield candidate
    yield from refusals.values()


@dataclass
class Lowering:
    """Lowers one place in one file; holds what the pieces of generated code share."""

    request: Request
    place: Place
    selecting: bool
    predicates: list[Predicate] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    renamed: dict[ast.AST, str] = field(default_factory=dict)
    taken: set[str] = field(default_factory=set)
    uses_cond: bool = False
    selects: int = 0

    def __post_init__(self) -> None:
        self.source = Source(self.request.text)
        self.facts = self.request.facts
        self.torch = helper.torch_name(self.request.text)
        self.cond = helper.helper_name(self.request.text)
        self.tests = Tests(self.source, self.facts, self.place.function, self.torch)
        self.choice = Choice(self.facts, self.torch, gradients=self.place.gradients)
        self.agreement = Agreement(self.facts, self.source)
        self.selection = Selection(self)

    # --- the whole ------------------------------------------------------------------------------------------------

    def candidate(self) -> Candidate:
        """The candidate text. Raises Refused."""
        root = self.place.root
        if isinstance(root, ast.If):
            line = root.lineno
            code, last = self.if_and_rest(root, {})
            indent = edit.indent_of(self.request.text, line)
            if self.place.is_elif(root):
                code = "else:\n" + edit.reindent(code, self.place.unit)
            block = edit.reindent(code, indent)
            if self.source.text.encode().splitlines()[line - 1][: root.col_offset].strip():
                raise Refused(
                    "the branch shares its line with another statement", "Put it on a line of its own."
                )
            text = edit.replace_lines(self.request.text, line, edit.position(last)[2], block)
        else:
            assert isinstance(root, ast.expr)
            text = self._replace_expression(root, self.expression(root, {}))
        text = helper.complete(text, cond=self.cond if self.uses_cond else None)
        ast.parse(text)
        relaxed = bool(self.notes)
        return Candidate(
            KIND,
            Level.RELAXED if relaxed else Level.EXACT,
            self._title(),
            text,
            (self.place.qualname,),
            tuple(dict.fromkeys(self.notes)),
            tuple(dict.fromkeys(self.predicates)),
        )

    def _title(self) -> str:
        forms = [*(["torch.where"] if self.selects else []), *(["torch.cond"] if self.uses_cond else [])]
        what = "an if expression" if isinstance(self.place.root, ast.expr) else "an if on a tensor"
        return f"{what} becomes {' and '.join(forms) or 'straight code'}"

    def _replace_expression(self, node: ast.expr, code: str) -> str:
        line, column, end_line, end_column = edit.position(node)
        text = edit.replace_spans(self.request.text, [(line, column, end_line, end_column, code)])
        row = edit.lines(text)[line - 1]
        statement = self.place.statement
        whole = (
            statement is not None
            and edit.position(statement)[0] == edit.position(statement)[2] == line == end_line
        )
        if whole and len(row.rstrip()) > edit.WIDTH:
            wrapped = edit.wrap_call(row)
            text = edit.replace_lines(text, line, line, wrapped)
        return text

    # --- statements -----------------------------------------------------------------------------------------------

    def if_and_rest(self, node: ast.If, force: Force) -> tuple[str, ast.stmt]:
        """The code that replaces an ``if`` (lines at indentation zero), and the last statement that it replaces."""
        then, orelse = list(node.body), list(node.orelse)
        returning = [bool(list(flow.inside(arm, ast.Return))) for arm in (then, orelse)]
        if not any(returning):
            return self._branch(node, then, orelse, None, force), node
        rest = self.place.rest(node)
        for arm, returns in ((then, returning[0]), (orelse, returning[1])):
            if returns and not flow.always_leaves(arm):
                raise Refused(
                    f"the arm at line {arm[0].lineno} returns on some of its paths only",
                    "Give each path of the arm its own return, or assign the result and return behind the branch.",
                )
        last: ast.stmt = node
        if not all(returning):
            if not flow.always_leaves(orelse + rest if returning[0] else then + rest):
                raise Refused(
                    "one path returns a value and the other returns None", "Return a tensor on every path."
                )
            last = (rest or [node])[-1]
        if returning[0] and not returning[1]:
            orelse = orelse + rest
        elif returning[1] and not returning[0]:
            then = then + rest
        return self._branch(node, then, orelse, RETURN, force), last

    def _branch(
        self, node: ast.If, then: list[ast.stmt], orelse: list[ast.stmt], target: str | None, force: Force
    ) -> str:
        test = self.tests.split(node.test, force)
        comments = self.source.comments(node, edit.position(node)[2])
        hoisted, then, orelse = self._hoist_memos(then, orelse)
        yes, no = {**force, **test.when_true}, {**force, **test.when_false}
        first, second = (
            Side(then, yes, node.test.end_lineno or node.lineno),
            Side(orelse, no, _else_line(node)),
        )
        if test.negated:
            first, second = second, first
        branch = Branch(node, test, first, second, target, comments)
        if test.python and not test.is_or and not orelse and target is None:
            inner = self._lower(Branch(node, _without_python(test), first, second, target, comments), force)
            return hoisted + f"if {test.python_code()}:\n" + edit.reindent(inner, self.place.unit)
        return hoisted + self._lower(branch, force)

    def _lower(self, branch: Branch, force: Force) -> str:
        outs = self._outs(branch)
        if not outs:
            raise Refused("the branch computes nothing that is used later", "Delete the branch.")
        self._agree(branch, outs)
        if self.selecting and not branch.test.python:
            selected = self.selection.of(branch, outs)
            if isinstance(selected, Selected):
                self._note_one_sided(branch)
                self.selects += 1
                return _commented(branch.comments, self.selection.written(branch, outs, selected))
        return self._conditional(branch, outs)

    def selected(self, node: ast.If, force: Force) -> tuple[Branch, Selected] | None:
        """A nested ``if`` as one expression for each thing it makes; None where it has to stay a branch."""
        try:
            test = self.tests.split(node.test, force)
        except Refused:
            return None
        if test.python:
            return None
        yes, no = {**force, **test.when_true}, {**force, **test.when_false}
        first, second = Side(list(node.body), yes, node.lineno), Side(list(node.orelse), no, node.lineno)
        if test.negated:
            first, second = second, first
        branch = Branch(node, test, first, second, None, ())
        outs = self._outs(branch)
        self._agree(branch, outs)
        selected = self.selection.of(branch, outs)
        if not isinstance(selected, Selected):
            return None
        self.record(test, test.select_code(self.torch))
        return branch, selected

    def _outs(self, branch: Branch) -> list[Out]:
        if branch.target == RETURN:
            return [Out(RETURN)]
        live = self.place.live_after(branch.node)
        outs: dict[str, Out] = {}
        for side in (branch.first, branch.second):
            side.changes = state.changes(side.statements, self.facts)
            for name in sorted(
                flow.binds(side.statements) & live, key=lambda n: _first_binding(side.statements, n)
            ):
                outs.setdefault(name, Out(name))
            for key, change in side.changes.items():
                if change.attribute or change.in_place:
                    out = outs.setdefault(key, Out(key))
                    out.change = out.change or change
                    out.in_place |= change.in_place and not self._fresh(change, branch.node)
        for key, out in outs.items():
            if "." not in key:
                self._check_defined(branch, key, out)
        return list(outs.values())

    def _fresh(self, change: state.Change, node: ast.If) -> bool:
        """Whether nobody else can see the storage of the tensor, so that a new tensor may take the name."""
        return not change.attribute and self.place.is_fresh(change.key, node, self.facts)

    def _check_defined(self, branch: Branch, name: str, out: Out) -> None:
        sides = [name in flow.binds(side.statements) for side in (branch.first, branch.second)]
        if all(sides) and out.change is None:
            return
        before = self.facts.names(branch.node, [name])[name]
        undefined = any(fact.type == "<undefined>" for fact in before)
        if undefined or (not before and not self.place.bound_before(name, branch.node)):
            raise Refused(
                f"`{name}` is set on one path only and used later",
                f"Give `{name}` a value before the branch.",
            )

    def _agree(self, branch: Branch, outs: list[Out]) -> None:
        for out in outs:
            if out.key == RETURN:
                out.kinds = self.agreement.of_returns(branch.first, branch.second)
            elif out.change is not None and out.change.attribute:
                out.kinds = [self.agreement.of_attribute(out.key, branch.first, branch.second)]
            else:
                out.kinds = [self.agreement.of_name(out.key, branch.node, branch.first, branch.second)]

    def record(self, test: Test, code: str) -> None:
        """Tells verification which value decides, before and after."""
        after = ast.unparse(ast.parse(code.strip(), mode="eval"))
        self.predicates += [Predicate(self.place.qualname, before, after) for before in test.before]

    def _note_one_sided(self, branch: Branch) -> None:
        names = self.place.one_sided(
            branch.first.statements, branch.second.statements, branch.node, self.facts
        )
        if names and self.choice.gradients:
            listed = ", ".join(f"`{name}`" for name in names)
            self.notes.append(
                f"{listed}: used on one side only, so the gradient is zero instead of None when the other side runs"
            )

    def _hoist_memos(
        self, then: list[ast.stmt], orelse: list[ast.stmt]
    ) -> tuple[str, list[ast.stmt], list[ast.stmt]]:
        """``if not hasattr(self, "k"): self.k = ...`` moves in front of the branch: it is made on both paths."""
        hoisted = ""
        kept: list[list[ast.stmt]] = []
        for arm in (then, orelse):
            kept.append([])
            for statement in arm:
                key = state.memo_of(statement)
                if key is None or flow.reads(statement) & flow.binds(kept[-1]):
                    kept[-1].append(statement)
                    continue
                hoisted += self.source.block([statement])
                self.notes.append(f"`{key}` is made on the first call, whichever side runs")
        return hoisted, kept[0], kept[1]

    # --- torch.cond -------------------------------------------------------------------------------------------------

    def _conditional(self, branch: Branch, outs: list[Out]) -> str:
        apart = [out for out in outs if out.discrete or out.number]
        joined = [out for out in outs if out not in apart]
        lines = _commented((), "")
        if apart and (joined or any(out.number for out in apart)):
            selected = self.selection.of(branch, apart)
            if not isinstance(selected, Selected):
                names = ", ".join(f"`{out.key}`" for out in apart)
                raise Refused(
                    f"{names}: {selected}", "Compute it outside the branch, or keep it as a tensor."
                )
            if branch.test.python:
                raise Refused(
                    f"`{apart[0].key}` is a number chosen by Python and tensor conditions together",
                    "Split the test.",
                )
            self.selects += 1
            after = self.selection.written(branch, apart, selected)
            outs = joined
        else:
            after = ""
        if not outs:
            return _commented(branch.comments, after)
        self.uses_cond = True
        self._note_one_sided(branch)
        predicate = self._predicate(branch, outs)
        self.record(branch.test, branch.test.tensor)
        local, lines = self._state_locals(branch, outs)
        arms = [self._arm(branch, side, outs, local, name) for side, name in self._sides(branch, outs)]
        lines += "".join(arm.definition for arm in arms)
        call = f"{self.cond}({predicate}, {arms[0].name}, {arms[1].name})"
        lines += self._assigned(outs, call)
        if arms[0].definition or arms[1].definition:
            return lines + after
        return _commented(branch.comments, lines + after)

    def _predicate(self, branch: Branch, outs: list[Out]) -> str:
        return branch.test.branch_code()

    def _sides(self, branch: Branch, outs: list[Out]) -> list[tuple[Side, str]]:
        word = wording.condition(branch.test.leaves[-1])
        stem = "result" if branch.target == RETURN else wording.what([out.key for out in outs])
        word = "" if word == "true" else f"_if_{word}"
        first = f"{stem}{word or '_if_true'}"
        return [(branch.first, first), (branch.second, f"{stem}_otherwise")]

    def _state_locals(self, branch: Branch, outs: list[Out]) -> tuple[dict[str, str], str]:
        """Attributes that the arms read or write, read once in front of the branch.

        (Dynamo loses later writes of a module's buffers when a buffer is first read inside an arm.)
        """
        local: dict[str, str] = {}
        lines = ""
        for key in self.place.attributes_read(
            branch.first.statements + branch.second.statements, outs, self.facts
        ):
            name = self.unused(key.rpartition(".")[2])
            out = next((out for out in outs if out.key == key), None)
            copied = ".clone()" if out is not None and out.in_place and not out.discrete else ""
            local[key] = name
            lines += f"{name} = {key}{copied}\n"
        for out in outs:
            if out.in_place and out.key not in local and not out.discrete:
                local[out.key] = self.unused(f"old_{out.key}")
                lines += f"{local[out.key]} = {out.key}.clone()\n"
        return local, lines

    def _arm(self, branch: Branch, side: Side, outs: list[Out], local: Mapping[str, str], name: str) -> Arm:
        renamed, prefix, names = self._renames(side, outs, local)
        self.renamed.update(renamed)
        try:
            expression, body = self._arm_body(branch, side, outs, names)
        finally:
            for node in renamed:
                del self.renamed[node]
        if expression is not None and not prefix and not body:
            short = f"lambda: {expression}"
            if len(short) <= 60 and "\n" not in short:
                return Arm(short, "")
        last = side.statements[-1] if side.statements else None
        participle = (
            wording.done(getattr(last, "value", None)) if last is not None and len(outs) == 1 else None
        )
        name = self.unused(participle or name)
        if expression is not None:
            body += edit.wrap_call(f"return {expression}") + "\n"
        parameters = self._parameters(side, outs, body, prefix)
        definition = f"def {name}({parameters}):\n" + edit.reindent(prefix + body, self.place.unit)
        return Arm(name, definition + "\n")

    def _renames(
        self, side: Side, outs: list[Out], local: Mapping[str, str]
    ) -> tuple[dict[ast.AST, str], str, dict[str, str]]:
        """Replacements in an arm, its first lines, and the name or code of each out at its end."""
        renamed: dict[ast.AST, str] = {}
        names: dict[str, str] = {}
        prefix = ""
        for out in outs:
            if out.key == RETURN:
                continue
            start = local.get(out.key, out.key)
            change = side.changes.get(out.key)
            if change is None or not (change.attribute or change.in_place):
                names[out.key] = start
                continue
            name = self.unused(f"new_{out.key.rpartition('.')[2]}")
            names[out.key] = name
            copied = ".clone()" if change.in_place else ""
            if copied or not _written_first(side.statements, change):
                prefix += f"{name} = {start}{copied}\n"
            renamed.update(dict.fromkeys(change.uses, name))
            for write in change.writes:
                if found := state.registered(write):
                    renamed[write] = f"{name} = {self.code(found[2])}"
        for node in (n for s in side.statements for n in ast.walk(s) if isinstance(n, ast.Attribute)):
            key = state.key_of(node)
            if key in local and node not in renamed and key not in side.changes:
                renamed[node] = local[key]
        return renamed, prefix, names

    def _arm_body(
        self, branch: Branch, side: Side, outs: list[Out], names: Mapping[str, str]
    ) -> tuple[str | None, str]:
        """The value that the arm returns (None: its body returns), and the lines before."""
        statements = side.statements
        if branch.target == RETURN:
            last = statements[-1]
            if isinstance(last, ast.Return) and last.value is not None:
                return self.code(last.value, side.force), self.block(statements[:-1], side.force, side.header)
            return None, self.block(statements, side.force, side.header)
        value = ", ".join(names[out.key] for out in outs)
        if len(outs) == 1 and statements:
            last = statements[-1]
            if (
                isinstance(last, ast.Assign)
                and len(last.targets) == 1
                and state.key_of(last.targets[0]) == outs[0].key
                and not (side.changes.get(outs[0].key) and side.changes[outs[0].key].in_place)
            ):
                return self.code(last.value, side.force), self.block(statements[:-1], side.force, side.header)
            if isinstance(last, ast.Expr) and (found := state.registered(last)) and last in self.renamed:
                return self.code(found[2], side.force), self.block(statements[:-1], side.force, side.header)
        value = value if len(outs) == 1 else f"({value})"
        body = self.block(statements, side.force, side.header)
        return (value if not body else value.strip("()") if len(outs) > 1 else value), body

    def _parameters(self, side: Side, outs: list[Out], body: str, prefix: str) -> str:
        """Names that the arm reads before it binds them anew: they come in as defaults."""
        function = ast.parse("def _():\n" + edit.reindent(prefix + body, "    ")).body[0]
        assert isinstance(function, ast.FunctionDef)
        both = flow.needed_first(function.body) & flow.binds(function.body)
        return ", ".join(f"{name}={name}" for name in sorted(both))

    def _assigned(self, outs: list[Out], call: str) -> str:
        if outs[0].key == RETURN:
            return edit.wrap_call(f"return {call}") + "\n"
        targets, behind = [], ""
        for out in outs:
            plain = out.change is None or not (out.change.attribute or out.in_place)
            if plain:
                targets.append(out.key)
                continue
            detached = "" if out.needs_grad else ".detach()"
            value = call if len(outs) == 1 else self.unused(f"new_{out.key.rpartition('.')[2]}")
            targets.append(value)
            behind += (
                f"{out.key}.copy_({value}{detached})\n"
                if out.in_place
                else f"{out.key} = {value}{detached}\n"
            )
        if len(outs) == 1 and behind:
            return edit.wrap_call(behind.rstrip("\n")) + "\n"
        return edit.wrap_call(f"{', '.join(targets)} = {call}") + "\n" + behind

    # --- expressions ------------------------------------------------------------------------------------------------

    def expression(self, node: ast.expr, force: Force) -> str:
        """The code that replaces an ``x if t else y`` or a ``t and u`` as a value. Raises Refused."""
        if isinstance(node, ast.BoolOp):
            return self._boolean(node, force)
        assert isinstance(node, ast.IfExp)
        test = self.tests.split(node.test, force)
        yes, no = {**force, **test.when_true}, {**force, **test.when_false}
        first, second = (node.body, yes), (node.orelse, no)
        if test.negated:
            first, second = second, first
        if any(isinstance(n, ast.NamedExpr) for part in (node.body, node.orelse) for n in ast.walk(part)):
            raise Refused("a side of the if expression binds a name", "Bind the name before the expression.")
        kind = self.agreement.of_expressions(first, second)
        codes = [self.code(part, force_) for part, force_ in (first, second)]
        sides = [Side([ast.Expr(part)], force_, node.lineno) for part, force_ in (first, second)]
        one_sided = Branch(node, test, sides[0], sides[1], None, ())
        if self.selecting and not test.python:
            hazard = next(
                (h for part, force_ in (first, second) if (h := self.selection.hazard(part, force_))), None
            )
            if hazard is None:
                values = self.selection.numbers(codes, kind)
                self.record(test, test.select_code(self.torch))
                self._note_one_sided(one_sided)
                self.selects += 1
                return f"{self.torch}.where({test.select_code(self.torch)}, {values[0]}, {values[1]})"
        if kind.number:
            raise Refused(
                f"`{self.source.code(node)}` chooses a Python number",
                "Choose between tensors, with torch.where.",
            )
        self.uses_cond = True
        self.record(test, test.tensor)
        self._note_one_sided(one_sided)
        return f"{self.cond}({test.branch_code()}, lambda: {codes[0]}, lambda: {codes[1]})"

    def _boolean(self, node: ast.BoolOp, force: Force) -> str:
        for value in node.values:
            found = self.facts.values(value, force=force or None)[0]
            if not found or any(fact.dtype != "torch.bool" or fact.shape != () for fact in found):
                raise Refused(
                    f"`{self.source.code(node)}` picks one of its operands by a tensor's value",
                    "Use `&` and `|` on boolean tensors, or torch.where.",
                )
        return self.tests.split(node, force).tensor

    def code(self, node: ast.expr, force: Force | None = None) -> str:
        """The code of an expression with everything inside it lowered and renamed."""
        return self.source.code(node, self._replaced([node], force or {}))

    def block(self, statements: Sequence[ast.stmt], force: Force, header: int | None = None) -> str:
        """The lines of statements with every tensor branch inside them lowered."""
        for index, statement in enumerate(statements):
            early = isinstance(statement, ast.If) and bool(list(flow.inside(statement, ast.Return)))
            if early and is_tensor_test(self.facts, statement.test, force):  # type: ignore[attr-defined]
                assert isinstance(statement, ast.If)
                front = self.block(statements[:index], force, header)
                return front + self.if_and_rest(statement, force)[0]
        return self.source.block(statements, self._replaced(statements, force), above=header)

    def _replaced(self, nodes: Sequence[ast.AST], force: Force) -> dict[ast.AST, str]:
        found: dict[ast.AST, str] = {}
        for node in nodes:
            if node in self.renamed:
                found[node] = self.renamed[node]
            elif isinstance(node, ast.If) and is_tensor_test(self.facts, node.test, force):
                code = self.if_and_rest(node, force)[0]
                if self.place.is_elif(node):
                    code = "else:\n" + edit.reindent(code, self.place.unit)
                found[node] = code
            elif isinstance(node, ast.IfExp) and is_tensor_test(self.facts, node.test, force):
                found[node] = self.expression(node, force)
            else:
                found.update(self._replaced(list(ast.iter_child_nodes(node)), force))
        return found

    def unused(self, base: str) -> str:
        """A name that nothing in the file uses."""
        name = edit.unused_name(self.source.tree, base, self.taken)
        self.taken.add(name)
        return name


@dataclass(frozen=True)
class Arm:
    """``name`` is what to pass to ``_cond``: a name or a lambda."""

    name: str
    definition: str


def _without_python(test: Test) -> Test:
    return replace(test, python=())


def _else_line(node: ast.If) -> int:
    return edit.position(node.body[-1])[2]


def _commented(comments: Sequence[str], lines: str) -> str:
    return "".join(f"{comment}\n" for comment in comments) + lines


def _first_binding(statements: Sequence[ast.stmt], name: str) -> tuple[int, int]:
    return min(
        (n.lineno, n.col_offset)
        for s in statements
        for n in ast.walk(s)
        if isinstance(n, ast.Name) and n.id == name and not isinstance(n.ctx, ast.Load)
    )


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
