"""A loop that a tensor ends becomes one graph.

First its exits become flags (`loop_exits`), in text that runs and does the same; then that text is measured, and
its guards are lowered as branches (`loop_guard`). Inner loops come first.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from onegraph.lowering import attributes_local, flow, helper, loop_helper, match_cases
from onegraph.lowering.branch_text import spaced
from onegraph.lowering.loop_exits import Exits
from onegraph.lowering.loop_guard import Guard, bound_in
from onegraph.lowering.loop_in_text import Loop, tensor_exits
from onegraph.lowering.loop_while import WhileLoop, needs_while, trips_unknown
from onegraph.lowering.place import Place
from onegraph.lowering.predicate import Tests, is_tensor_test
from onegraph.lowering.refused import Refused
from onegraph.lowering.source import Source
from onegraph.model import Candidate, Declined, Level, Predicate
from onegraph.rewrite import text as edit
from onegraph.rewrite.request import Facts, Request

KIND = "loop_on_tensor"
ROUNDS = 16  # steps for the loops of one nest


def lower_loop(request: Request) -> Iterator[Candidate | Declined]:
    """Candidates for the loop whose exit stands at ``request.site.span``, best first."""
    refusals: dict[str, Declined] = {}
    seen: set[str] = set()
    for selecting in (True, False):
        lowered = _Lowered(request, selecting)
        try:
            candidate = lowered.candidate()
        except Refused as refused:
            refusals.setdefault(refused.reason, Declined(KIND, refused.reason, refused.next_step))
            continue
        if (left := lowered.left) is not None:
            refusals.setdefault(left.reason, Declined(KIND, left.reason, left.next_step))
        if candidate.text not in seen:
            seen.add(candidate.text)
            yield candidate
    yield from refusals.values()


@dataclass
class _Lowered:
    """One attempt at the loops around a site."""

    request: Request
    selecting: bool
    notes: list[str] = field(default_factory=list)
    predicates: list[Predicate] = field(default_factory=list)
    forms: set[str] = field(default_factory=set)
    left: Refused | None = None  # why the early return behind the loop stayed a branch

    def candidate(self) -> Candidate:
        """Raises Refused."""
        request = self.request
        self.qualname, number = _where(request)
        text, facts = request.text, request.facts
        for _ in range(ROUNDS):
            function = _function(text, self.qualname)
            outermost = _loops(function)[number]
            loop = _innermost(outermost, facts)
            if loop is None:
                break
            step = _first_step(text, loop, facts)
            if step is not None:
                text = step
            else:
                text = self._lowered(text, facts, function, loop)
                if loop is outermost:
                    break
            facts = self._measure(text)
        ast.parse(text)
        if text == request.text:
            raise Refused("no tensor decides an exit of the loop", "Record a call on which one does.")
        notes = tuple(dict.fromkeys(self.notes))
        level = Level.RELAXED if notes else Level.EXACT
        title = f"a loop that a tensor ends becomes {' and '.join(sorted(self.forms)) or 'straight code'}"
        return Candidate(
            KIND, level, title, text, (self.qualname,), notes, tuple(dict.fromkeys(self.predicates))
        )

    def _measure(self, text: str) -> Facts:
        assert self.request.measure is not None, "loops are lowered in steps, and each is measured"
        return self.request.measure(text, (self.qualname,))

    # --- one loop -----------------------------------------------------------------------------------------

    def _lowered(self, text: str, facts: Facts, function: ast.FunctionDef, loop: Loop) -> str:
        source = Source(text)
        if source.text.encode().splitlines()[loop.lineno - 1][: loop.col_offset].strip():
            raise Refused("the loop shares its line with another statement", "Put it on a line of its own.")
        taken: set[str] = set()

        def unused(base: str) -> str:
            taken.add(name := edit.unused_name(source.tree, base, taken))
            return name

        torch, cond = helper.torch_name(text), helper.helper_name(text)
        names = loop_helper.names_in(text)
        common: dict[str, Any] = {
            "source": source,
            "facts": facts,
            "function": function,
            "qualname": self.qualname,
            "loop": loop,
            "tests": Tests(source, facts, function, torch, cond),
            "torch": torch,
            "unit": edit.indent_unit(text),
            "unused": unused,
        }
        if trips_unknown(loop, facts):
            whole = WhileLoop(**common, helper=names["_while_loop"], trips=names["_trips"])
            try:
                lines = whole.text()
            except Refused:
                if needs_while(loop, facts):
                    raise
                taken.clear()
            else:
                lines = edit.reindent(spaced(lines, text, loop.lineno), edit.indent_of(text, loop.lineno))
                self.predicates += whole.predicates
                self.notes += whole.notes
                self.forms.add("torch.while_loop")
                text = edit.replace_lines(text, loop.lineno, edit.position(loop)[2], lines)
                text = helper.complete(text, cond=cond if f"{cond}(" in lines else None)
                return loop_helper.complete(text, names)
        helpers = {"_last": names["_last"], "_stacked": names["_stacked"]}
        exits = Exits(
            **common,
            last_helper=helpers["_last"],
            stacked_helper=helpers["_stacked"],
            rest=_behind(function, loop),
        )
        lines = edit.reindent(exits.text(), edit.indent_of(text, loop.lineno))
        assert exits.last is not None
        text = edit.replace_spans(text, exits.lists.behind)
        between = edit.replace_lines(text, loop.lineno, edit.position(exits.last)[2], lines)
        before = len(between.splitlines())
        between = loop_helper.complete(between, helpers)  # the text in between runs
        if f"{cond}(" in lines:
            between = helper.complete(between, cond=cond)
        first = loop.lineno + len(between.splitlines()) - before
        self.predicates += exits.predicates
        return self._guards(between, exits, first, first + len(lines.splitlines()), taken)

    def _guards(self, text: str, exits: Exits, first: int, end: int, taken: set[str]) -> str:
        """Every guard between two lines becomes a branch in the graph."""
        facts = self._measure(text)
        request = Request(self.request.site, self.request.path, text, self.request.level, facts)
        function = _function(text, self.qualname)
        guards = [node for node in _outermost(function, set(exits.made)) if first <= node.lineno < end]
        if len(guards) != exits.guards:
            raise AssertionError(f"{exits.guards} guards were written, {len(guards)} are there:\n{text}")
        free = [node for number, node in enumerate(guards) if number in exits.free]
        loops = [n for n in ast.walk(function) if isinstance(n, Loop) and first <= n.lineno < end]
        own = frozenset[str]().union(*(bound_in(n) for n in loops))
        edits: list[tuple[int, int, str]] = []
        cond, names = helper.helper_name(text), loop_helper.names_in(text)
        for node in guards:
            place = Place(text, node, function, self.qualname)
            guard = Guard(
                request,
                place,
                selecting=self.selecting,
                flags=frozenset(exits.flags),
                made=frozenset(exits.made),
                first=free,
                own=own,
                advance=names["_advance"],
            )
            guard.taken |= taken
            try:
                if matches := match_cases.on_tensors(guard.rest_of(node), facts):
                    raise Refused(
                        f"a `match` on a tensor behind an early return (line {matches[0].lineno})",
                        "Use `if`.",
                    )
                code, last = guard.if_and_rest(node, {})
            except Refused as refused:
                if not any(flow.inside(node, ast.Return)):
                    raise
                self.left = (
                    refused  # an early return, as one that stands in no loop: a branch with a site of its own
                )
                continue
            code = "" if code == "pass\n" and not place.alone(node) else code
            block = edit.reindent(spaced(code, text, node.lineno), edit.indent_of(text, node.lineno))
            edits.append((node.lineno, edit.position(last)[2], block))
            taken |= guard.taken
            self.forms |= {"torch.cond"} if f"{cond}(" in code or guard.uses_advance else set()
            self.forms |= {"torch.where"} if guard.selects else set()
            self.notes += guard.notes
            self.predicates += guard.predicates
        edited = edit.replace_spans(text, [(top, 0, bottom + 1, 0, block) for top, bottom, block in edits])
        edited = loop_helper.complete(edited, names)
        return helper.complete(edited, cond=cond if f"{cond}(" in edited else None)


# --- where is it? -------------------------------------------------------------------------------------------


def _where(request: Request) -> tuple[str, int]:
    """The function around the site, and the number of its outermost loop that a tensor ends. Raises Refused."""
    tree = edit.parse(request.text)
    path = edit.path_at(tree, request.site.span)
    index = next((i for i in range(len(path) - 1, -1, -1) if isinstance(path[i], edit.Function)), None)
    function = path[index] if index is not None else None
    if isinstance(function, ast.AsyncFunctionDef):
        raise Refused("the loop stands in an `async` function", "Move it into a function of its own.")
    if not isinstance(function, ast.FunctionDef) or index is None:
        raise Refused("the loop stands at module level", "Move it into a function.")
    if any(flow.inside(function.body, ast.Yield, ast.YieldFrom)):
        raise Refused("the loop stands in a generator", "Collect the values in a list and return it.")
    around = [
        n for n in path[index + 1 :] if isinstance(n, Loop) and _innermost(n, request.facts) is not None
    ]
    if not around:
        raise Refused("no tensor decides an exit of the loop", "Record a call on which one does.")
    qualname = next(name for name, node in edit.functions(tree) if node is function)
    number = next(i for i, loop in enumerate(_loops(function)) if loop is around[0])
    return qualname, number


def _first_step(text: str, loop: Loop, facts: Facts) -> str | None:
    """The text in which the loop is written another way, before its exits become flags; None where nothing is to do."""
    if matches := match_cases.on_tensors([loop], facts):
        return match_cases.as_ifs(text, matches[-1])
    keys = attributes_local.wanted_in(loop, facts)
    return attributes_local.localised(text, loop, keys, lambda _: facts) if keys else None


def _loops(function: ast.FunctionDef) -> list[Loop]:
    """The loops of a function in the order of the text, an outer one before those in it."""
    return [n for n in flow.inside(function.body, ast.For, ast.While) if isinstance(n, Loop)]


def _innermost(loop: Loop, facts: Facts) -> Loop | None:
    """The first loop, from the inside out, that a tensor ends; None when there is none left."""
    for node in flow.inside([*loop.body, *loop.orelse], ast.For, ast.While):
        assert isinstance(node, Loop)
        if (inner := _innermost(node, facts)) is not None:
            return inner
    tested = isinstance(loop, ast.While) and is_tensor_test(facts, loop.test, {})
    return loop if tested or tensor_exits(loop, facts) or needs_while(loop, facts) else None


def _function(text: str, qualname: str) -> ast.FunctionDef:
    found = next(node for name, node in edit.functions(edit.parse(text)) if name == qualname)
    assert isinstance(found, ast.FunctionDef)
    return found


def _behind(function: ast.FunctionDef, loop: Loop) -> list[ast.stmt]:
    """The statements behind a loop that stands in the function's own block."""
    at = next((i for i, s in enumerate(function.body) if s is loop), None)
    return [] if at is None else function.body[at + 1 :]


def _outermost(function: ast.FunctionDef, flags: set[str]) -> list[ast.If]:
    """The guards on these flags that stand in no other guard, in the order of the text."""
    found: list[ast.If] = []

    def visit(node: ast.AST) -> None:
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.If) and _flag(child.test) in flags:
                found.append(child)
            elif not isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | ast.Lambda):
                visit(child)

    visit(function)
    return found


def _flag(test: ast.expr) -> str:
    while isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        test = test.operand
    return test.id if isinstance(test, ast.Name) else ""
