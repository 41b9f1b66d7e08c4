"""A branch on a tensor becomes ``torch.where`` or ``torch.cond``; see `choice` for which.

The whole nest is lowered at once: an outer tensor branch takes the inner ones, its ``elif``s and, where an arm
returns early, the rest of the function with it, because nothing that breaks the graph may stay inside an arm.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace

from onegraph.lowering import builtin_helpers, early_returns, flow, gradient_blocks, helper, state
from onegraph.lowering.agreement import Agreement
from onegraph.lowering.branch_expression import Expressions
from onegraph.lowering.branch_outs import Outs
from onegraph.lowering.branch_text import as_if, spaced, without_pass
from onegraph.lowering.choice import Choice, called
from onegraph.lowering.conditional import Conditional
from onegraph.lowering.moves import Moves
from onegraph.lowering.parts import RETURN, Branch, Form, Side
from onegraph.lowering.place import Place, find
from onegraph.lowering.predicate import Force, Test, Tests, is_tensor_test
from onegraph.lowering.reached import Reached
from onegraph.lowering.refused import InGradientBlock, Refused, StateBehindReturn
from onegraph.lowering.select import Selected, Selection
from onegraph.lowering.source import Source
from onegraph.model import Candidate, Declined, Level, Predicate
from onegraph.rewrite import text as edit
from onegraph.rewrite.request import Facts, Request

KIND = "branch_on_tensor"


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
        except (StateBehindReturn, InGradientBlock) as refused:
            yield _written_first(request, place, refused)
            return
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


def _written_first(
    request: Request, place: Place, why: StateBehindReturn | InGradientBlock
) -> Candidate | Declined:
    """The same program with the branch in another form, which can be lowered."""
    try:
        if isinstance(why, InGradientBlock):
            title = "the block without gradients moves into the arms of its branch"
            text = gradient_blocks.moved_in(place, why, lambda n: is_tensor_test(request.facts, n.test, {}))
        else:
            title, text = early_returns.TITLE, early_returns.joined(place)
        ast.parse(text)
    except Refused:
        return Declined(KIND, why.reason, why.next_step)
    return Candidate(KIND, Level.EXACT, title, text, (place.qualname,), partial=True)


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
        self.expressions = Expressions(self)
        self.outs = Outs(self)
        self.moves = Moves(self)
        self.reached = Reached(self.facts, self.tests)
        self.facts_at = self.reached.at

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
            code = self.expressions.of(root, {})
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

    def lowered(self, branch: Branch) -> str:
        self.outs.refuse_unset(branch)
        outs = self.outs.of(branch)
        if not outs:
            return self._nothing(branch)
        self.outs.agree(branch, outs)
        if self.form is not Form.COND and branch.test.selectable:
            mark = self._mark()
            selected = self.selection.of(branch, outs)
            if not isinstance(selected, Selected):
                self._back_to(mark)
            else:
                self.moves.one_sided(branch)
                self.moves.aliases(branch, outs)
                self.moves.gradients(outs)
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
            outs = self.outs.of(branch)
            self.outs.agree(branch, outs)
            selected = self.selection.of(branch, outs)
        except Refused as refused:
            selected = refused.reason
        if not isinstance(selected, Selected):
            self._back_to(mark)
            return None
        self.moves.one_sided(branch)
        self.moves.aliases(branch, outs)
        self.moves.gradients(outs)
        self.record(test, test.select_code(self.torch))
        return branch, selected

    def record(self, test: Test, code: str) -> None:
        """Tells verification which value decides, before and after."""
        after = ast.unparse(ast.parse(code.strip(), mode="eval"))
        self.predicates += [Predicate(self.place.qualname, before, after) for before in test.before]

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
        return without_pass(as_if(self.source.block(statements, replaced, above=header)))

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
                found[node] = self.expressions.of(node, force)
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
        lowering.reached.measure([place.root], {})
    return lowering.facts_at


def _without_python(test: Test) -> Test:
    return replace(test, python=())


def _else_line(node: ast.If) -> int:
    return edit.position(node.body[-1])[2]
