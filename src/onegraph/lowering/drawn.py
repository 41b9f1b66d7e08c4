"""Statements that draw random numbers become one op, which draws them when the compiled program gets there.

It draws from the streams that the statements name: Python's, NumPy's, a generator of their own or one that an object
keeps, torch's under a state that is put back. What they hand on takes no part in gradients: a tensor, an array, a
number, or a list of ints, which becomes a tensor where all that is done with it is to index tensors.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from onegraph.lowering import effect_text, host_op, op_given, pure_code, streams
from onegraph.lowering.described import described
from onegraph.lowering.effect_scope import Scope, scope_of, stores
from onegraph.lowering.host_op_text import Op, with_op
from onegraph.lowering.host_shapes import SCALARS, fake_of
from onegraph.lowering.index_uses import only_indexes
from onegraph.lowering.object_by_id import Keeper, keeper_in
from onegraph.lowering.op_given import Given, NotPassable
from onegraph.lowering.op_text import with_call
from onegraph.lowering.refused import Refused
from onegraph.lowering.seeding import check_nothing_drawn
from onegraph.lowering.source import Source
from onegraph.lowering.written import blocks_around, read_behind
from onegraph.model import Candidate, Declined, Level
from onegraph.rewrite import text as text_
from onegraph.rewrite.request import Fact, Request

LONGEST = 8  # statements in a run
_NOTES = (
    "it runs in Python when the compiled program gets there; a CUDA graph is split at it",
    "a result of another size or dtype than {} is an error in the compiled program",
    "with arguments of another type, dtype or rank than the recorded ones the graph ends there as before",
)
_ONE_GRAPH = (
    "each object that keeps a stream so has a graph of its own, where the compiled function starts at it"
)


def drawn_in_op(request: Request, kind: str) -> Iterator[Candidate | Declined]:
    """The smallest run of statements around the site that draws, as an op; nothing where none draws."""
    tree = text_.parse(request.text)
    statement = text_.statement_at(tree, request.site.span)
    scope = scope_of(tree, statement) if statement is not None else None
    if statement is None or scope is None or scope.function is None:
        return
    refused: Refused | None = None
    for block, at in blocks_around(scope, statement):
        for end in range(at + 1, min(len(block), at + LONGEST) + 1):
            try:
                yield _from_where_it_can(request, tree, scope, block, (at, end), kind)
                return
            except _NothingDrawn:
                break
            except Refused as error:
                refused = refused or error
    if refused is not None:
        yield Declined(kind, refused.reason, refused.next_step)


class _NothingDrawn(Exception):
    """The statements draw no random numbers."""


def _from_where_it_can(
    request: Request, tree: ast.Module, scope: Scope, block: list[ast.stmt], place: tuple[int, int], kind: str
) -> Candidate:
    """The statements at a place as an op, with those above from where what no op can take is made (a generator), or a
    list that is shuffled. Raises Refused."""
    at, end = place
    while True:
        try:
            return _Run(request, tree, scope, block[at:end]).candidate(kind)
        except NotPassable as error:
            made = [s for s in block[:at] if isinstance(s, ast.Assign | ast.AnnAssign | ast.With)]
            made = [s for s in made if error.name in stores(s)]
            if not made:
                raise
            at = block.index(made[-1])


def may_be_result(fact: Fact) -> bool:
    """Whether a value can come out of such an op."""
    if fact.is_tensor:
        return not fact.requires_grad
    return fact.type in ("numpy.ndarray", *SCALARS) or (fact.type == "list" and bool(fact.items))


@dataclass(frozen=True, slots=True)
class _Result:
    """A name that the op gives: what to make of it there, and of what comes out."""

    name: str
    fact: Fact  # of the tensor
    given: str
    taken: str = ""


class _Run:
    """Statements that stand behind each other, and may become an op."""

    def __init__(
        self, request: Request, tree: ast.Module, scope: Scope, statements: Sequence[ast.stmt]
    ) -> None:
        self.request, self.tree, self.scope, self.statements = request, tree, scope, list(statements)
        self.found = streams.drawn(request, tree, scope, statements)
        if not self.found.draws:
            raise _NothingDrawn
        assert scope.function is not None
        self.function = scope.function
        reads, _ = pure_code.exposed(self.statements)
        self.reads = frozenset(reads & scope.names)

    def candidate(self, kind: str) -> Candidate:
        """The file with the op. Raises Refused."""
        text, statements = self.request.text, self.statements
        for statement in statements:
            if not effect_text.owns_lines(text, statement) or effect_text.is_elif(text, statement):
                raise Refused("The code shares its lines with other statements.", "Put it on its own lines.")
        streams.check_values(self.request, self.scope, statements)
        self.found.check_order()
        if self.found.seeds:
            check_nothing_drawn(self.request, self.scope, statements[0])
        pure_code.check(self.tree, statements, self.scope.names, also=self.found.allowed)
        self._check_unchanged()
        keepers = self.found.kept
        given = self._given()
        results = self._results()
        torch = text_.ensure_torch_import(text)[1]
        fakes = [self._fake(each, given, torch) for each in results]
        keeper = keeper_in(text, torch) if keepers else None
        op = self._op(text, torch, given, results, fakes, keeper)
        passed = [_argument(each) for each in given]
        if keeper is not None:
            passed.append(keeper.argument(self.found.owner))
        names = ", ".join(each.name for each in results)
        behind = results[0].taken if len(results) == 1 else ""
        call = f"{names} = {op.name}({', '.join(passed)}){behind}"
        if len(results) > 1:
            call += "".join(f"\n{each.name} = {each.name}{each.taken}" for each in results if each.taken)
        changed = with_call(text, statements, call)
        done = with_op(changed, text_.position(self.scope.parents[0])[0], op, torch)
        if keeper is not None:
            done = keeper.added(done)
        first, last = statements[0].lineno, text_.position(statements[-1])[2]
        lines = f"line {first}" if first == last else f"lines {first} to {last}"
        shown = " and ".join(f"`{each.name}`" for each in results)
        qualified = next(q for q, node in text_.functions(self.tree) if node is self.function)
        notes = [note.format(op.fake) for note in _NOTES] + ([_ONE_GRAPH] if keeper is not None else [])
        title = f"{lines}: one op that draws {shown}"
        return Candidate(kind, Level.RELAXED, title, done, (qualified,), tuple(notes))

    def _given(self) -> list[Given]:
        """What goes in: of a tensor only what describes it, where that is enough."""
        kept = {id(n) for each in self.found.kept for n in ast.walk(each)}
        attributes = [
            n for s in self.statements for n in ast.walk(s) if isinstance(n, ast.Attribute | ast.Name)
        ]
        but = {n for n in attributes if any(id(inner) in kept for inner in ast.walk(n))}
        told = described(self.request, self.scope, self.statements, self.reads)
        roots = {each.root for each in told}
        rest = self.reads - roots
        return [*told, *op_given.given(self.request, self.scope, self.statements, rest, but)]

    def _check_unchanged(self) -> None:
        """Raises Refused where the statements write into what they get; NotPassable for a list, whose making may
        come along."""
        places = [*pure_code.written_roots(self.statements), *self.found.shuffled]
        for place in places:
            root = pure_code.root_of(place)
            if isinstance(root, ast.Name) and root.id in self.reads:
                raise NotPassable(
                    root.id,
                    f"Line {place.lineno} changes `{root.id}`, which is there before.",
                    f"Draw into a copy of `{root.id}`.",
                )
            if not isinstance(root, ast.Name) or isinstance(place, ast.Attribute):
                continue
            if root.id not in self.scope.names:
                raise Refused(f"Line {place.lineno} changes `{root.id}` of the module.", "Change a copy.")

    # --- what comes out -------------------------------------------------------------------------------------

    def _results(self) -> list[_Result]:
        names = sorted(read_behind(self.function, self.statements, set(self.reads)))
        if not names:
            raise Refused(
                f"Line {self.statements[0].lineno} draws what nothing uses.", "Take it out of the function."
            )
        if names and set(names) & self.reads:
            both = next(name for name in names if name in self.reads)
            raise NotPassable(
                both, f"`{both}` is drawn anew in each trip of a loop.", "Give it another name."
            )
        after = self.request.facts.names(self.statements[-1], names, after=True)
        return [self._result(name, tuple(after.get(name, ()))) for name in names]

    def _result(self, name: str, facts: tuple[Fact, ...]) -> _Result:
        line = self.statements[-1].lineno
        if not facts:
            raise Refused(f"No recorded input reaches line {line}.", "Give inputs that run this line.")
        types = {fact.type for fact in facts}
        first = facts[0]
        if all(fact.is_tensor for fact in facts):
            if any(fact.requires_grad for fact in facts):
                raise Refused(
                    f"`{name}` takes part in the gradient, and random numbers are drawn for it in line {line}.",
                    "Draw them in a statement of their own, and compute with them behind it.",
                )
            return _Result(name, first, name)
        torch = text_.ensure_torch_import(self.request.text)[1]
        if types == {"numpy.ndarray"}:
            return _Result(name, first, f"{torch}.from_numpy({name})", ".numpy()")
        if types == {"list"} and all(fact.items for fact in facts):
            self._check_indexes(name)
            size = (len(first.items or ()),)
            tensor = replace(
                first, type="torch.Tensor", shape=size, dtype="torch.int64", device="cpu", items=None
            )
            return _Result(name, tensor, f"{torch}.tensor({name})")
        if len(types) == 1 and types <= SCALARS.keys():
            dtype = f", dtype={torch}.float64" if types == {"float"} else ""
            return _Result(name, first, f"{torch}.tensor({name}{dtype})", ".item()")
        shown = " or a ".join(sorted(kind.removeprefix("builtins.") for kind in types))
        raise Refused(f"`{name}` is a {shown}, which no graph can hold.", "Keep it a tensor.")

    def _check_indexes(self, name: str) -> None:
        """Raises Refused where a list that becomes a tensor is used in another way than a tensor can be."""
        inside = {id(n) for s in self.statements for n in ast.walk(s)}
        for node in ast.walk(self.function):
            read = isinstance(node, ast.Name) and node.id == name and id(node) not in inside
            if not read or not isinstance(node.ctx, ast.Load):  # type: ignore[attr-defined]
                continue
            assert isinstance(node, ast.Name)
            if not only_indexes(self.request, self.function, node):
                raise Refused(
                    f"`{name}` is a list of drawn numbers that line {node.lineno} needs in Python.",
                    "Make it a tensor, and index with that.",
                )

    def _fake(self, result: _Result, given: Sequence[Given], torch: str) -> str:
        firsts = {each.name: each.facts[0] for each in given}
        fact = result.fact
        if fact.type in SCALARS:
            return fake_of(fact, firsts, self.function, torch)
        return fake_of(fact, firsts, ast.Module(self.statements, []), torch)

    # --- text -----------------------------------------------------------------------------------------------

    def _op(
        self,
        text: str,
        torch: str,
        given: Sequence[Given],
        results: Sequence[_Result],
        fakes: Sequence[str],
        keeper: Keeper | None,
    ) -> Op:
        replaced: dict[ast.AST, str] = {node: each.name for each in given for node in each.nodes}
        parameters = {each.name: each.annotation for each in given}
        facts: Mapping[str, Sequence[Fact]] = {each.name: each.facts for each in given}
        if keeper is not None:
            owner = text_.unused_name(self.tree, "owner", {*parameters, *self.scope.names})
            parameters[owner] = "int"
            replaced |= {node: keeper.attribute(owner, node) for node in self.found.kept}
        source = Source(text)
        body = "".join(source.block([s], replaced) for s in self.statements)
        several = len(results) > 1
        return Op(
            text_.unused_name(self.tree, f"_{results[0].name.strip('_')}_op"),
            parameters,
            host_op.known_kinds(facts, torch),
            f"({', '.join(fakes)})" if several else fakes[0],
            ", ".join(each.given for each in results),
            statements=body,
            results=len(results),
        )


def _argument(given: Given) -> str:
    """What is drawn takes no part in gradients, whatever goes in."""
    floating = any(fact.is_tensor and not (fact.dtype or "").startswith(_WHOLE) for fact in given.facts)
    if not floating:
        return given.argument
    optional = any(fact.type == "NoneType" for fact in given.facts)
    detached = f"{given.argument}.detach()"
    return f"None if {given.argument} is None else {detached}" if optional else detached


_WHOLE = ("torch.int", "torch.uint", "torch.bool")
