"""From a site to candidates: which statement moves, how much of it, and what is said about it."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from onegraph.lowering import effect_text
from onegraph.lowering.effect_params import CannotMove, expressions
from onegraph.lowering.effect_scope import scope_of
from onegraph.lowering.effect_shapes import Effects, is_level_check
from onegraph.lowering.effect_tensors import Tensors
from onegraph.lowering.effects import GRAD_NOTE, Effect, move_to_op
from onegraph.model import Candidate, Declined, Level
from onegraph.rewrite import text as text_
from onegraph.rewrite.request import Request


@dataclass(frozen=True, slots=True)
class Proposal:
    """What a kind says about the statement that it moves."""

    kind: str
    title: str
    notes: Sequence[str] = ()


def statement_of(request: Request) -> ast.stmt | None:
    """The statement at the site."""
    return text_.statement_at(text_.parse(request.text), request.site.span)


def propose(request: Request, proposal: Proposal, effect: Effect) -> Iterator[Candidate | Declined]:
    """The statement as an ordered op; at level lossy also without it while compiling."""
    try:
        moved = move_to_op(request, effect)
    except CannotMove as error:
        yield Declined(proposal.kind, error.reason, error.next_step)
    else:
        notes = [*proposal.notes, *([GRAD_NOTE] if moved.shows_grad else [])]
        yield Candidate(
            proposal.kind, Level.RELAXED, proposal.title, moved.text, moved.functions, tuple(notes)
        )


def dropped(request: Request, kind: str, statement: ast.stmt) -> Iterator[Candidate | Declined]:
    """The statement under ``if not torch.compiler.is_compiling()``; only at level lossy."""
    if request.level is not Level.LOSSY:
        return
    text, tree = request.text, text_.parse(request.text)
    function = scope_of(tree, statement).function
    if (
        function is None
        or not effect_text.owns_lines(text, statement)
        or effect_text.is_elif(text, statement)
    ):
        return
    _, torch = text_.ensure_torch_import(text)
    indent, unit = text_.indent_of(text, statement.lineno), text_.indent_unit(text)
    block = text_.reindent(text_.block_of(text, statement, statement), indent + unit)
    guarded = f"{indent}if not {torch}.compiler.is_compiling():\n{block}"
    changed = text_.replace_lines(text, statement.lineno, text_.position(statement)[2], guarded)
    changed, _ = text_.ensure_torch_import(changed)
    name = next(name for name, node in text_.functions(tree) if node is function)
    note = "the compiled program does not do it at all"
    yield Candidate(kind, Level.LOSSY, "Skip it while compiling", changed, (name,), (note,))


def guard_of(request: Request, statement: ast.If, verb: str, says: Sequence[str]) -> Effect | None:
    """How an ``if`` chain whose first arms raise (or whose arms do nothing but effects) moves; None where it has none.

    Leading Python conjuncts stay in front of the call.
    """
    text, effects = request.text, Effects(text_.parse(request.text))
    chain = effect_text.chain_of(text, statement)
    last = chain[-1].orelse
    if all(effects.only(arm.body) for arm in chain) and (not last or effects.only(last)):
        arms = None
    else:
        arms = 0
        for arm in chain:
            if not (effects.only(arm.body) and effects.leaves(arm.body)):
                break
            arms += 1
        if arms == 0:
            return None
        if arms == len(chain) and not last:
            arms = None
    outside = 0
    if len(chain) == 1 and not last:
        outside = _python_conjuncts(request, statement.test)
    return Effect(statement, verb, says, arms, outside)


def _python_conjuncts(request: Request, test: ast.expr) -> int:
    """How many conjuncts in front of a test have nothing to do with a tensor's value."""
    if not isinstance(test, ast.BoolOp) or not isinstance(test.op, ast.And):
        return 0
    count = 0
    for conjunct in test.values[:-1]:
        if _needs_op(request, conjunct):
            break
        count += 1
    return count


def _needs_op(request: Request, node: ast.expr) -> bool:
    if any(is_level_check(inner) for inner in ast.walk(node)):
        return True
    inner = [n for n in expressions(node) if not isinstance(n, ast.Constant | ast.BoolOp)]
    facts = dict(zip(inner, request.facts.values(*inner), strict=True))
    return Tensors(lambda n: facts.get(n, ())).in_value(node)


def in_try(request: Request, statement: ast.stmt) -> bool:
    """Whether an exception of the statement may be caught in the same function."""
    tree = text_.parse(request.text)
    scope = scope_of(tree, statement)
    inside = False
    for parent in scope.parents:
        if parent is scope.function:
            inside = False
        if isinstance(parent, ast.Try | ast.TryStar) and parent.handlers:
            inside = inside or any(statement in ast.walk(s) for s in parent.body)
    return inside


def literals(node: ast.AST) -> list[str]:
    """The string literals in a node, in source order: an op may be named after what it says."""
    found: list[str] = []
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return [node.value]
    if isinstance(node, ast.JoinedStr):
        return ["".join(str(v.value) if isinstance(v, ast.Constant) else "{}" for v in node.values)]
    for child in ast.iter_child_nodes(node):
        found += literals(child)
    return found
