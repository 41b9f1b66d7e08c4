"""Code that no graph can hold becomes an op, where it only computes tensors and writes into tensors.

The op returns new values of the tensors that the code writes, which keep their size, and the tensors that it makes,
whose size must follow from what goes in (it is checked each time); where torch captures sizes, integers of any size
too. Its backward pass runs the code once more and lets autograd differentiate it: the code draws no random numbers, so
that gives the same. Called outside the compiler the code runs as before.
"""

from __future__ import annotations

import ast
from collections.abc import Container, Iterator, Sequence
from dataclasses import dataclass

from onegraph.lowering import (
    choice,
    effect_text,
    flow,
    op_given,
    op_text,
    pure_code,
)
from onegraph.lowering.effect_scope import Scope, loads, scope_of, stores
from onegraph.lowering.op_given import Given, NotPassable
from onegraph.lowering.op_methods import asked_of, guarded, own_methods
from onegraph.lowering.op_results import results_of
from onegraph.lowering.refused import Refused
from onegraph.lowering.toplevel import helper_in, with_definition
from onegraph.model import Candidate, Declined, Level
from onegraph.rewrite import text as text_
from onegraph.rewrite.request import Request

_NOTE = (
    "in the compiled program this code runs as one op, in Python: it waits for the device as before, and a CUDA graph "
    "ends before it",
)
_SIZE_NOTE = "a result of another size than {} is an error in the compiled program"
LONGEST = 12  # statements in a run
_GRAD_NOTE = "an input of that op that gets no gradient in eager mode gets zeros"


def written_in_op(request: Request, kind: str) -> Iterator[Candidate | Declined]:
    """The smallest run of statements around the site that hands on tensors of known size alone, as an op."""
    tree = text_.parse(request.text)
    statement = text_.statement_at(tree, request.site.span)
    scope = scope_of(tree, statement) if statement is not None else None
    if statement is None or scope is None or scope.function is None:
        yield Declined(kind, "The statement stands at module level.", "Move it into a function.")
        return
    refused: Refused | None = None
    halfway: Refused | None = None
    for block, at in blocks_around(scope, statement):
        for end in range(at + 1, min(len(block), at + LONGEST) + 1):
            if (left := _leaves_halfway(block[at:end])) is not None:
                halfway = halfway or Refused(
                    f"Line {left.lineno} holds a return statement.", "Return once, at the end."
                )
                continue
            try:
                candidate = _from_where_it_can(request, tree, scope, block, (at, end), kind)
            except Refused as error:
                refused = refused or error
                continue
            yield candidate
            if "_any()" not in candidate.text or "_any()" in request.text:
                return
            break  # what asks for such a size further down may have to move, too
    refused = refused or halfway
    if refused is not None:
        yield Declined(kind, refused.reason, refused.next_step)


def _leaves_halfway(statements: Sequence[ast.stmt]) -> ast.stmt | None:
    """The first ``return`` of statements that return on some of their paths only."""
    found = next(flow.inside(statements, ast.Return), None)
    assert found is None or isinstance(found, ast.stmt)
    return None if flow.always_leaves(statements) else found


def _from_where_it_can(
    request: Request, tree: ast.Module, scope: Scope, block: list[ast.stmt], place: tuple[int, int], kind: str
) -> Candidate:
    """The statements at a place as an op, with those above that make what no op can take (a list, an iterator). Raises
    Refused."""
    at, end = place
    inside: set[str] = set()  # names of what no op can take
    while True:
        try:
            return _candidate(
                request, tree, scope, _run(tree, scope, block[:at], block[at:end], inside), kind
            )
        except NotPassable as error:
            inside.add(error.name)
            made = [s for s in block[:at] if isinstance(s, ast.Assign | ast.AnnAssign)]
            made = [s for s in made if error.name in stores(s)]
            if not made:
                raise
            at = block.index(made[-1])


@dataclass(frozen=True, slots=True)
class _Run:
    """The statements that move, in order; others may stand between them and stay."""

    statements: tuple[ast.stmt, ...]
    reads: frozenset[str]  # names of the function that they read from outside
    kept: frozenset[str]  # names that they change with ``+=`` and that are read behind: fine for tensors only
    results: tuple[str, ...]  # names that they bind and that are read behind
    returned: bool  # they return


def blocks_around(scope: Scope, statement: ast.stmt) -> Iterator[tuple[list[ast.stmt], int]]:
    """The blocks that hold the statement, innermost first, with its place there."""
    inner: ast.AST = statement
    for parent in reversed(scope.parents):
        for name in ("body", "orelse"):
            block = getattr(parent, name, None)
            if isinstance(block, list) and inner in block:
                yield block, block.index(inner)
        inner = parent
        if parent is scope.function:
            return


def _run(
    tree: ast.Module,
    scope: Scope,
    before: Sequence[ast.stmt],
    statements: Sequence[ast.stmt],
    inside: Container[str] = (),
) -> _Run:
    function = scope.function
    assert function is not None
    moved = _without_outside(tree, function, statements, scope.names, inside)
    pure_code.check(tree, moved, scope.names, may_return=True)
    moved = _with_sources(tree, scope, before, moved)
    _check_scope(function, moved)
    reads, _ = pure_code.exposed(moved)
    left = read_behind(function, moved, reads)
    added = {
        n.target.id
        for s in moved
        for n in ast.walk(s)
        if isinstance(n, ast.AugAssign) and isinstance(n.target, ast.Name)
    }
    bound = {name for s in moved for n in _plain_bindings(s) for name in n}
    results = tuple(sorted(left - added | left & bound))
    returned = any(flow.inside(moved, ast.Return))
    if returned and results:
        raise Refused(f"`{results[0]}` is used in an inner function.", "Pass it as an argument.")
    if not (results or returned or any(True for _ in pure_code.written_roots(moved))):
        raise Refused(f"Line {moved[0].lineno} hands on nothing.", "Keep it outside of the compiled region.")
    return _Run(
        tuple(moved), frozenset(reads & scope.names), frozenset(left - set(results)), results, returned
    )


def _check_scope(function: ast.AST, moved: Sequence[ast.stmt]) -> None:
    """Names that belong to the module or to a function around it can't be bound in an op."""
    declared = {n for g in ast.walk(function) if isinstance(g, ast.Global | ast.Nonlocal) for n in g.names}
    if outside := sorted(declared & {name for s in moved for name in stores(s)}):
        raise Refused(
            f"`{outside[0]}` belongs to another scope, and is set in line {moved[0].lineno} or behind it.",
            "Set it outside of this code.",
        )


def _plain_bindings(statement: ast.stmt) -> Iterator[set[str]]:
    """What a statement binds other than by ``+=``."""
    for node in ast.walk(statement):
        if isinstance(node, ast.Assign):
            yield from (pure_code.names_stored(target) for target in node.targets)
        elif isinstance(node, ast.For | ast.AnnAssign):
            yield pure_code.names_stored(node.target)


def _without_outside(
    tree: ast.Module,
    function: ast.AST,
    statements: Sequence[ast.stmt],
    local: frozenset[str],
    inside: Container[str],
) -> list[ast.stmt]:
    """The statements without those that make what is used behind and can run before the others. What makes names that
    have to be ``inside`` stays."""
    moved: list[ast.stmt] = []
    names: set[str] = set()  # that the moved ones read or bind
    bound: set[str] = set()
    for number, statement in enumerate(statements):
        own, read = stores(statement), {n.id for n in loads(statement)}
        simple = isinstance(statement, ast.Assign) and all(isinstance(t, ast.Name) for t in statement.targets)
        free = number > 0 and simple and not (read & bound or own & names)
        written = any(True for _ in pure_code.written_roots([*moved, statement]))
        if (
            free
            and not written
            and not any(name in inside for name in own)
            and own & read_behind(function, statements, set())
        ):
            pure_code.check(tree, [statement], local)
            continue
        moved.append(statement)
        names |= own | read
        bound |= own
    return moved


def _with_sources(
    tree: ast.Module, scope: Scope, before: Sequence[ast.stmt], moved: list[ast.stmt]
) -> list[ast.stmt]:
    """With the statements in front that take data out of a tensor for these alone (``nonzero``, ``tolist``)."""
    passed: list[ast.stmt] = []  # what stays between
    for statement in reversed(before):
        if _takes_data(statement) and _for_them_alone(scope, statement, passed, moved):
            try:
                pure_code.check(tree, [statement], scope.names)
            except Refused:
                return moved
            moved = [statement, *moved]
            continue
        passed.append(statement)
        try:
            pure_code.check(tree, passed[-1:], scope.names)
        except Refused:
            return moved
        if any(True for _ in pure_code.written_roots(passed[-1:])):
            return moved
    return moved


def _takes_data(statement: ast.stmt) -> bool:
    if not isinstance(statement, ast.Assign) or not all(
        isinstance(n, ast.Name | ast.Tuple) for n in statement.targets
    ):
        return False
    called = {
        n.func.attr
        for n in ast.walk(statement)
        if isinstance(n, ast.Call) and isinstance(n.func, ast.Attribute)
    }
    return bool(called & pure_code.TAKES_DATA)


def _for_them_alone(
    scope: Scope, statement: ast.stmt, passed: Sequence[ast.stmt], moved: Sequence[ast.stmt]
) -> bool:
    """Whether only ``moved`` reads what a statement binds, and what it reads is the same behind ``passed``."""
    assert scope.function is not None
    own, reads = stores(statement), {n.id for n in loads(statement)}
    between = {name for s in passed for name in stores(s)}
    read_between = {n.id for s in passed for n in loads(s)}
    left = read_behind(scope.function, [statement, *moved], pure_code.exposed([statement, *moved])[0])
    return not own & left and not (own | reads) & between and not own & read_between


def read_behind(function: ast.AST, moved: Sequence[ast.stmt], reads: set[str]) -> set[str]:
    """The names bound by the statements that something else may read afterwards."""
    inside = {id(n) for s in moved for n in ast.walk(s)}
    own = {name for s in moved for name in stores(s)}
    end = text_.position(moved[-1])[2:]
    loop = next(
        (n for n in _around(function, moved[0]) if isinstance(n, ast.For | ast.While | ast.AsyncFor)), None
    )
    again = {id(n) for n in ast.walk(loop)} if loop is not None else set()
    found = own & reads if loop is not None else set()  # carried into the next round
    for node in ast.walk(function):
        if not (isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load) and node.id in own):
            continue
        later = text_.position(node)[:2] >= end or id(node) in again or _in_inner(function, node)
        if later and id(node) not in inside:
            found.add(node.id)
    return found


def _around(function: ast.AST, node: ast.AST) -> list[ast.AST]:
    """The nodes of a function around a node, outermost first."""
    for child in ast.iter_child_nodes(function):
        if child is node:
            return [function]
        if path := _around(child, node):
            return [function, *path]
    return []


def _in_inner(function: ast.AST, node: ast.AST) -> bool:
    closed = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda | ast.ClassDef
    return any(isinstance(parent, closed) for parent in _around(function, node)[1:])


# --- what it writes ---------------------------------------------------------------------------------------


def _written(run: _Run, given: Sequence[Given]) -> list[Given]:
    """The tensors that the run may write into. Raises Refused where that can't be said."""
    tensors = [each for each in given if any(fact.is_tensor for fact in each.facts)]
    made = _made_from(run, {each.name for each in given if all(fact.is_tensor for fact in each.facts)})
    written: list[Given] = []
    for place in pure_code.written_roots(run.statements):
        root = pure_code.root_of(place)
        if not isinstance(root, ast.Name):
            continue  # a fresh value: nothing else sees it
        roots = {root.id}
        while more := {name for r in roots for name in made.get(r, ())} - roots:
            roots |= more
        if not roots & (run.reads | made.keys()):
            raise Refused(f"Line {place.lineno} writes into `{root.id}` of the module.", "Keep it outside.")
        written += [each for each in tensors if each.root in roots and each not in written]
    return written


def _made_from(run: _Run, tensors: set[str]) -> dict[str, set[str]]:
    """For each name that the run binds: the names that it may be an alias of. ``+=`` on a tensor makes none."""
    found: dict[str, set[str]] = {}
    for statement in run.statements:
        for node in ast.walk(statement):
            if isinstance(node, ast.AugAssign) and getattr(node.target, "id", None) in tensors:
                continue
            if isinstance(node, ast.Assign | ast.AnnAssign | ast.AugAssign) and node.value is not None:
                targets = node.targets if isinstance(node, ast.Assign) else [node.target]
                source: ast.expr = node.value
            elif isinstance(node, ast.For | ast.comprehension):
                targets, source = [node.target], node.iter
            else:
                continue
            names = set(_held(source))
            for name in {n for target in targets for n in pure_code.names_stored(target)}:
                found.setdefault(name, set()).update(names)
    return found


def _held(node: ast.AST) -> Iterator[str]:
    """The names whose memory the value of an expression may be, or hold: a difference, a quotient, a number is new."""
    if isinstance(node, ast.Name):
        yield node.id
    new = isinstance(node, ast.BinOp) and not isinstance(node.op, ast.Add | ast.Mult | ast.BitOr)
    called = choice.called(node) if isinstance(node, ast.Call) else ""
    for child in ast.iter_child_nodes(node) if not new and called not in _NUMBERS else ():
        yield from _held(child)


_NUMBERS = frozenset(("bool", "float", "int", "item", "len", "numel", "round", "size", "tolist"))


def _check_tensors(run: _Run, given: Sequence[Given], written: Sequence[Given]) -> None:
    for name in run.kept:
        if not any(each.name == name and all(f.is_tensor for f in each.facts) for each in given):
            raise Refused(
                f"`{name}` is counted up in code that a graph can't hold, and used behind it.",
                f"Make `{name}` a tensor, and add to it in place.",
            )
    for each in written:
        for other in given:
            shared = {f.storage for f in each.facts} & {f.storage for f in other.facts} - {None}
            if other is not each and shared:
                raise Refused(
                    f"`{each.argument}` and `{other.argument}` share memory, and one of them is written.",
                    f"Copy it first: `{each.argument}.clone()`.",
                )


# --- text -------------------------------------------------------------------------------------------------


def _candidate(request: Request, tree: ast.Module, scope: Scope, run: _Run, kind: str) -> Candidate:
    text, function = request.text, scope.function
    assert function is not None
    if not all(effect_text.owns_lines(text, s) and not effect_text.is_elif(text, s) for s in run.statements):
        raise Refused("The code shares its lines with other statements.", "Put it on lines of its own.")
    methods = own_methods(tree, scope, run.statements)
    named = {node for method in methods for node in method.nodes}
    given = op_given.given(request, scope, run.statements, run.reads, named)
    written = _written(run, given)
    _check_tensors(run, given, written)
    torch = text_.ensure_torch_import(text)[1]
    results = results_of(request, run.statements, run.results, run.returned, given, torch)
    _check_not_written_elsewhere(scope, run, given)
    first_name = written[0].name if written else (run.results or (function.name,))[0]
    base = f"_write_{first_name.strip('_')}" if written else f"_{first_name.strip('_')}_op"
    name = text_.unused_name(tree, base)
    helper = helper_in(text, op_text.HELPER, op_text.HELPER_TEXT, torch)
    names = [each.name for each in written]
    replaced = {node: code for method in methods for node, code in method.replaced().items()}
    block = op_text.definition(
        text, name, helper.name, torch, run.statements, given, names, results, replaced
    )
    call = f"{name}({', '.join(each.argument for each in given)})"
    if run.returned:
        call = f"return {call}"
    elif results.names:
        call = f"{', '.join(results.names)} = {call}"
    if asked := asked_of(methods):
        call = guarded(text, run.statements, call, asked)
    moved = op_text.with_call(text, run.statements, call)
    done = with_definition(moved, run.statements[0].lineno, helper, block)
    done, _ = text_.ensure_torch_import(done)
    qualified = next(q for q, node in text_.functions(tree) if node is function)
    first, last = run.statements[0].lineno, text_.position(run.statements[-1])[2]
    others = [fact for each in given if each not in written for fact in each.facts]
    floating = any((fact.dtype or "").startswith(("torch.float", "torch.bfloat")) for fact in others)
    due = [fake for fake in results.fakes if "_any()" not in fake]
    sized = (_SIZE_NOTE.format(", ".join(due)),) if due else ()
    lines = f"line {first}" if first == last else f"lines {first} to {last}"
    return Candidate(
        kind=kind,
        level=Level.RELAXED if floating or results.fakes else Level.EXACT,
        title=f"{lines}: one op that {_does(written, run)}",
        text=done,
        functions=(qualified,),
        notes=(*_NOTE, *((_GRAD_NOTE,) if floating else ()), *sized),
    )


def _does(written: Sequence[Given], run: _Run) -> str:
    """What the op does, in words."""
    words = []
    if written:
        words.append(f"writes into {' and '.join(f'`{each.argument}`' for each in written)}")
    if run.results:
        words.append(f"gives {' and '.join(f'`{name}`' for name in run.results)}")
    return " and ".join(words) or "gives the result"


def _check_not_written_elsewhere(scope: Scope, run: _Run, given: Sequence[Given]) -> None:
    """What an op gives is new: nothing may be written through it, or show through it."""
    assert scope.function is not None
    inside = {id(node) for s in run.statements for node in ast.walk(s)}
    names = {*run.results, *(each.root for each in given)} if run.results or run.returned else set()
    for place in pure_code.written_roots(scope.function.body):
        root = pure_code.root_of(place)
        if id(place) not in inside and isinstance(root, ast.Name) and root.id in names:
            raise Refused(
                f"`{root.id}` is written in place in line {place.lineno}, outside of code that a graph can't hold.",
                f"Write into a copy with a name of its own: `copy = {root.id}.clone()`.",
            )
