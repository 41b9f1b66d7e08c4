"""A step of a loop that a drawn number skips: it runs always, and what it changed is selected afterwards.

``if draw < p: continue`` in front of the rest of the loop body, or ``if not skip: ...`` around it. The step becomes a
small function, called by the helper ``_unless``: outside the compiler that is the plain branch. While compiling, the
step runs, ``torch.where`` selects, and the random numbers that a skipped step has drawn are given back.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from onegraph.lowering import host_op_text
from onegraph.lowering.effect_scope import loads, stores
from onegraph.lowering.effect_text import is_elif, owns_lines
from onegraph.lowering.refused import Refused
from onegraph.model import Predicate
from onegraph.rewrite import text as edit
from onegraph.rewrite.request import Request

HELPER = "_unless"
_HELPER_TEXT = '''\
def _random_states(like):
    """Of the generators that code on the device of ``like`` draws from."""
    states = [{torch}.get_rng_state()]
    if like.device.type != "cpu":
        states.append({torch}.get_device_module(like.device).get_rng_state(like.device))
    return states


@{host_op}(lambda like: {torch}.empty(sum(s.numel() for s in _random_states(like)), dtype={torch}.uint8))
def _random_state(like: {torch}.Tensor) -> {torch}.Tensor:
    return {torch}.cat(_random_states(like))


@{host_op}(lambda skip, **_: {torch}.empty_like(skip))
def _take_back(skip: {torch}.Tensor, state: {torch}.Tensor, like: {torch}.Tensor) -> {torch}.Tensor:
    if skip:
        own, *others = state.split([s.numel() for s in _random_states(like)])
        {torch}.set_rng_state(own)
        for other in others:
            {torch}.get_device_module(like.device).set_rng_state(other, like.device)
    return skip


def _as_many_as_writes(tensor):
    return {torch}.empty(1 if tensor.is_inference() else tensor._version)  # there nobody counts


@{host_op}(_as_many_as_writes, ordered=False)
def _writes(tensor: {torch}.Tensor) -> {torch}.Tensor:
    return _as_many_as_writes(tensor)  # a compiler knows the size


def _one_if_shared(tensor, other):
    return {torch}.empty(1 if tensor.untyped_storage() is other.untyped_storage() else 0)


@{host_op}(_one_if_shared, ordered=False)
def _shared(tensor: {torch}.Tensor, other: {torch}.Tensor) -> {torch}.Tensor:
    return _one_if_shared(tensor, other)


def {helper}(skip, step, *values, beside=()):
    """``values``, or what ``step(*values, *beside)`` makes of them unless ``skip`` is true.

    While compiling, a tensor runs the step on copies and selects, also what it writes into its arguments; a skipped
    step takes its random numbers back.
    """
    if not (isinstance(skip, {torch}.Tensor) and {torch}.compiler.is_compiling()):
        made = values if skip else step(*values, *beside)
        return made[0] if skip and len(values) == 1 else made
    given = (*values, *beside)
    state = _random_state(values[0].detach())
    copies = [value.clone() if isinstance(value, {torch}.Tensor) else value for value in given]
    made = step(*copies)
    made = made if isinstance(made, tuple) else (made,)
    skip = _take_back(skip, state, made[0].detach()).to(values[0].device)
    tensors = [(old, copy) for old, copy in zip(given, copies) if isinstance(old, {torch}.Tensor)]
    for place, (old, copy) in enumerate(tensors):
        if _writes(copy.detach()).numel():
            others = [other.detach() for n, (other, _) in enumerate(tensors) if n != place]
            if any([_shared(old.detach(), other).numel() for other in others]):
                raise RuntimeError("a layer that may be skipped writes into one of two tensors that share memory")
            old.copy_({torch}.where(skip, old, copy))

    def chosen(old, copy, new):  # Python decides between what torch.where would bring to one dtype or shape
        if new is copy:
            return old
        kinds = [(value.shape, value.dtype, value.device) for value in (old, new) if isinstance(value, {torch}.Tensor)]
        alike = len(kinds) == 2 and kinds[0] == kinds[1]
        return {torch}.where(skip, old, new) if alike else old if skip else new

    selected = [chosen(old, copy, new) for old, copy, new in zip(values, copies, made)]
    return selected[0] if len(selected) == 1 else tuple(selected)
'''
_BY_HAND = "Run the layer always, and select with torch.where."


def helper_text(torch: str) -> str:
    """The definitions of ``_unless`` and of what it calls."""
    return _HELPER_TEXT.format(helper=HELPER, torch=torch, host_op=host_op_text.HELPER)


@dataclass(frozen=True, slots=True)
class Skip:
    """One conditional step. ``test``: the condition at the site; ``when``: the expression that tells to skip, as it is
    written in front of the step; ``step``: the statements that run unless it is true."""

    test: ast.expr
    when: str
    step: tuple[ast.stmt, ...]
    edits: tuple[edit.Edit, ...]  # of the text around the step
    guard: ast.If | None  # the `if` around the step, which goes away
    loop: ast.For | ast.While


@dataclass(frozen=True, slots=True)
class Skipped:
    """The file with one step made unconditional."""

    text: str
    function: str
    predicate: Predicate


def find(text: str, node: ast.AST | None) -> Skip | None:
    """The conditional step at a test (or at a part of it); None where it is none."""
    if not isinstance(node, ast.expr):
        return None
    path = edit.path_at(edit.parse(text), edit.span_of(node))
    at = next((n for n in reversed(path) if isinstance(n, ast.If)), None)
    loop = next((n for n in reversed(path) if isinstance(n, ast.For | ast.While)), None)
    if (
        at is None
        or loop is None
        or at.orelse
        or at not in set(ast.walk(loop))
        or node not in set(ast.walk(at.test))
    ):
        return None
    if is_elif(text, at):
        return None
    inner = path[path.index(loop) + 1 : path.index(at)]
    if not all(isinstance(n, ast.If) for n in inner if isinstance(n, ast.stmt)):
        return None
    match at.body:
        case [ast.Continue()]:
            return _continued(text, at, loop, inner)
        case [ast.Assign(targets=[ast.Name(id=flag)], value=ast.Constant(value=True))]:
            return _flagged(text, at, loop, flag)
    return _guarded(text, at, loop, at.test)


def _continued(text: str, at: ast.If, loop: ast.For | ast.While, outer: Sequence[ast.AST]) -> Skip | None:
    """``if TEST: continue``, alone or last in an ``if``."""
    top = outer[0] if outer else at
    around: Sequence[ast.stmt] = loop.body
    for block in (*outer, at):
        if (
            not isinstance(block, ast.If)
            or block not in around
            or (block is not top and block is not around[-1])
        ):
            return None
        around = block.body
    step = tuple(loop.body[loop.body.index(top) + 1 :])  # type: ignore[arg-type]
    if not step or not _value_last(at.test):
        return None
    name = edit.unused_name(edit.parse(text), "skip_layer")
    indent = edit.indent_of(text, at.lineno)
    last = edit.position(at)[2]
    made: list[edit.Edit] = [(at.lineno, 0, last + 1, 0, f"{indent}{name} = {edit.segment(text, at.test)}\n")]
    if top is not at:
        outside = edit.indent_of(text, top.lineno)  # type: ignore[attr-defined]
        line = edit.first_line(top)
        made.append((line, 0, line, 0, f"{outside}{name} = False\n"))
    return Skip(at.test, name, step, tuple(made), None, loop)


def _flagged(text: str, at: ast.If, loop: ast.For | ast.While, flag: str) -> Skip | None:
    """``if TEST: flag = True``, and later ``if not flag: ...`` in the loop."""
    sets = [s for s in ast.walk(loop) if isinstance(s, ast.Assign) and flag in stores(s)]
    starts = [
        s for s in sets if isinstance(s.value, ast.Constant) and s.value.value is False and s in loop.body
    ]
    guards = [s for s in loop.body if isinstance(s, ast.If) and s.lineno > at.lineno and _reads(s.test, flag)]
    if len(sets) != 2 or len(starts) != 1 or len(guards) != 1 or not _value_last(at.test):
        return None
    reads = [
        n for n in ast.walk(loop) if isinstance(n, ast.Name) and n.id == flag and isinstance(n.ctx, ast.Load)
    ]
    guarded = _guarded(text, guards[0], loop, guards[0].test)
    if guarded is None or len(reads) != 1:
        return None
    indent = edit.indent_of(text, at.lineno)
    line = f"{indent}{flag} = {edit.segment(text, at.test)}\n"
    made = (at.lineno, 0, edit.position(at)[2] + 1, 0, line)
    return Skip(at.test, guarded.when, guarded.step, (made,), guarded.guard, loop)


def _guarded(text: str, at: ast.If, loop: ast.For | ast.While, test: ast.expr) -> Skip | None:
    """``if not NAME: ...``, also ``if not NAME or flag: ...``."""
    if at not in loop.body or at.orelse:
        return None
    match test:
        case ast.UnaryOp(op=ast.Not(), operand=ast.Name() as skip):
            return Skip(skip, skip.id, tuple(at.body), (), at, loop)
        case ast.BoolOp(op=ast.Or(), values=[ast.UnaryOp(op=ast.Not(), operand=ast.Name() as skip), *others]):
            codes = [edit.segment(text, o) for o in others]
            if all(isinstance(o, ast.Name | ast.Attribute) for o in others):
                return Skip(
                    skip, " and ".join([f"not {c}" for c in codes] + [skip.id]), tuple(at.body), (), at, loop
                )
    return None


def _value_last(test: ast.expr) -> bool:
    """Whether assigning the test asks no tensor for its truth: it has only Python operands in front."""
    if isinstance(test, ast.BoolOp):
        return isinstance(test.op, ast.And) and all(
            isinstance(v, ast.Name | ast.Attribute) for v in test.values[:-1]
        )
    return isinstance(test, ast.Compare | ast.Name | ast.Call | ast.Attribute)


def _reads(node: ast.AST, name: str) -> bool:
    return any(isinstance(n, ast.Name) and n.id == name for n in ast.walk(node))


# --- the rewrite --------------------------------------------------------------------------------------------


def rewrite(request: Request, skip: Skip) -> Skipped:
    """The step as a function under ``_unless``. Raises Refused."""
    text, tree = request.text, edit.parse(request.text)
    function = next(
        (n for n in reversed(edit.path_at(tree, edit.span_of(skip.loop))) if isinstance(n, ast.FunctionDef)),
        None,
    )
    if function is None:
        raise Refused("The loop stands at module level.", "Move it into a function.")
    _check_step(text, skip.step)
    carried = _carried(function, skip)
    _check_same(request, skip, carried)
    beside = _beside(request, skip, carried)
    name = edit.unused_name(tree, "run_layer")
    torch = edit.ensure_torch_import(text)[1]
    block = _block(text, skip, carried, beside, name)
    first = skip.guard.lineno if skip.guard is not None else edit.first_line(skip.step[0])
    last = edit.position(skip.step[-1])[2]
    changed = edit.replace_spans(text, [*skip.edits, (first, 0, last + 1, 0, block)])
    changed = _with_helper(changed, function, torch)
    qualified = next(name for name, node in edit.functions(tree) if node is function)
    condition = ast.unparse(skip.test if not isinstance(skip.test, ast.BoolOp) else skip.test.values[-1])
    return Skipped(changed, qualified, Predicate(qualified, condition, condition))


def _check_step(text: str, step: Sequence[ast.stmt]) -> None:
    """Statements that do nothing but give names values. Raises Refused."""
    for statement in step:
        targets = (
            stores(statement) if isinstance(statement, ast.Assign | ast.AnnAssign | ast.AugAssign) else None
        )
        held = [n for n in ast.walk(statement) if isinstance(n, ast.Attribute | ast.Subscript)]
        if targets is None or any(isinstance(n.ctx, ast.Store | ast.Del) for n in held):
            raise Refused(
                f"Line {statement.lineno} does more than give a name a value, and is skipped with the layer.",
                "Do it outside of the skipped part, or " + _BY_HAND[0].lower() + _BY_HAND[1:],
            )
        if any(isinstance(n, ast.Name) and n.id == "super" for n in ast.walk(statement)):
            raise Refused(f"Line {statement.lineno} calls super().", _BY_HAND)
        if any(isinstance(n, ast.NamedExpr | ast.Yield | ast.Await) for n in ast.walk(statement)):
            raise Refused(f"Line {statement.lineno} binds a name inside an expression.", _BY_HAND)
        if not owns_lines(text, statement):
            raise Refused(
                f"Line {statement.lineno} holds several statements.", "Put each on a line of its own."
            )


def _carried(function: ast.FunctionDef, skip: Skip) -> list[str]:
    """The names that the step changes and that are read behind it, or in its next round."""
    inside = {n for s in skip.step for n in ast.walk(s)}
    bound = list(dict.fromkeys(name for s in skip.step for name in _in_order(s)))
    outside = {n.id for n in ast.walk(function) if isinstance(n, ast.Name) and n not in inside}
    early = {name for name in bound if _read_first(skip.step, name)}
    return [name for name in bound if name in outside or name in early]


def _in_order(statement: ast.stmt) -> Iterator[str]:
    for node in ast.walk(statement):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.id


def _read_first(step: Sequence[ast.stmt], name: str) -> bool:
    """Whether a statement reads the name before one has set it."""
    for statement in step:
        reads = isinstance(statement, ast.AugAssign) and name in stores(statement)
        if reads or any(
            isinstance(n, ast.Name) and n.id == name and isinstance(n.ctx, ast.Load)
            for n in ast.walk(statement)
        ):
            return True
        if name in stores(statement):
            return False
    return False


def _check_same(request: Request, skip: Skip, carried: Sequence[str]) -> None:
    """A selection needs both values: tensors of one shape, dtype and device. Raises Refused."""
    if not carried:
        raise Refused("The skipped part changes nothing that is used later.", _BY_HAND)
    before = request.facts.names(skip.step[0], carried)
    after = request.facts.names(skip.step[-1], carried, after=True)
    if not all(after.values()):
        before = request.facts.names(skip.step[0], carried, force={skip.test: False})
        after = request.facts.names(skip.step[-1], carried, after=True, force={skip.test: False})
    for name in carried:
        kinds = {(f.shape, f.dtype, f.device) for f in (*before[name], *after[name])}
        if not all(f.is_tensor for f in (*before[name], *after[name])):
            raise Refused(f"`{name}` is not a tensor before and after the layer.", _BY_HAND)
        if not before[name] or not after[name]:
            raise Refused(f"No input reaches `{name}`.", "Give inputs that reach it.")
        if len({(f.shape, f.dtype, f.device) for f in before[name]}) != len(kinds):
            raise Refused(f"`{name}` has another shape or dtype behind the layer.", _BY_HAND)


def _beside(request: Request, skip: Skip, carried: Sequence[str]) -> list[str]:
    """The other tensors that the step reads: a layer may write into them."""
    read = {n.id for s in skip.step for n in loads(s)} - set(carried)
    before = request.facts.names(skip.step[0], sorted(read))
    return [name for name in sorted(read) if any(fact.is_tensor for fact in before.get(name, ()))]


def _block(text: str, skip: Skip, carried: Sequence[str], beside: Sequence[str], name: str) -> str:
    """The function and its call, at the place of the step."""
    at = skip.guard if skip.guard is not None else skip.step[0]
    indent, unit = edit.indent_of(text, edit.first_line(at)), edit.indent_unit(text)
    names = ", ".join(carried)
    start = edit.first_line(skip.step[0])
    if skip.guard is not None:  # comments under the `if` move along
        start = edit.position(skip.guard.test)[2] + 1
    rows = "".join(edit.lines(text)[start - 1 : edit.position(skip.step[-1])[2]])
    body = edit.reindent(rows if rows.endswith(("\n", "\r")) else rows + "\n", indent + unit)
    match skip.step:
        case [ast.Assign(targets=[ast.Name(id=only)])] if [only] == list(carried):
            body = body.replace(f"{indent}{unit}{only} = ", f"{indent}{unit}return ", 1)
        case _:
            body += f"{indent}{unit}return {names}\n"
    more = f", beside=({', '.join(beside)}{',' * (len(beside) == 1)})" if beside else ""
    call = edit.wrap_call(f"{indent}{names} = {HELPER}({skip.when}, {name}, {names}{more})")
    above = edit.lines(text)[first_line - 2] if (first_line := edit.first_line(at)) > 1 else ""
    blank = "\n" if above.strip() and not above.rstrip().endswith(":") else ""
    return f"{blank}{indent}def {name}({', '.join([*carried, *beside])}):\n{body}\n{call}\n"


def _with_helper(text: str, function: ast.FunctionDef, torch: str) -> str:
    tree = edit.parse(text)
    defined = {s.name: s for s in tree.body if isinstance(s, ast.FunctionDef)}
    ours = ast.parse(helper_text(torch)).body
    if HELPER in defined and ast.dump(defined[HELPER]) == ast.dump(ours[-1]):
        return text
    taken = {s.name for s in ours if isinstance(s, ast.FunctionDef)} & set(edit.names(tree))
    taken -= {HELPER}  # the call is there already
    if taken or HELPER in defined:
        raise Refused(f"The file has a `{min(taken | {HELPER})}` of its own.", _BY_HAND)
    block = helper_text(torch)
    own = defined.get(host_op_text.HELPER)
    theirs = ast.parse(host_op_text.helper_text(host_op_text.HELPER, torch)).body[0]
    if own is None:
        block = host_op_text.helper_text(host_op_text.HELPER, torch) + "\n\n" + block
    elif ast.dump(own) != ast.dump(theirs):
        raise Refused(f"The file has a `{host_op_text.HELPER}` of its own.", _BY_HAND)
    else:
        following = tree.body[tree.body.index(own) + 1]
        return edit.ensure_torch_import(edit.insert_before_toplevel(text, edit.first_line(following), block))[
            0
        ]
    return edit.ensure_torch_import(edit.insert_after_imports(text, block))[0]
