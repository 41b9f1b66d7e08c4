"""Code that only writes into tensors, and that no graph can hold, becomes an op that says what it writes.

Nothing is assumed about sizes: the op returns new values of the tensors that the code writes, and a tensor that
is written in place keeps its size. Its backward pass runs the code once more and lets autograd differentiate it: the
code draws no random numbers, so that gives the same. Called outside the compiler the code runs as before.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from onegraph.lowering import effect_params, effect_text, pure_code
from onegraph.lowering.effect_names import of_value
from onegraph.lowering.effect_scope import Scope, loads, scope_of, stores
from onegraph.lowering.refused import Refused
from onegraph.lowering.source import Source
from onegraph.lowering.toplevel import helper_in, with_definition
from onegraph.model import Candidate, Declined, Level
from onegraph.rewrite import text as text_
from onegraph.rewrite.request import Fact, Request

HELPER = "_writing_op"
HELPER_TEXT = '''\
def {helper}(*written):
    """Code that writes into the tensors named: a plain call in eager mode, one op inside a compiled graph."""
    import inspect
    import re

    def decorate(function):
        places = [list(inspect.signature(function).parameters).index(name) for name in written]
        schema = {torch}.library.infer_schema(function, mutates_args=()).replace("-> ()", "-> Tensor[]")
        namespace, name = "host_" + re.sub(r"\\W", "_", __name__, flags=re.ASCII), function.__name__
        while hasattr(getattr({torch}.ops, namespace), name):  # the module was loaded before
            name += "_"

        def written_copies(*args):
            args = [arg.clone() if n in places else arg for n, arg in enumerate(args)]
            function(*args)
            return [args[n] for n in places]

        def gradients(grads, needed, *args):  # by running the code once more: it draws no random numbers
            def again(*inputs):
                given = dict(zip(needed, inputs))
                return written_copies(*[given.get(n, arg) for n, arg in enumerate(args)])

            _, pull_back = {torch}.func.vjp(again, *[args[n] for n in needed])
            return [grad.clone() for grad in pull_back(grads)]

        def op(title, run, schema):
            tags = ({torch}.Tag.cudagraph_unsafe,)
            full = f"{{namespace}}::{{title}}"
            return {torch}.library.custom_op(full, run, mutates_args=(), schema=schema, tags=tags)

        forward_op = op(name, written_copies, schema)
        backward_op = op(f"{{name}}_backward", gradients, "(Tensor[] grads, int[] needed, " + schema[1:])
        forward_op.register_fake(lambda *args: [{torch}.empty_like(args[n]) for n in places])
        backward_op.register_fake(lambda grads, needed, *args: [{torch}.empty_like(args[n]) for n in needed])

        def remember(ctx, inputs, output):
            ctx.save_for_backward(*[a if isinstance(a, {torch}.Tensor) else None for a in inputs])
            ctx.plain = [None if isinstance(a, {torch}.Tensor) else a for a in inputs]

        def backward(ctx, grads):
            args = [p if t is None else t for t, p in zip(ctx.saved_tensors, ctx.plain)]
            needed = [n for n, needs in enumerate(ctx.needs_input_grad[: len(args)]) if needs]
            found = dict(zip(needed, backward_op(grads, needed, *args)))
            return tuple(found.get(n) for n in range(len(args)))

        forward_op.register_autograd(backward, setup_context=remember)

        def call(*args):
            device = args[places[0]].device.type
            if not {torch}.compiler.is_compiling() or {torch}.is_autocast_enabled(device):  # an op is not cast
                return function(*args)
            before = [arg.clone() if n in places else arg for n, arg in enumerate(args)]  # for the backward pass
            for n, value in zip(places, forward_op(*before)):
                args[n].copy_(value)

        return call

    return decorate
'''
_NOTE = (
    "in the compiled program this code runs as one op, in Python: it waits for the device as before, and a CUDA graph "
    "ends before it",
)
_GRAD_NOTE = "an input of that op that gets no gradient in eager mode gets zeros"


def written_in_op(request: Request, kind: str) -> Iterator[Candidate | Declined]:
    """The smallest run of statements around the site that hands on nothing but what it writes, as an op."""
    tree = text_.parse(request.text)
    statement = text_.statement_at(tree, request.site.span)
    scope = scope_of(tree, statement) if statement is not None else None
    if statement is None or scope is None or scope.function is None:
        yield Declined(kind, "The statement stands at module level.", "Move it into a function.")
        return
    refused: Refused | None = None
    for block, at, around in _blocks(scope, statement):
        try:
            run = _run(tree, scope, block, at, around)
            candidate = _candidate(request, tree, scope, run, kind)
        except Refused as error:
            refused = error
            continue
        yield candidate
        return
    assert refused is not None
    yield Declined(kind, refused.reason, refused.next_step)


@dataclass(frozen=True, slots=True)
class _Run:
    """The statements that move, in order; others may stand between them and stay."""

    statements: tuple[ast.stmt, ...]
    reads: frozenset[str]  # names of the function that they read from outside
    kept: frozenset[str]  # names that they change with ``+=`` and that are read behind: fine for tensors only


def _blocks(scope: Scope, statement: ast.stmt) -> Iterator[tuple[list[ast.stmt], int, ast.AST]]:
    """The blocks that hold the statement, innermost first, with its place there and the node around."""
    inner: ast.AST = statement
    for parent in reversed(scope.parents):
        for name in ("body", "orelse"):
            block = getattr(parent, name, None)
            if isinstance(block, list) and inner in block:
                yield block, block.index(inner), parent
        inner = parent
        if parent is scope.function:
            return


def _run(tree: ast.Module, scope: Scope, block: list[ast.stmt], at: int, around: ast.AST) -> _Run:
    """The shortest run from a statement on that fits. Raises Refused with what is wrong with the first."""
    first: Refused | None = None
    for end in range(at + 1, len(block) + 1):
        try:
            return _checked(tree, scope, block[:at], block[at:end])
        except Refused as error:
            first = first or error
            if not isinstance(
                block[end - 1], ast.Assign | ast.AnnAssign | ast.AugAssign | ast.For | ast.While | ast.If
            ):
                break
    assert first is not None
    raise first


def _checked(
    tree: ast.Module, scope: Scope, before: Sequence[ast.stmt], statements: Sequence[ast.stmt]
) -> _Run:
    function = scope.function
    assert function is not None
    moved = _without_outside(tree, function, statements, scope.names)
    pure_code.check(tree, moved, scope.names)
    moved = _with_sources(tree, scope, before, moved)
    if not any(True for _ in pure_code.written_roots(moved)):
        raise Refused(
            f"Line {moved[0].lineno} writes into no tensor.", "Keep it outside of the compiled region."
        )
    reads, _ = pure_code.exposed(moved)
    left = _read_behind(function, moved, reads)
    added = {
        n.target.id
        for s in moved
        for n in ast.walk(s)
        if isinstance(n, ast.AugAssign) and isinstance(n.target, ast.Name)
    }
    bound = {name for s in moved for n in _plain_bindings(s) for name in n}
    wrong = sorted(left - added | left & bound)
    if wrong:
        raise Refused(
            f"`{wrong[0]}` is made in lines {moved[0].lineno} to {text_.position(moved[-1])[2]}, which a graph can't "
            "hold, and used behind them.",
            "Write it into a tensor that is made before.",
        )
    return _Run(tuple(moved), frozenset(reads & scope.names), frozenset(left))


def _nothing_written(statement: ast.stmt) -> Refused:
    return Refused(
        f"Line {statement.lineno} writes into no tensor.",
        "Compile with fullgraph=True, or set capture_scalar_outputs and capture_dynamic_output_shape_ops of "
        "torch._dynamo.config: then torch captures sizes that depend on values.",
    )


def _plain_bindings(statement: ast.stmt) -> Iterator[set[str]]:
    """What a statement binds other than by ``+=``."""
    for node in ast.walk(statement):
        if isinstance(node, ast.Assign):
            yield from (pure_code.names_stored(target) for target in node.targets)
        elif isinstance(node, ast.For | ast.AnnAssign):
            yield pure_code.names_stored(node.target)


def _without_outside(
    tree: ast.Module, function: ast.AST, statements: Sequence[ast.stmt], local: frozenset[str]
) -> list[ast.stmt]:
    """The statements without those that make what is used behind and can run before the others."""
    moved: list[ast.stmt] = []
    names: set[str] = set()  # that the moved ones read or bind
    bound: set[str] = set()
    for number, statement in enumerate(statements):
        own, read = stores(statement), {n.id for n in loads(statement)}
        simple = isinstance(statement, ast.Assign) and all(isinstance(t, ast.Name) for t in statement.targets)
        free = number > 0 and simple and not (read & bound or own & names)
        written = any(True for _ in pure_code.written_roots([*moved, statement]))
        if free and not written and own & _read_behind(function, statements, set()):
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
    left = _read_behind(scope.function, [statement, *moved], pure_code.exposed([statement, *moved])[0])
    return not own & left and not (own | reads) & between and not own & read_between


def _read_behind(function: ast.AST, moved: Sequence[ast.stmt], reads: set[str]) -> set[str]:
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


# --- what it is given -------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Given:
    """One parameter of the op, and the places in the run where it takes the place of an expression."""

    name: str
    annotation: str
    argument: str
    facts: tuple[Fact, ...]
    nodes: tuple[ast.expr, ...]
    root: str


def _given(request: Request, scope: Scope, run: _Run) -> list[_Given]:
    names = request.facts.names(run.statements[0], sorted(run.reads))
    chains: dict[str, list[ast.expr]] = {}
    found: list[_Given] = []
    taken = {n for s in run.statements for n in text_.names(s)}
    for node in (n for s in run.statements for n in _roots_read(s, run.reads)):
        root = pure_code.root_of(node)
        assert isinstance(root, ast.Name)
        if effect_params.annotation(names.get(root.id, ())) is None:
            chains.setdefault(ast.unparse(node), []).append(node)
        elif all(each.name != root.id for each in found):
            facts = tuple(names[root.id])
            found.append(_Given(root.id, _annotation(root, facts), root.id, facts, (), root.id))
    done: set[str] = set()
    for code, nodes in sorted(chains.items(), key=lambda item: (len(item[0]), item[0])):
        if any(code.startswith(other + ".") for other in done):
            continue
        (facts,) = request.facts.values(nodes[0])
        if effect_params.annotation(facts) is None:
            if any(other.startswith(code + ".") for other in chains):
                continue
            raise _not_passable(nodes[0], facts)
        done.add(code)
        root = pure_code.root_of(nodes[0])
        assert isinstance(root, ast.Name)
        if isinstance(nodes[0], ast.Name):  # bound between the statements that move
            found.append(_Given(code, _annotation(nodes[0], facts), code, facts, (), code))
            continue
        name = text_.unused_name(ast.Module([], []), of_value(nodes[0], scope.names), taken)
        taken.add(name)
        found.append(_Given(name, _annotation(nodes[0], facts), code, facts, tuple(nodes), root.id))
    return found


def _roots_read(statement: ast.stmt, reads: frozenset[str]) -> Iterator[ast.expr]:
    """Every ``name`` and ``name.a.b`` that starts from a name that is read from outside, each prefix of it too."""
    hidden_free = {id(n) for n in loads(statement)}
    for node in ast.walk(statement):
        chain: ast.expr | None = node if isinstance(node, ast.Name | ast.Attribute) else None
        inner = chain
        while isinstance(inner, ast.Attribute):
            inner = inner.value
        if chain is None or not isinstance(inner, ast.Name) or inner.id not in reads:
            continue
        if id(inner) in hidden_free or isinstance(inner.ctx, ast.Store):
            yield chain


def _not_passable(node: ast.expr, facts: Sequence[Fact]) -> Refused:
    code = ast.unparse(node)
    if not facts:
        return Refused(
            f"No recorded input reaches `{code}` in line {node.lineno}.", "Give inputs that run this line."
        )
    types = " or a ".join(sorted({fact.type.removeprefix("builtins.") for fact in facts}))
    return Refused(
        f"`{code}` is a {types}, which an op can't take as a parameter.",
        "Put what is needed of it (a tensor, a number) into a variable first.",
    )


def _annotation(node: ast.expr, facts: Sequence[Fact]) -> str:
    kind = effect_params.annotation(facts)
    assert kind is not None
    plain, bar, optional = kind.partition(" |")
    return ("torch.types.Number" if plain in effect_params.SCALARS else plain) + bar + optional


# --- what it writes ---------------------------------------------------------------------------------------


def _written(run: _Run, given: Sequence[_Given]) -> list[_Given]:
    """The tensors that the run may write into. Raises Refused where that can't be said."""
    tensors = [each for each in given if any(fact.is_tensor for fact in each.facts)]
    made = _made_from(run)
    written: list[_Given] = []
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


def _made_from(run: _Run) -> dict[str, set[str]]:
    """For each name that the run binds: the names that it may be an alias of."""
    found: dict[str, set[str]] = {}
    for statement in run.statements:
        for node in ast.walk(statement):
            if isinstance(node, ast.Assign | ast.AnnAssign | ast.AugAssign) and node.value is not None:
                targets = node.targets if isinstance(node, ast.Assign) else [node.target]
                source: ast.expr = node.value
            elif isinstance(node, ast.For | ast.comprehension):
                targets, source = [node.target], node.iter
            else:
                continue
            names = {n.id for n in ast.walk(source) if isinstance(n, ast.Name)}
            for name in {n for target in targets for n in pure_code.names_stored(target)}:
                found.setdefault(name, set()).update(names)
    return found


def _check_tensors(run: _Run, given: Sequence[_Given], written: Sequence[_Given]) -> None:
    if not written:
        raise Refused(
            f"Line {run.statements[0].lineno} writes into no tensor.",
            "Keep it outside of the compiled region.",
        )
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
    given = _given(request, scope, run)
    written = _written(run, given)
    _check_tensors(run, given, written)
    torch = text_.ensure_torch_import(text)[1]
    name = text_.unused_name(tree, f"_write_{written[0].name.strip('_')}")
    helper = helper_in(text, HELPER, HELPER_TEXT, torch)
    block = _definition(text, name, helper.name, torch, run, given, written)
    call = f"{name}({', '.join(each.argument for each in given)})"
    done = with_definition(_with_call(text, run, call), run.statements[0].lineno, helper, block)
    done, _ = text_.ensure_torch_import(done)
    qualified = next(q for q, node in text_.functions(tree) if node is function)
    first, last = run.statements[0].lineno, text_.position(run.statements[-1])[2]
    others = [fact for each in given if each not in written for fact in each.facts]
    floating = any((fact.dtype or "").startswith(("torch.float", "torch.bfloat")) for fact in others)
    lines = f"line {first}" if first == last else f"lines {first} to {last}"
    return Candidate(
        kind=kind,
        level=Level.RELAXED if floating else Level.EXACT,
        title=f"{lines}: one op that writes into {' and '.join(f'`{each.argument}`' for each in written)}",
        text=done,
        functions=(qualified,),
        notes=(*_NOTE, _GRAD_NOTE) if floating else _NOTE,
    )


def _definition(
    text: str,
    name: str,
    helper: str,
    torch: str,
    run: _Run,
    given: Sequence[_Given],
    written: Sequence[_Given],
) -> str:
    unit = text_.indent_unit(text)
    parameters = [f"{each.name}: {each.annotation.replace('torch.', torch + '.')}" for each in given]
    head = f"def {name}({', '.join(parameters)}) -> None:"
    if len(head) > text_.WIDTH:
        head = f"def {name}(\n" + "".join(f"{unit}{p},\n" for p in parameters) + ") -> None:"
    names = ", ".join(f'"{each.name}"' for each in written)
    source = Source(text)
    replaced: dict[ast.AST, str] = {node: each.name for each in given for node in each.nodes}
    blocks = "".join(source.block([s], replaced) for s in run.statements)
    return f"@{helper}({names})\n{head}\n{text_.reindent(blocks, unit)}"


def _with_call(text: str, run: _Run, call: str) -> str:
    """The text with the call in place of the last statement, and without the others."""
    for statement in reversed(run.statements):
        first, last = text_.first_line(statement), text_.position(statement)[2]
        indent = text_.indent_of(text, first)
        block = text_.wrap_call(indent + call) + "\n" if statement is run.statements[-1] else ""
        text = text_.replace_lines(text, first, last, block)
    return text
