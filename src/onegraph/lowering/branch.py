"""A branch on a tensor becomes ``torch.where`` or ``torch.cond``; see `choice` for which.

The whole nest is lowered at once: an outer tensor branch takes the inner ones, its ``elif``s and, where an
arm
returns early, the rest of the function with it, because nothing that breaks the graph may stay inside an arm.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from enum import Enum

from onegraph.lowering import builtin_helpers, fill, flow, helper, ops, state
from onegraph.lowering.agreement import Agreement
from onegraph.lowering.aliases import sharing
from onegraph.lowering.choice import Choice, called
from onegraph.lowering.conditional import Conditional
from onegraph.lowering.parts import RETURN, Branch, Out, Side
from onegraph.lowering.place import Place, find
from onegraph.lowering.predicate import Force, Forced, Test, Tests, is_tensor_test
from onegraph.lowering.refused import Refused
from onegraph.lowering.select import Selected, Selection
from onegraph.lowering.source import Source
from onegraph.model import Candidate, Declined, Level, Predicate
from onegraph.rewrite import text as edit
from onegraph.rewrite.request import UNDEFINED, Facts, Request

KIND = "branch_on_tensor"


class Form(Enum):
    """How the sides are chosen between, in the order in which it is tried."""

    WHERE = "torch.where"
    # For inputs with which the sides differ in dtype or shape.
    CHECKED = "torch.where where the sides are alike"
    COND = "torch.cond"


TWICE = 6  # statements of the rest of a function that may be written on both sides


def lower_branch(request: Request) -> Iterator[Candidate | Declined]:
    """Candidates for the tensor test at ``request.site.span``, best first: select where it is safe, then
    branch."""
    seen: set[str] = set()
    try:
        place = find(request)
    except Refused as refused:
        yield Declined(KIND, refused.reason, refused.next_step)
        return
    refusals: dict[str, Declined] = {}
    for form in Form:
        try:
            candidate = Lowering(request, place, form).candidate()
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
    form: Form
    predicates: list[Predicate] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    renamed: dict[ast.AST, str] = field(default_factory=dict)
    taken: set[str] = field(default_factory=set)
    uses_cond: bool = False
    selects: int = 0
    reached: dict[int, Facts] = field(default_factory=dict)
    fillers: dict[str, str] = field(default_factory=dict)  # for names that one path leaves unset

    def __post_init__(self) -> None:
        self.source = Source(self.request.text)
        self.facts = self.request.facts
        self.torch = helper.torch_name(self.request.text)
        self.cond = helper.helper_name(self.request.text)
        self.checked = helper.helper_name(self.request.text, "_where")
        self.helpers = {
            builtin_helpers.helper_name(self.request.text, each) for each in ("any", "all", "max", "min")
        }
        self.tests = Tests(self.source, self.facts, self.place.function, self.torch, self.cond)
        self.choice = Choice(self.facts, self.torch, gradients=self.place.gradients)
        self.agreement = Agreement(self.facts, self.source)
        self.selection = Selection(self)
        self.conditional = Conditional(self)

    # --- the whole ----------------------------------------------------------------------------------------

    def candidate(self) -> Candidate:
        """The candidate text. Raises Refused."""
        root = self.place.root
        if isinstance(root, ast.If):
            line = root.lineno
            code, last = self.if_and_rest(root, {})
            self.uses_cond = f"{self.cond}(" in code
            if code == "pass\n" and not self.place.alone(root):
                code = ""
            indent = edit.indent_of(self.request.text, line)
            if self.place.is_elif(root):
                code = "else:\n" + edit.reindent(code, self.place.unit)
            block = edit.reindent(spaced(code, self.source.text, line), indent)
            if self.source.text.encode().splitlines()[line - 1][: root.col_offset].strip():
                raise Refused(
                    "the branch shares its line with another statement", "Put it on a line of its own."
                )
            text = edit.replace_lines(self.request.text, line, edit.position(last)[2], block)
        else:
            assert isinstance(root, ast.expr)
            code = self.expression(root, {})
            self.uses_cond = f"{self.cond}(" in code
            text = self._replace_expression(root, code)
        checked = self.checked if f"{self.checked}(" in code else None
        text = helper.complete(text, cond=self.cond if self.uses_cond else None, where=checked)
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
            gives_way=self.form is Form.WHERE,
        )

    def _title(self) -> str:
        forms = [*(["torch.where"] if self.selects else []), *(["torch.cond"] if self.uses_cond else [])]
        what = "an if expression" if isinstance(self.place.root, ast.expr) else "an if on a tensor"
        if not forms and not self.notes:
            return f"{what} is dropped: nothing uses what it computes"
        return f"{what} becomes {' and '.join(forms) or 'straight code'}"

    def where(self, predicate: str, first: str, second: str, *, tensors: bool = True) -> str:
        """The choice between two codes; ``tensors``: not between numbers."""
        if first == second:
            return first
        function = self.checked if tensors and self.form is Form.CHECKED else f"{self.torch}.where"
        return f"{function}({predicate}, {first}, {second})"

    def _replace_expression(self, node: ast.expr, code: str) -> str:
        line, _, end_line, _ = edit.position(node)
        text = self.source.replaced_whole(node, code)
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

    # --- statements ---------------------------------------------------------------------------------------

    def if_and_rest(
        self, node: ast.If, force: Force, rest: list[ast.stmt] | None = None
    ) -> tuple[str, ast.stmt]:
        """The code that replaces an ``if`` (lines at indentation zero), and the last statement that it replaces.

        ``rest`` is what runs behind it; needed where an arm returns.
        """
        then, orelse = list(node.body), list(node.orelse)
        if not any(flow.inside([node], ast.Return)):
            return self._branch(node, then, orelse, None, force), node
        if rest is None:
            rest = self.place.rest(node)
        falling = [arm for arm in (then, orelse) if not flow.always_leaves(arm)]
        if len(falling) == 2 and sum(isinstance(n, ast.stmt) for s in rest for n in ast.walk(s)) > TWICE:
            raise Refused(
                f"the arm at line {then[0].lineno} returns on some of its paths only",
                "Give each path of the arm its own return, or return once, behind the branch.",
            )
        if falling and not flow.always_leaves(rest):
            raise Refused(
                "one path returns a value and the other returns None", "Return a tensor on every path."
            )
        then, orelse = (arm if flow.always_leaves(arm) else arm + rest for arm in (then, orelse))
        return self._branch(node, then, orelse, RETURN, force), (rest or [node])[-1] if falling else node

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
            inner = self.lowered(Branch(node, _without_python(test), first, second, target, comments))
            return hoisted + f"if {test.python_code()}:\n" + edit.reindent(inner, self.place.unit)
        return hoisted + self.lowered(branch)

    def _refuse_unset(self, branch: Branch) -> None:
        """Both sides run while a graph is made: what they read must be set on every path that leads there."""
        assert isinstance(branch.node, ast.If)
        needed = flow.needed_first(branch.first.statements) | flow.needed_first(branch.second.statements)
        own = needed & flow.binds(getattr(self.place.function, "body", []))
        for name, found in self.facts.names(branch.node, sorted(own)).items():
            if any(fact.type == UNDEFINED for fact in found):
                raise Refused(
                    f"`{name}` is not set on every path to the branch", f"Give `{name}` a value before it."
                )

    def lowered(self, branch: Branch) -> str:
        self._refuse_unset(branch)
        outs = self._outs(branch)
        if not outs:
            return self._nothing(branch)
        self._agree(branch, outs)
        if self.form is not Form.COND and branch.test.selectable:
            mark = self._mark()
            selected = self.selection.of(branch, outs)
            if not isinstance(selected, Selected):
                self._back_to(mark)
            else:
                self.note_one_sided(branch)
                self.note_aliases(branch, outs)
                self.note_gradients(outs)
                self.selects += 1
                return self._written(branch, self.selection.written(branch, outs, selected))
        return self._written(branch, self.conditional.of(branch, outs))

    def _nothing(self, branch: Branch) -> str:
        """The code of a branch that leaves nothing behind. Raises Refused where a call in it may do something."""
        assert isinstance(branch.node, ast.If)
        for statement in (s for s in ast.walk(branch.node) if isinstance(s, ast.stmt)):
            held = (n for n in ast.iter_child_nodes(statement) if not isinstance(n, ast.stmt))
            for node in (n for part in held for n in ast.walk(part) if isinstance(n, ast.Call)):
                ours = called(node) in self.helpers
                if not ours and not self.choice.only_computes(node, self.facts_at(statement)):
                    raise Refused(
                        f"the branch computes nothing that is used later, but `{ast.unparse(node.func)}` may do more",
                        "Delete the branch if it doesn't.",
                    )
        return "pass\n"

    def _mark(self) -> tuple[int, int, int, set[str]]:
        return len(self.predicates), len(self.notes), self.selects, set(self.taken)

    def _back_to(self, mark: tuple[int, int, int, set[str]]) -> None:
        """Forgets what an attempt that came to nothing has noted."""
        del self.predicates[mark[0] :], self.notes[mark[1] :]
        self.selects, self.taken = mark[2], mark[3]

    def _written(self, branch: Branch, lines: str) -> str:
        """The lines under the comments of the branch; comments that moved with their statements stay with
        them."""
        return "".join(f"{comment}\n" for comment in branch.comments if comment not in lines) + lines

    def selected(self, node: ast.If, force: Force) -> tuple[Branch, Selected] | None:
        """A nested ``if`` as one expression for each thing it makes; None where it has to stay a branch."""
        try:
            test = self.tests.split(node.test, force)
        except Refused:
            return None
        if not test.selectable:
            return None
        yes, no = {**force, **test.when_true}, {**force, **test.when_false}
        first, second = Side(list(node.body), yes, node.lineno), Side(list(node.orelse), no, node.lineno)
        if test.negated:
            first, second = second, first
        branch = Branch(node, test, first, second, None, ())
        mark = self._mark()
        selected: Selected | str
        try:
            outs = self._outs(branch)
            self._agree(branch, outs)
            selected = self.selection.of(branch, outs)
        except Refused as refused:
            selected = refused.reason
        if not isinstance(selected, Selected):
            self._back_to(mark)
            return None
        self.note_one_sided(branch)
        self.note_aliases(branch, outs)
        self.note_gradients(outs)
        self.record(test, test.select_code(self.torch))
        return branch, selected

    def _outs(self, branch: Branch) -> list[Out]:
        assert isinstance(branch.node, ast.If)
        for side in (branch.first, branch.second):
            self.measure(side.statements, side.force)
            side.changes = self._outside(state.changes(side.statements, self.facts_at), side)
        if branch.target == RETURN:
            for key in (*branch.first.changes, *branch.second.changes):
                raise Refused(
                    f"`{key}` is changed on a path that returns early", "Return once, behind the change."
                )
            return [Out(RETURN)]
        live = self.place.live_after(branch.node)
        outs: dict[str, Out] = {}
        for side in (branch.first, branch.second):
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
            out.register = _registering(key, (branch.first, branch.second))
            if out.in_place:
                self._refuse_mixed(key, branch)
            if not out.attribute:
                self._check_defined(branch, key, out)
        return list(outs.values())

    def measure(self, statements: Sequence[ast.stmt], force: Force) -> None:
        """Notes how each statement in a side is reached."""
        self.reached.update(
            {id(node): Forced(self.facts, each) for node, each in self._forces(statements, force)}
        )

    def facts_at(self, statement: ast.stmt) -> Facts:
        """The facts of a statement, measured on the way that leads to it."""
        return self.reached.get(id(statement), self.facts)

    def _forces(self, statements: Sequence[ast.stmt], force: Force) -> Iterator[tuple[ast.stmt, Force]]:
        """Each statement in a side, with the outcomes of tensor conditions that lead to it."""
        for statement in statements:
            yield statement, force
            yes = no = force
            if isinstance(statement, ast.If) and is_tensor_test(self.facts, statement.test, force):
                with suppress(Refused):  # the reason comes up when the branch is lowered
                    test = self.tests.split(statement.test, force)
                    yes, no = {**force, **test.when_true}, {**force, **test.when_false}
            for name in ("body", "orelse", "finalbody"):
                yield from self._forces(getattr(statement, name, []), no if name == "orelse" else yes)
            for case in getattr(statement, "cases", []):
                yield from self._forces(case.body, force)

    def _outside(self, found: dict[str, state.Change], side: Side) -> dict[str, state.Change]:
        """The changes that can be seen outside the side: not those of tensors that it made itself."""
        needed = flow.needed_first(side.statements)
        return {
            key: change
            for key, change in found.items()
            if change.attribute or (key in needed and not self.place.made_new_first(key, side.statements))
        }

    def _refuse_mixed(self, key: str, branch: Branch) -> None:
        """A tensor changed in place and a name bound anew can't both be written back."""
        for side in (branch.first, branch.second):
            plain = list(flow.inside(side.statements, ast.Assign, ast.AnnAssign, ast.For, ast.With))
            targets = {
                n.id
                for s in plain
                for n in ast.walk(s)
                if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)
            }
            if key in targets:
                raise Refused(f"`{key}` is changed in place and bound anew", "Do one of the two.")

    def _fresh(self, change: state.Change, node: ast.stmt) -> bool:
        """Whether nobody else can see the storage of the tensor, so that a new tensor may take the name."""
        return (
            not change.attribute
            and isinstance(node, ast.If)
            and self.place.is_fresh(change.key, node, self.facts)
        )

    def _check_defined(self, branch: Branch, name: str, out: Out) -> None:
        sides = [name in flow.binds(side.statements) for side in (branch.first, branch.second)]
        if all(sides) and out.change is None:
            return
        assert isinstance(branch.node, ast.If)
        before = self.facts.names(branch.node, [name])[name]
        undefined = any(fact.type == UNDEFINED for fact in before)
        if undefined or (not before and not self.place.bound_before(name, branch.node)):
            side = branch.first if sides[0] else branch.second
            filler = fill.filler(self.facts, self.torch, branch.node, name, side.force)
            if filler is None or all(sides) or not self.place.read_only_under(name, branch.node):
                raise Refused(
                    f"`{name}` is set on one path only and used later",
                    f"Give `{name}` a value before the branch.",
                )
            self.fillers[name] = filler

    def _agree(self, branch: Branch, outs: list[Out]) -> None:
        for out in outs:
            if out.key == RETURN:
                out.kinds = self.agreement.of_returns(branch.first, branch.second)
            elif out.change is not None and out.change.attribute:
                out.kinds = [
                    self.agreement.of_attribute(out.key, self.place.function, branch.first, branch.second)
                ]
            elif isinstance(branch.node, ast.If):
                out.kinds = [self.agreement.of_name(out.key, branch.node, branch.first, branch.second)]

    def record(self, test: Test, code: str) -> None:
        """Tells verification which value decides, before and after."""
        after = ast.unparse(ast.parse(code.strip(), mode="eval"))
        self.predicates += [Predicate(self.place.qualname, before, after) for before in test.before]

    def note_one_sided(self, branch: Branch) -> None:
        names = self.place.one_sided(
            branch.first.statements, branch.second.statements, branch.node, self.facts
        )
        if names and self.choice.gradients:
            listed = ", ".join(f"`{name}`" for name in names)
            self.notes.append(
                f"{listed}: used on one side only; when the other side runs, the gradient is zero, not None"
            )

    def note_gradients(self, outs: Sequence[Out], joined: Sequence[Out] = ()) -> None:
        """What comes out of one choice requires a gradient on both sides; ``joined``: if one of these does, all do."""
        if not self.choice.gradients:
            return
        for out in outs:
            if out.mixed:
                words = "requires a gradient on one side only; in the graph it does on both"
                self.notes.append(f"{_name(out)} {words}")
        kinds = [(_name(out), kind) for out in joined for kind in out.kinds]
        beside = next((name for name, kind in kinds if kind.requires_grad), None)
        for name, kind in kinds if beside is not None else ():
            if not (kind.requires_grad or kind.discrete or kind.number or kind.constant):
                self.notes.append(f"in the graph {name} requires a gradient, as {beside} beside it")

    def note_aliases(self, branch: Branch, outs: Sequence[Out]) -> None:
        """A side that hands a tensor on as it is: in the graph a copy takes its place."""
        for out in outs:
            handed = [name for side in (branch.first, branch.second) if (name := handed_on(side, out.key))]
            if not handed:
                continue
            self._refuse_changed_behind((out.key, *handed), handed[0], branch.node)
            if not self.place.gradients and out.needs_grad:
                raise Refused(
                    f"without gradients a choice loses those of `{handed[0]}`, which the branch hands on as it is",
                    "Move the branch out of the block without gradients, or detach the tensor.",
                )
            if out.key == RETURN or out.attribute or self.place.escapes(out.key, branch.node):
                self._note_alias(handed[0])

    def _refuse_changed_behind(self, keys: Sequence[str], handed: str, node: ast.AST) -> None:
        """An in-place change behind the branch reaches both names of one tensor, but only one of two copies."""
        at = node if isinstance(node, ast.stmt) else self.place.statement
        if at is not None and handed.isidentifier():
            keys = [*keys, *sharing(handed, at, self.place.function, self.facts)]
        for key in keys:
            if (written := self.place.written_in_place_behind(key, node)) is not None:
                raise Refused(
                    f"the branch hands `{handed}` on as it is, and line {written.lineno} changes it in place",
                    f"Hand a copy on, on that side of the branch (`else:`, where it has none): `{handed}.clone()`.",
                )

    def _note_alias(self, code: str) -> None:
        self.notes.append(f"where the branch hands `{code}` on as it is, a copy takes its place")

    def _hoist_memos(
        self, then: list[ast.stmt], orelse: list[ast.stmt]
    ) -> tuple[str, list[ast.stmt], list[ast.stmt]]:
        """``if not hasattr(self, "k"): self.k = ...`` moves in front of the branch: it is made on both
        paths."""
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

    @contextmanager
    def renaming(self) -> Iterator[None]:
        """Replacements that are noted inside hold inside."""
        before = dict(self.renamed)
        try:
            yield
        finally:
            self.renamed = before

    # --- expressions --------------------------------------------------------------------------------------

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
        node_key = self.source.code(node)
        handed = [ast.unparse(part) for part in (node.body, node.orelse) if _is_alias(part)]
        if handed and not self.place.only_computed_with(node):
            self._refuse_changed_behind((*self.place.targets(node), *handed), handed[0], node)
            self._note_alias(handed[0])
        self.note_gradients([Out(node_key, kinds=[kind])])
        if self.form is not Form.COND and test.selectable:
            hazard = next(
                (h for part, force_ in (first, second) if (h := self.selection.hazard(part, force_))), None
            )
            if hazard is None:
                values = self.selection.numbers(codes, kind)
                self.record(test, test.select_code(self.torch))
                self.note_one_sided(one_sided)
                self.selects += 1
                predicate = test.select_code(self.torch)
                return self.where(predicate, values[0], values[1], tensors=not kind.number)
        if kind.number:
            raise Refused(
                f"`{self.source.code(node)}` chooses a Python number",
                "Choose between tensors, with torch.where.",
            )
        self.conditional.refuse_random(one_sided)
        self.record(test, test.tensor)
        self.note_one_sided(one_sided)
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
                return front + self.if_and_rest(statement, force, list(statements[index + 1 :]))[0]
        replaced: dict[ast.AST, str] = {}
        for statement in statements:
            replaced.update(self._replaced([statement], force, alone=True))
        return _without_pass(_as_if(self.source.block(statements, replaced, above=header)))

    def _replaced(self, nodes: Sequence[ast.AST], force: Force, *, alone: bool = False) -> dict[ast.AST, str]:
        found: dict[ast.AST, str] = {}
        for node in nodes:
            if node in self.renamed:
                found[node] = self.renamed[node]
            elif isinstance(node, ast.If) and is_tensor_test(self.facts, node.test, force):
                code = self.if_and_rest(node, force)[0]
                if self.place.is_elif(node) and not alone:
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


def measured_in(request: Request, place: Place) -> Callable[[ast.stmt], Facts]:
    """The facts of each statement in the arms of a branch."""
    lowering = Lowering(request, place, Form.COND)
    if isinstance(place.root, ast.If):
        lowering.measure([place.root], {})
    return lowering.facts_at


def handed_on(side: Side, key: str) -> str | None:
    """The source of a tensor that the side passes on itself, not something computed from it; or None."""
    last: ast.expr | None = None
    for statement in side.statements:
        if isinstance(statement, ast.Return) and key == RETURN:
            parts = statement.value.elts if isinstance(statement.value, ast.Tuple) else [statement.value]
            last = next((part for part in parts if part is not None and _is_alias(part)), None)
        elif isinstance(statement, ast.Assign) and key in {state.key_of(t) for t in statement.targets}:
            last = statement.value
        elif key in flow.binds(statement):
            return None
    if last is None:
        return None if key == RETURN or key in flow.binds(side.statements) else key
    return ast.unparse(last) if _is_alias(last) else None


def _as_if(lines: str) -> str:
    """An ``elif`` that became the whole of a side is an ``if`` there; comments may stand above it."""
    rows = lines.splitlines(keepends=True)
    first = next((n for n, row in enumerate(rows) if row.strip() and not row.startswith("#")), None)
    if first is not None and rows[first].startswith("elif"):
        rows[first] = rows[first][2:]
    return "".join(rows)


def _without_pass(lines: str) -> str:
    """The lines without a ``pass`` that stands next to other statements."""
    body = ast.parse(lines).body
    rows = lines.splitlines(keepends=True)
    passed = [s.lineno - 1 for s in body if isinstance(s, ast.Pass) and rows[s.lineno - 1].strip() == "pass"]
    if len(passed) == len(body):
        return lines
    return "".join(row for number, row in enumerate(rows) if number not in passed)


def _is_alias(node: ast.expr) -> bool:
    if isinstance(node, ast.Name | ast.Attribute):
        return True
    return isinstance(node, ast.Subscript) or (isinstance(node, ast.Call) and called(node) in ops.VIEWS)


def _registering(key: str, sides: Sequence[Side]) -> str | None:
    """``self.register_buffer("x", \\0, persistent=False)``, where every side that writes ``self.x`` does
    it so last."""
    forms = set()
    for side in sides:
        if (change := side.changes.get(key)) and change.writes:
            call = ast.unparse(change.writes[-1])
            found = state.registered(change.writes[-1])
            forms.add(call.replace(ast.unparse(found[2]), "\0", 1).replace("'", '"') if found else None)
    return forms.pop() if len(forms) == 1 else None


def _name(out: Out) -> str:
    return (
        f"`{out.key}`"
        if out.key != RETURN
        else "a returned value"
        if len(out.kinds) > 1
        else "the returned value"
    )


def _without_python(test: Test) -> Test:
    return replace(test, python=())


def _else_line(node: ast.If) -> int:
    return edit.position(node.body[-1])[2]


def _first_binding(statements: Sequence[ast.stmt], name: str) -> tuple[int, int]:
    return min(
        (n.lineno, n.col_offset)
        for s in statements
        for n in ast.walk(s)
        if isinstance(n, ast.Name) and n.id == name and not isinstance(n.ctx, ast.Load)
    )


def spaced(code: str, text: str, line: int) -> str:
    """Blank lines before nested functions, as formatters set them."""
    rows = edit.lines(text)
    before = rows[line - 2] if line > 1 else ":"
    spaced: list[str] = []
    for row in code.splitlines(keepends=True):
        previous = spaced[-1] if spaced else before
        opens = previous.rstrip().endswith(":") or not previous.strip() or previous.lstrip().startswith("#")
        if row.lstrip().startswith("def ") and not opens:
            spaced.append("\n")
        spaced.append(row)
    return "".join(spaced)
