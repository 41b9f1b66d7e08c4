"""Python code that can't be captured becomes one op of the graph: it runs when the compiled program gets there.

``of_function`` leaves a function as it is, and puts a line in front of its body that calls the op while compiling;
``of_call`` puts the op in place of one call. Both need a result whose size, dtype and device follow from the
arguments, and that takes no part in gradients. Outside the compiler everything runs as it did.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass

from onegraph.lowering import choice, ops, pure_code
from onegraph.lowering.effect_scope import loads, scope_of
from onegraph.lowering.effect_shapes import dotted
from onegraph.lowering.effect_text import owns_lines
from onegraph.lowering.host_op_text import Op, with_op
from onegraph.lowering.host_shapes import SCALARS, annotation, fake_of, kinds
from onegraph.lowering.refused import Refused
from onegraph.model import Predicate
from onegraph.rewrite import text as edit
from onegraph.rewrite.request import Fact, Request

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
    op = Op(
        edit.unused_name(edit.parse(request.text), f"_{function.name.lstrip('_')}_op"),
        parameters,
        known_kinds(given, torch),
        fakes.pop(),
        f"{function.name}({', '.join(call)})",
        _gives(returned[0]),
    )
    passed = ", ".join(as_argument(name, name, given[name]) for name in names)
    indent, unit = edit.indent_of(request.text, first[0].lineno), edit.indent_unit(request.text)
    lines = f"{indent}if {op.name}.takes({passed}):\n"
    lines += edit.wrap_call(f"{indent}{unit}return {op.name}({passed})") + "\n"
    at = first[0].lineno
    text = edit.replace_spans(request.text, [(at, 0, at, 0, lines)])
    return Made(with_op(text, function.lineno, op, torch), op.name, function.name, op.fake)


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
    op = Op(
        edit.unused_name(tree, f"_{shown.rpartition('.')[2].lstrip('_')}_op"),
        parameters,
        known_kinds(facts, torch),
        fakes.pop(),
        moved,
        "scalar" if gives == "number" and compare is not None else gives,
    )
    passed = ", ".join(
        as_argument(edit.segment(text, node), name, facts[name]) for name, node in pieces.items()
    )
    back = ".item()" if op.gives == "number" else ""
    in_place = f"{op.name}({passed}){back}"
    changed = edit.replace_spans(text, [(*edit.position(call), in_place)])
    qualified = next(name for name, node in edit.functions(tree) if node is scope.function)
    conditions: tuple[Predicate, ...] = ()
    if op.gives == "scalar" and compare is not None:
        after = _segment_with(text, compare, [(*edit.position(call), in_place)])
        conditions = (Predicate(qualified, edit.segment(text, compare), after),)
    text = with_op(changed, edit.position(scope.parents[0])[0], op, torch)
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
    return with_op(written(name), edit.position(outermost)[0], Op(name, {}, "", fake, body, "tensor"), torch)


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


def known_kinds(given: Mapping[str, Sequence[Fact]], torch: str) -> str:
    """The kinds of arguments that were seen, as a dict."""
    rows = (f'"{name}": [{", ".join(kinds(facts, torch))}]' for name, facts in given.items())
    return f"{{{', '.join(rows)}}}"


def _as_given(name: str, fact: Fact, torch: str) -> str:
    """A parameter in the type that the function knows."""
    types = {"tuple": "tuple", "torch.Size": f"{torch}.Size"}
    return f"{types[fact.type]}({name})" if fact.type in types else name


def as_argument(code: str, name: str, facts: Sequence[Fact]) -> str:
    if not any(fact.requires_grad for fact in facts):
        return code
    if any(fact.type == "NoneType" for fact in facts):
        return f"None if {code} is None else {code}.detach()"
    return f"{code}.detach()"
