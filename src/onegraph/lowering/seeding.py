"""``torch.manual_seed(...)`` in the compiled function becomes an ordered op.

Inductor draws what a whole graph needs at the place where its first number is drawn. So it follows the seed only where
nothing was drawn in front of it; that is measured.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from onegraph.lowering import effect_text, written_helpers
from onegraph.lowering.effect_repairs import Proposal, propose, statement_of
from onegraph.lowering.effect_scope import Scope, loads, scope_of
from onegraph.lowering.effects import Effect, move_to_op
from onegraph.lowering.refused import Refused
from onegraph.lowering.streams import sets_python_state, sets_torch_state
from onegraph.model import Candidate, Declined
from onegraph.rewrite import text as text_
from onegraph.rewrite.request import Request

_NOTES = (
    "it runs in Python when the compiled program gets there; a CUDA graph is split at it",
    "with inductor the numbers that follow are others than in eager mode, as always; they follow the seed",
)
_STEP = "Set the state in front of the compiled function."
_UNTOUCHED = '''\
def {name}():
    """Whether nothing was drawn since the streams of torch were seeded."""
    streams = [{torch}.default_generator]
    if {torch}.cuda.is_initialized():
        streams += {torch}.cuda.default_generators
    fresh = [{torch}.Generator(each.device).manual_seed(each.initial_seed()) for each in streams]
    return all({torch}.equal(one.get_state(), other.get_state()) for one, other in zip(streams, fresh))
'''


def seeded_in_op(request: Request, kind: str) -> Iterator[Candidate | Declined]:
    """The statement at the site as an ordered op, where it sets the state of torch's stream."""
    statement = statement_of(request)
    tree = text_.parse(request.text)
    if not isinstance(statement, ast.Expr) or not isinstance(statement.value, ast.Call):
        return
    scope = scope_of(tree, statement)
    of_torch = sets_torch_state(tree, scope, statement.value)
    if scope.function is None or not (of_torch or sets_python_state(tree, scope, statement.value)):
        return
    if not effect_text.owns_lines(request.text, statement):
        return
    try:
        if of_torch:
            check_nothing_drawn(request, scope, statement)
    except Refused as why:
        yield Declined(kind, why.reason, why.next_step)
        return
    owner = _owner(scope, statement)
    effect = Effect(statement, "seed", [], keep_eager=bool(owner), owner=owner, calls=False)
    proposal = Proposal(kind, "Set the random state from an ordered op", _NOTES[: 2 if of_torch else 1])
    yield from propose(request, proposal, lambda: move_to_op(request, effect))


def check_nothing_drawn(request: Request, scope: Scope, statement: ast.stmt) -> None:
    """Raises Refused where numbers were drawn from torch's stream in front of a statement."""
    assert request.measure is not None and scope.function is not None, "repairs in steps are measured"
    tree = text_.parse(request.text)
    name = text_.unused_name(tree, "_untouched")
    indent = text_.indent_of(request.text, text_.first_line(statement))
    at = text_.first_line(statement)
    text = text_.replace_spans(request.text, [(at, 0, at, 0, f"{indent}{name}()\n")])
    text = written_helpers.added(text, name, _UNTOUCHED)
    qualified = next(q for q, node in text_.functions(tree) if node is scope.function)
    asked = [
        node
        for node in ast.walk(text_.parse(text))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == name
    ]
    (outcomes,) = request.measure(text, (qualified,)).values(*asked)
    line = statement.lineno
    if not outcomes:
        raise Refused(f"No recorded input reaches line {line}.", "Give inputs that run this line.")
    if any(fact.value != "True" for fact in outcomes):
        raise Refused(
            f"Random numbers are drawn in front of line {line}: inductor draws all numbers of a graph at the place of "
            "the first, so those behind would not follow the state that is set here.",
            _STEP,
        )


def _owner(scope: Scope, statement: ast.stmt) -> str:
    """``self``, where the statement reads what it holds: an op in front may have changed that."""
    names = {name.id for name in loads(statement)}
    return next(
        (name for name in sorted(names) if scope.is_first_argument(name) and _has_attribute(statement, name)),
        "",
    )


def _has_attribute(statement: ast.stmt, name: str) -> bool:
    return any(
        isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == name
        for node in ast.walk(statement)
    )
