"""Python code that can't be captured becomes one op of the graph: it runs when the compiled program gets there.

``of_function`` leaves a function as it is, and puts a line in front of its body that calls the op while compiling;
``of_call`` puts the op in place of one call. Both need a result whose size, dtype and device follow from the
arguments, and that takes no part in gradients. Outside the compiler everything runs as it did.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass

from onegraph.lowering import choice, ops, pure_code, written_helpers
from onegraph.lowering.effect_scope import loads, scope_of
from onegraph.lowering.effect_shapes import dotted
from onegraph.lowering.effect_text import owns_lines
from onegraph.lowering.host_shapes import SCALARS, annotation, fake_of, kinds
from onegraph.lowering.refused import Refused
from onegraph.model import Predicate
from onegraph.rewrite import text as edit
from onegraph.rewrite.request import Fact, Request

HELPER = "_host_op"
_HELPER_TEXT = '''\
def {name}(fake, known=None, gives="tensor", ordered=True):
    """Make a Python function one op of a graph, in program order.

    ``fake`` tells its result without values, for arguments of the ``known`` kinds. With other arguments, and outside
    of the compiler, the function is called. It ``gives`` a tensor, an "array", a "number" for ``.item()``, or a
    "scalar", which is a number as a tensor.
    """
    import re
    from types import SimpleNamespace

    from torch._library.effects import EffectType

    def kind(value):
        if isinstance(value, {torch}.Tensor):
            return None if value.requires_grad else (value.dtype, value.ndim)
        if isinstance(value, (list, tuple)):
            return (type(value), len(value)) if all(type(item) is int for item in value) else None
        return type(value)

    def as_tensor(value):
        if isinstance(value, {torch}.Tensor):
            return value
        return {torch}.tensor(value, dtype={torch}.float64 if type(value) is float else None)

    def number(value):  # ``.item()`` gives it back as it is
        plain = type(value) in (bool, float) or type(value) is int and -(2**63) <= value < 2**63
        return as_tensor(value) if plain else SimpleNamespace(item=lambda: value)

    def decorate(function):
        namespace, name = "host_" + re.sub(r"\\W", "_", __name__, flags=re.ASCII), function.__name__
        while hasattr(getattr({torch}.ops, namespace), name):  # the module was loaded before
            name += "_"
        schema = {torch}.library.infer_schema(function, mutates_args=())
        names = function.__code__.co_varnames[: function.__code__.co_argcount]
        bare = "Tensor" not in schema.partition(")")[0]  # Inductor frees buffers too early around such an op
        if bare:
            schema = schema.replace("(", "(Tensor _place_, ", 1).replace(", )", ")")

        def told(*args):
            return fake(**dict(zip(names, args[bare:])))

        def run(*args):
            result, wanted = as_tensor(function(*args[bare:])), told(*args)
            if (result.shape, result.dtype) != (wanted.shape, wanted.dtype):
                found, due = tuple(result.shape), tuple(wanted.shape)
                raise RuntimeError(f"{{name}} gave {{result.dtype}} {{found}}, not {{wanted.dtype}} {{due}}")
            return result.detach().clone(memory_format={torch}.contiguous_format)

        op = {torch}.library.custom_op(
            f"{{namespace}}::{{name}}", run, mutates_args=(), schema=schema, tags=({torch}.Tag.cudagraph_unsafe,)
        )
        op.register_fake(told)
        if ordered:  # each call counts: it may draw a random number, or read a clock
            op.register_effect(EffectType.ORDERED)

        def takes(*args):
            return {torch}.compiler.is_compiling() and (
                known is None or all(kind(arg) in known[name] for name, arg in zip(names, args))
            )

        def call(*args):
            if not takes(*args):
                value = function(*args)
                return {{"number": number, "scalar": as_tensor}}.get(gives, lambda value: value)(value)
            result = op({torch}.empty(0), *args) if bare else op(*args)
            return result.numpy() if gives == "array" else result

        call.takes = takes
        return call

    return decorate
'''


def helper_text(name: str, torch: str) -> str:
    """The definition of the decorator that ops of this file stand under."""
    return _HELPER_TEXT.format(name=name, torch=torch)


_CHANGES = frozenset(("append", "extend", "fill", "itemset", "put", "resize", "sort", "update"))
_DESCRIBES = frozenset(("device", "dim", "dtype", "item", "len", "ndim", "numel", "shape", "size", "tolist"))
_TO_AND_FROM_PYTHON = frozenset((
    "arange", "as_tensor", "asarray", "bool", "clone", "contiguous", "cpu", "detach", "float", "from_numpy",
    "full", "int", "long", "ones", "sum", "tensor", "to", "zeros",
))  # fmt: skip


@dataclass(frozen=True, slots=True)
class Made:
    """The file with an op added. ``fake`` is the expression that tells its result."""

    text: str
    op: str
    function: str  # qualified name of the function that changed
    fake: str
    conditions: tuple[Predicate, ...] = ()  # that it is a part of


@dataclass(frozen=True, slots=True)
class _Op:
    """An op to write: ``parameters`` with their annotations, the kinds of arguments that were seen, the expression that
    it runs and what that gives."""

    name: str
    parameters: Mapping[str, str]
    known: str
    fake: str
    body: str
    gives: str  # "tensor", "array", "number" or "scalar"


# --- a whole function ---------------------------------------------------------------------------------------


def around(request: Request) -> ast.FunctionDef | None:
    """The function at module level that the site stands in."""
    for statement in edit.parse(request.text).body:
        within = edit.first_line(statement) <= request.site.span.line <= edit.position(statement)[2]
        if isinstance(statement, ast.FunctionDef) and within:
            return statement
    return None


def has_one(function: ast.FunctionDef) -> bool:
    """Whether the function calls an op of its own while compiling, so that its body is not captured."""
    return any(
        isinstance(s, ast.If) and (dotted(getattr(s.test, "func", s.test)) or "").endswith("_op.takes")
        for s in function.body[:2]
    )


def of_function(request: Request, function: ast.FunctionDef) -> Made:
    """The function with an op that stands for it in graphs. Raises Refused."""
    arguments = function.args
    if arguments.vararg or arguments.kwarg or function.name.startswith("__"):
        raise Refused(f"`{function.name}` takes any arguments.", "Name its arguments.")
    if any(isinstance(n, ast.Yield | ast.YieldFrom | ast.Await) for n in ast.walk(function)):
        raise Refused(f"`{function.name}` is a generator.", "Give back a list.")
    positional = [*arguments.posonlyargs, *arguments.args]
    names = [a.arg for a in (*positional, *arguments.kwonlyargs)]
    first = function.body[1 if ast.get_docstring(function, clean=False) is not None else 0 :]
    if not first or not owns_lines(request.text, first[0]):
        raise Refused(f"`{function.name}` is written on one line.", "Write its body on lines of its own.")
    given = request.facts.names(first[0], names)
    _check_unchanged(function, names, {n for n, facts in given.items() if any(f.is_tensor for f in facts)})
    returned = _result(request, function)
    torch = edit.ensure_torch_import(request.text)[1]
    parameters = _parameters(given, function.name)
    firsts = {name: facts[0] for name, facts in given.items()}
    fakes = {fake_of(fact, firsts, function, torch) for fact in returned}
    if len(fakes) > 1:
        raise Refused(f"`{function.name}` gives results of several sizes or dtypes.", "Give one size.")
    _check_host_code(request, function)
    call = [_as_given(a.arg, firsts[a.arg], torch) for a in positional]
    call += [f"{a.arg}={_as_given(a.arg, firsts[a.arg], torch)}" for a in arguments.kwonlyargs]
    op = _Op(
        edit.unused_name(edit.parse(request.text), f"_{function.name.lstrip('_')}_op"),
        parameters,
        _known(given, torch),
        fakes.pop(),
        f"{function.name}({', '.join(call)})",
        _gives(returned[0]),
    )
    passed = ", ".join(_passed(name, name, given[name]) for name in names)
    indent, unit = edit.indent_of(request.text, first[0].lineno), edit.indent_unit(request.text)
    lines = f"{indent}if {op.name}.takes({passed}):\n"
    lines += edit.wrap_call(f"{indent}{unit}return {op.name}({passed})") + "\n"
    at = first[0].lineno
    text = edit.replace_spans(request.text, [(at, 0, at, 0, lines)])
    return Made(_with(text, function.lineno, op, torch), op.name, function.name, op.fake)


def _result(request: Request, function: ast.FunctionDef) -> list[Fact]:
    """What the function gave; arrays and tensors without gradient only. Raises Refused."""
    inner = {
        n
        for f in ast.walk(function)
        if isinstance(f, edit.Function) and f is not function
        for n in ast.walk(f)
    }
    values = [n.value for n in ast.walk(function) if isinstance(n, ast.Return) and n not in inner]
    facts = [fact for seen in request.facts.values(*[v for v in values if v is not None]) for fact in seen]
    if not facts or None in values:
        raise Refused(f"`{function.name}` was not seen to give a value.", "Give inputs that reach its end.")
    odd = next((fact for fact in facts if not fact.is_tensor and fact.sizes is None), None)
    if odd is not None:
        raise Refused(
            f"`{function.name}` gives a {odd.type}, which can't come out of an op.",
            f"Let `{function.name}` give a tensor, or call it outside of the compiled function.",
        )
    names = {argument.arg for argument in ast.walk(function.args) if isinstance(argument, ast.arg)}
    _check_new(request, [v for v in values if v is not None], function, names)
    if any(fact.requires_grad for fact in facts):
        raise Refused(
            f"The result of `{function.name}` takes part in the gradient.",
            "Put what can't be captured into a function of its own, on detached tensors.",
        )
    if len({fact.is_tensor for fact in facts}) > 1:
        raise Refused(f"`{function.name}` gives tensors and arrays.", "Give one of the two.")
    return facts


def _check_host_code(request: Request, function: ast.FunctionDef) -> None:
    """Only what works on Python values or arrays is worth an op; tensor code belongs into the graph."""
    calls = [n for n in ast.walk(function) if isinstance(n, ast.Call | ast.BinOp)]
    for node, facts in zip(calls, request.facts.values(*calls), strict=True):
        name = type(node.op).__name__ if isinstance(node, ast.BinOp) else choice.called(node)
        if any(fact.is_tensor and fact.shape for fact in facts) and name not in _TO_AND_FROM_PYTHON:
            raise Refused(
                f"`{function.name}` computes with tensors in line {node.lineno}, which belongs into the graph.",
                "Put what can't be captured into a function of its own.",
            )


def _check_new(request: Request, results: Sequence[ast.expr], around: ast.AST, names: Set[str]) -> None:
    """What an op gives is new: what is written into it later does not show in an argument. Raises Refused."""
    reads = [n for n in loads(around) if n.id in names]
    facts = request.facts.values(*results, *reads)  # of one run: it compares memory
    made = {fact.storage for seen in facts[: len(results)] for fact in seen} - {None}
    for read, seen in zip(reads, facts[len(results) :], strict=True):
        if made & {fact.storage for fact in seen}:
            raise Refused(f"It gives back `{read.id}`, or a view of it.", f"Copy it: `{read.id}.clone()`.")


def _check_unchanged(function: ast.AST, names: Sequence[str], tensors: Set[str]) -> None:
    """An op may not write into what it is given, nor into an array on the memory of a tensor (``x.numpy()[0] = 1``)."""
    held = {name: name for name in names}
    for node in ast.walk(function):
        if isinstance(node, ast.Assign | ast.For):
            value, targets = (
                (node.iter, [node.target]) if isinstance(node, ast.For) else (node.value, node.targets)
            )
            inside = next((held[name] for name in _names_held(value) if held.get(name) in tensors), None)
            if inside is not None:
                held |= {
                    name: inside for t in targets for name in pure_code.names_stored(t) if name not in held
                }
    for node in ast.walk(function):
        target: ast.expr | None = None
        if isinstance(node, ast.Subscript | ast.Attribute) and isinstance(node.ctx, ast.Store | ast.Del):
            target = node.value
        elif isinstance(node, ast.AugAssign):
            target = node.target
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            method = node.func.attr
            if (method.endswith("_") and not method.endswith("__")) or method in _CHANGES:
                target = node.func.value
        root = pure_code.root_of(target) if target is not None else None
        if isinstance(root, ast.Name) and root.id in held:
            name = held[root.id]
            raise Refused(f"Line {root.lineno} may change `{name}` in place.", f"Copy `{name}` first.")


def _names_held(node: ast.AST) -> Iterator[str]:
    """The names whose memory the value of an expression may be: not those that only tell a size or a number."""
    if isinstance(node, ast.Name):
        yield node.id
    elif isinstance(node, ast.Call) and choice.called(node) in _DESCRIBES | ops.VALUES | ops.PYTHON:
        return
    elif (
        not isinstance(node, ast.BinOp | ast.Compare | ast.UnaryOp)
        and getattr(node, "attr", "") not in _DESCRIBES
    ):
        for child in ast.iter_child_nodes(node):
            yield from _names_held(child)


# --- one call -----------------------------------------------------------------------------------------------


def of_call(request: Request, call: ast.Call) -> Made:
    """One call with an op in its place. Raises Refused."""
    text, tree = request.text, edit.parse(request.text)
    statement = edit.statement_at(tree, edit.span_of(call))
    assert statement is not None
    scope = scope_of(tree, statement)
    if scope.function is None:
        raise Refused("It stands at module level.", "Move it into a function.")
    pieces = _pieces(call, scope.names)
    facts = dict(zip(pieces, request.facts.values(*pieces.values()), strict=True))
    (results,) = request.facts.values(call)
    if not results:
        raise Refused("No input reaches it.", "Give inputs that reach it.")
    if any(fact.requires_grad for fact in results):
        raise Refused("Its result takes part in the gradient.", "Call it on detached tensors.")
    _check_new(request, [call], call, set(scope.names))
    torch = edit.ensure_torch_import(text)[1]
    shown = " ".join(edit.segment(text, call.func).split())
    parameters = _parameters(facts, shown)
    firsts = {name: seen[0] for name, seen in facts.items()}
    fakes = {fake_of(fact, firsts, call, torch) for fact in results}
    if len(fakes) > 1:
        raise Refused("It gives results of several sizes or dtypes.", "Give one size.")
    names = [(edit.position(node), name) for name, node in pieces.items() if edit.segment(text, node) != name]
    moved = _segment_with(text, call, [(*at, _as_given(name, firsts[name], torch)) for at, name in names])
    gives, compare = _gives(results[0]), _decides(tree, call)
    op = _Op(
        edit.unused_name(tree, f"_{shown.rpartition('.')[2].lstrip('_')}_op"),
        parameters,
        _known(facts, torch),
        fakes.pop(),
        moved,
        "scalar" if gives == "number" and compare is not None else gives,
    )
    passed = ", ".join(_passed(edit.segment(text, node), name, facts[name]) for name, node in pieces.items())
    back = ".item()" if op.gives == "number" else ""
    in_place = f"{op.name}({passed}){back}"
    changed = edit.replace_spans(text, [(*edit.position(call), in_place)])
    qualified = next(name for name, node in edit.functions(tree) if node is scope.function)
    conditions: tuple[Predicate, ...] = ()
    if op.gives == "scalar" and compare is not None:
        after = _segment_with(text, compare, [(*edit.position(call), in_place)])
        conditions = (Predicate(qualified, edit.segment(text, compare), after),)
    text = _with(changed, edit.position(scope.parents[0])[0], op, torch)
    return Made(text, op.name, qualified, op.fake, conditions)


def _decides(tree: ast.Module, call: ast.Call) -> ast.Compare | None:
    """The comparison with another number in the test of a branch: there a tensor does as well."""
    path = edit.path_at(tree, edit.span_of(call))
    at = next(n for n, node in enumerate(path) if isinstance(node, ast.Call) and _same_place(node, call))
    compare = path[at - 1]
    if not isinstance(compare, ast.Compare) or len(compare.ops) > 1:
        return None
    if not isinstance(compare.ops[0], ast.Lt | ast.LtE | ast.Gt | ast.GtE | ast.Eq | ast.NotEq):
        return None
    inner: ast.AST = compare
    for node in reversed(path[: at - 1]):
        if isinstance(node, ast.If | ast.IfExp):
            return compare if node.test is inner else None
        if not isinstance(node, ast.BoolOp | ast.UnaryOp):
            return None
        inner = node
    return None


def _same_place(one: ast.expr, other: ast.expr) -> bool:
    return edit.position(one) == edit.position(other)


def with_reader(text: str, at: ast.stmt, call: str, written: Callable[[str], str]) -> str:
    """The text with an op above a statement that gives the float of ``call`` as a tensor (float64, no dimensions);
    ``written`` makes the text with calls of the op.
    """
    tree, torch = edit.parse(text), edit.ensure_torch_import(text)[1]
    fake = f"{torch}.empty((), dtype={torch}.float64)"
    body = f"{torch}.tensor({call}(), dtype={torch}.float64)"
    name = edit.unused_name(tree, f"_{call.rpartition('.')[2].lstrip('_')}_op")
    outermost = scope_of(tree, at).parents[0]
    return _with(written(name), edit.position(outermost)[0], _Op(name, {}, "", fake, body, "tensor"), torch)


def _gives(result: Fact) -> str:
    return "tensor" if result.is_tensor else "number" if result.type in SCALARS else "array"


def _pieces(call: ast.Call, local: frozenset[str]) -> dict[str, ast.expr]:
    """The local names, and attributes of them, that the arguments of a call read, under names for parameters."""
    found: dict[str, ast.expr] = {}
    inside = {id(n) for n in ast.walk(call)}
    chains: list[ast.expr] = []

    def visit(node: ast.AST) -> None:
        if isinstance(node, ast.Attribute | ast.Name) and (dotted(node) or "").partition(".")[0] in local:
            chains.append(node)
            return
        if isinstance(node, ast.Call) and isinstance(
            node.func, ast.Attribute
        ):  # a method: its object goes in
            for part in (node.func.value, *node.args, *node.keywords):
                visit(part)
            return
        for child in ast.iter_child_nodes(node):
            visit(child)

    reads = {n.id for n in loads(call)}
    for argument in (*call.args, *(k.value for k in call.keywords)):
        visit(argument)
    if (dotted(call.func) or "").partition(".")[0] in local:
        raise Refused(
            f"`{ast.unparse(call.func)}` belongs to an object of the function.", "Make it a function."
        )
    for node in chains:
        path = dotted(node) or ""
        if path.partition(".")[0] not in reads or id(node) not in inside:
            continue  # bound inside, in a comprehension
        name = path.rpartition(".")[2]
        while name in found and ast.dump(found[name]) != ast.dump(node):
            name += "_"
        found[name] = node
    return found


def _segment_with(text: str, node: ast.AST, edits: list[edit.Edit]) -> str:
    """The text of one node with some of its parts replaced, on one line where it fits."""
    line, column, end_line, end_column = edit.position(node)
    start, stop = edit.offset(text, line, column), edit.offset(text, end_line, end_column)
    changed = edit.replace_spans(text, edits)
    return changed[start : len(changed) - (len(text) - stop)]


# --- what goes in, and the text -------------------------------------------------------------------------------


def _parameters(given: Mapping[str, Sequence[Fact]], what: str) -> dict[str, str]:
    found: dict[str, str] = {}
    for name, facts in given.items():
        kind = annotation(facts)
        if kind is None or not name.isascii():
            types = " or a ".join(sorted({fact.type for fact in facts})) or "value that no input showed"
            raise Refused(
                f"`{what}` takes `{name}`, a {types}, which an op can't take.",
                "Pass what it needs of it: tensors, numbers, strings.",
            )
        found[name] = kind
    return found


def _known(given: Mapping[str, Sequence[Fact]], torch: str) -> str:
    """The kinds of arguments that were seen, as a dict."""
    rows = (f'"{name}": [{", ".join(kinds(facts, torch))}]' for name, facts in given.items())
    return f"{{{', '.join(rows)}}}"


def _as_given(name: str, fact: Fact, torch: str) -> str:
    """A parameter in the type that the function knows."""
    types = {"tuple": "tuple", "torch.Size": f"{torch}.Size"}
    return f"{types[fact.type]}({name})" if fact.type in types else name


def _passed(code: str, name: str, facts: Sequence[Fact]) -> str:
    if not any(fact.requires_grad for fact in facts):
        return code
    if any(fact.type == "NoneType" for fact in facts):
        return f"None if {code} is None else {code}.detach()"
    return f"{code}.detach()"


def _with(text: str, line: int, op: _Op, torch: str) -> str:
    """The op and its helper above the statement at a line, and torch imported."""
    helper = written_helpers.name_of(text, HELPER, _HELPER_TEXT)
    read = {n.id for n in ast.walk(ast.parse(op.fake)) if isinstance(n, ast.Name)}
    used = [name for name in op.parameters if name in read]
    head = ", ".join([*used, "**_"])
    unit = edit.indent_unit(text)
    parameters = [f"{name}: {kind.replace('torch.', torch + '.')}" for name, kind in op.parameters.items()]
    signature = f"def {op.name}({', '.join(parameters)}) -> {torch}.Tensor:"
    if len(signature) > edit.WIDTH:
        signature = (
            f"def {op.name}(\n" + "".join(f"{unit}{p},\n" for p in parameters) + f") -> {torch}.Tensor:"
        )
    body = edit.wrap_call(f"{unit}return {op.body}")
    told = [f"lambda {head}: {op.fake}", *([op.known] if op.parameters else [])]
    told += [f'gives="{op.gives}"'] if op.gives != "tensor" else []
    decorator = edit.wrap_call(f"{helper}({', '.join(told)})").replace(helper, f"@{helper}", 1)
    block = f"{decorator}\n{signature}\n{body}\n"
    known = any(isinstance(s, ast.FunctionDef) and s.name == helper for s in edit.parse(text).body)
    if not known:
        block = f"{helper_text(helper, torch)}\n\n{block}"
    text = edit.insert_before_toplevel(text, _after_helper(text, helper, line), block)
    return edit.ensure_torch_import(text)[0]


def _after_helper(text: str, helper: str, line: int) -> int:
    """The line of the statement before which the op goes: behind its helper."""
    body = edit.parse(text).body
    at = next((n for n, s in enumerate(body) if isinstance(s, ast.FunctionDef) and s.name == helper), None)
    if at is None or body[at].lineno < line:
        return line
    return edit.first_line(body[at + 1])
