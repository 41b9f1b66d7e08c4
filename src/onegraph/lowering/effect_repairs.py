"""From a site to candidates: which statement moves, how much of it, and what is said about it."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from onegraph.lowering import effect_loggers, effect_split, effect_text, effects_apart
from onegraph.lowering.effect_facts import expressions
from onegraph.lowering.effect_scope import free_names, loads, scope_of, stores
from onegraph.lowering.effect_shapes import Effects, call_of, is_level_check, is_sink, is_warn
from onegraph.lowering.effect_tensors import Tensors
from onegraph.lowering.effects import GRAD_NOTE, Effect, Moved, move_to_op
from onegraph.lowering.first_steps import first_step
from onegraph.lowering.refused import Refused
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


def moved(
    request: Request, proposal: Proposal, verb: str, statement: ast.stmt | None = None
) -> Iterator[Candidate | Declined]:
    """The statement (at the site, if none is given) as an ordered op; at level lossy also skipped while
    compiling.
    """
    statement = statement or statement_of(request)
    if statement is None:
        yield Declined(proposal.kind, "There is no statement at this place.", "Report this as a bug.")
        return
    statement = _whole(request, statement)
    if (line := effects_apart.waits(request, statement)) is not None:
        yield Declined(
            proposal.kind,
            f"It stands in the tensor branch of line {line}, and moves out of it first.",
            "See what is said about the branch.",
        )
        return
    try:
        outer = effect_loggers.calls_once(request)
    except LookupError as error:
        yield Declined(
            proposal.kind,
            f"The helper around it writes once because of its cache, and is called from {error}.",
            "Call the helper outside the compiled function.",
        )
        return
    call = call_of(outer)
    if outer is not None and call is not None:
        once = Effect(outer, verb, _arguments_say(call))
        yield from propose(request, proposal, lambda: move_to_op(request, once))
        helper = scope_of(text_.parse(request.text), statement).function
        if helper is not None and effect_loggers.is_cached(helper):
            return
    effect = effect_of(request, statement, verb)
    if effect is not None:
        yield from propose(request, proposal, lambda: move_to_op(request, effect))
    elif isinstance(statement, ast.If) and verb != "check":
        mixed, said = statement, _said(statement)
        yield from propose(request, proposal, lambda: effect_split.split_off(request, mixed, verb, said))
        yield from first_step(request)
    else:
        yield from first_step(request) if isinstance(statement, ast.If) else ()
        yield Declined(proposal.kind, *_mixed(statement))
        return
    if verb != "check" and (effect is not None):
        yield from dropped(request, proposal.kind, statement)


def _whole(request: Request, statement: ast.stmt) -> ast.stmt:
    """The outermost tensor branch around an effect that holds nothing but effects; else the statement itself."""
    tree = text_.parse(request.text)
    effects = Effects(tree)
    around_it = [
        p for p in scope_of(tree, statement).parents if isinstance(p, ast.stmt) and p is not statement
    ]
    for around in reversed(around_it):
        if not isinstance(around, ast.If) or not effects.only([statement]) or not effects.only([around]):
            break
        if not _needs_op(request, around.test) or _sets_for_later(request, around):
            break
        statement = around
    return statement


def effect_of(request: Request, statement: ast.stmt, verb: str) -> Effect | None:
    """How a statement moves; None where it does more than an effect."""
    if isinstance(statement, ast.If):
        return guard_of(request, statement, verb, _said(statement))
    if isinstance(statement, ast.Assert):
        return Effect(statement, verb, literals(statement.msg) if statement.msg else ())
    call = call_of(statement)
    effects = Effects(text_.parse(request.text))
    if call is None or not (is_sink(call) or effects.only([statement])):
        return None
    return Effect(statement, verb, _arguments_say(call), keep_eager=_names_its_caller(call))


def _arguments_say(call: ast.Call) -> list[str]:
    return [text for argument in [*call.args, *call.keywords] for text in literals(argument)]


def _said(statement: ast.If) -> list[str]:
    """What the first arm says, what it raises or writes first."""
    ends = [s for s in statement.body if not isinstance(s, ast.Assign)]
    return [text for inner in [*ends, *statement.body] for text in literals(inner)]


def _names_its_caller(call: ast.Call) -> bool:
    """Whether a warning or record is put down to a caller: an op in between would be counted."""
    given = [k.value for k in call.keywords if k.arg == "stacklevel"]
    given += call.args[2:3] if is_warn(call) else []
    return any(not (isinstance(value, ast.Constant) and value.value in (0, 1)) for value in given)


def _mixed(statement: ast.stmt) -> tuple[str, str]:
    if isinstance(statement, ast.If):
        return (
            f"The arms of the `if` in line {statement.lineno} do more than write or raise.",
            "Give the effect an `if` of its own.",
        )
    return (
        f"The call in line {statement.lineno} is a part of a larger statement.",
        "Put it into a statement of its own.",
    )


def propose(
    request: Request, proposal: Proposal, make: Callable[[], Moved]
) -> Iterator[Candidate | Declined]:
    """One candidate, or why there is none."""
    try:
        done = make()
    except Refused as error:
        yield Declined(proposal.kind, error.reason, error.next_step)
    else:
        notes = (*proposal.notes, *((GRAD_NOTE,) if done.shows_grad else ()))
        yield Candidate(proposal.kind, Level.RELAXED, proposal.title, done.text, done.functions, notes)


def check_around(request: Request, statement: ast.Raise) -> ast.If | None:
    """The ``if`` whose arm a ``raise`` is, where a tensor's value decides it."""
    parents = scope_of(text_.parse(request.text), statement).parents
    around = parents[-1] if parents else None
    return around if isinstance(around, ast.If) and _needs_op(request, around.test) else None


def caught(kind: str) -> Declined:
    """The decline of a check that stands in a ``try``."""
    return Declined(
        kind,
        "The check stands in a `try` that may catch its exception; inside a graph it leaves the whole graph.",
        "Move the check in front of the `try`.",
    )


def is_global(request: Request, statement: ast.stmt | None, node: ast.expr) -> bool:
    """Whether an expression is made of the module's names only."""
    if statement is None:
        return False
    return not free_names(node) & scope_of(text_.parse(request.text), statement).names


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
    """How an ``if`` chain whose first arms raise (or whose arms do nothing but effects) moves.

    None where it has none.

    Leading Python conjuncts stay in front of the call.
    """
    text, effects = request.text, Effects(text_.parse(request.text))
    chain = effect_text.chain_of(text, statement)
    last = chain[-1].orelse
    whole = effects.only([statement])
    if whole and not _sets_for_later(request, statement):
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


def _sets_for_later(request: Request, statement: ast.If) -> bool:
    """Whether an arm that goes on binds a name that the function reads elsewhere."""
    function = scope_of(text_.parse(request.text), statement).function
    if function is None:
        return False
    inside = set(ast.walk(statement))
    return bool(stores(statement) & {name.id for name in loads(function) if name not in inside})


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
