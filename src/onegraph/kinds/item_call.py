"""A Python number is taken out of a tensor: ``.item()``, ``float(t)``, ``int(t)``, ``bool(t)``, ``tolist()``.

What happens: the number must exist before Python can go on, so the graph ends; on a GPU the host waits for
it.
What else it causes: the code behind it runs in a graph of its own, which is compiled again when the number
changes (as an int), and whose backward pass keeps one more activation.

Relaxed: the number is only used in arithmetic. `_number` keeps it as a 0-dim tensor, detached (``.item()`` cuts the
gradient) and of the precision that Python computes in: float64, int64 (numbers beyond 64 bits are not kept), bool.
Where it meets a tensor, `_beside` gives it the promotion of a Python number, by the dtype and the dimensions of each
call: results, dtypes and gradients are eager's bit for bit. What no tensor can do is done with the number, as before.
An index into a tensor becomes a tensor of one index; what it reads is a copy, no view. A condition becomes one on a
tensor, which ``branch_on_tensor`` mends.
Of ``float(t)`` of a floating tensor, torch's warning, where that tensor requires grad, is not given.
What is only kept (``self.losses.append(t.item())``), printed or logged is kept by an op with an ordered effect.
Exact: a whole number or flag that is a size, the bound of a slice, or returned, is taken out by an op and becomes a
symbol of the graph (u0); the lengths of a split, likewise.
Exact: code around it that only computes and writes into tensors becomes an op (see ``data_dependent_shape``); numbers
that were put into a tensor before are handed along as they are (relaxed).
Lossy: a whole number or a flag that was the same on every recorded call is taken for granted; the compiled program
raises where it isn't.
Declined: a text, a float that is returned or goes to another function; a division that would raise in Python;
``**``, whose rounding differs.

Under ``fullgraph=True`` (or ``capture_scalar_outputs``) torch captures the call itself and nothing breaks.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from onegraph.kinds.base import Example, Untouched
from onegraph.kinds.item_examples import EXAMPLES as _EXAMPLES
from onegraph.kinds.item_examples import UNTOUCHED as _UNTOUCHED
from onegraph.lowering import number_helper, numbers
from onegraph.lowering.asked import captured_or_op
from onegraph.lowering.captured_numbers import as_symbol
from onegraph.lowering.handed import handed_along
from onegraph.lowering.kept_numbers import kept
from onegraph.lowering.numbers import Carried, Number, taken_from
from onegraph.lowering.one_value import for_one_value
from onegraph.lowering.scalars import NotAlike, Root, carry
from onegraph.lowering.taken_later import taken_later
from onegraph.model import Break, Candidate, Declined, Level
from onegraph.rewrite import text as source
from onegraph.rewrite.request import Fact, Request

NAME = "item_call"
TITLE = "A number taken out of a tensor, used in tensor arithmetic"
GB_IDS = ("GB0124", "GB0109", "GB0033")
EXAMPLES: tuple[Example, ...] = _EXAMPLES
UNTOUCHED: tuple[Untouched, ...] = _UNTOUCHED

_WARNING = "torch's warning about {}() of a tensor that requires grad is no longer given"


def recognises(break_: Break, node: ast.AST | None) -> bool:
    if break_.gb_type.startswith(("Unsupported Tensor.item() call", "Tensor.tolist() with non-integer")):
        return True
    scalar_read = "_local_scalar_dense" in break_.context or "_local_scalar_dense" in break_.message
    return (
        break_.gb_type.startswith("Data dependent operator") and scalar_read and taken_from(node) is not None
    )


_OTHER_CALLS = (
    "on another call, a tensor of another kind of number (integers for floats), or beside a half precision or narrow "
    "integer tensor without dimensions, is read by Python as before, which breaks the graph there"
)


def repairs(request: Request) -> Iterator[Candidate | Declined]:
    """The number stays a tensor; else the code around it becomes an op; at level lossy it is taken for granted."""
    declined: list[Declined] = []
    for each in _proposed(request):
        if isinstance(each, Candidate):
            yield each
        else:
            declined.append(each)
    yield from declined


def _proposed(request: Request) -> Iterator[Candidate | Declined]:
    yield from kept(request, NAME)
    yield from _carried(request)
    yield from taken_later(request, NAME)
    yield from handed_along(request, NAME)
    yield from captured_or_op(request, NAME, as_symbol)
    node = source.node_at(source.parse(request.text), request.site.span)
    tensor = taken_from(node)
    if tensor is not None and isinstance(node, ast.Call):
        yield from for_one_value(request, node, tensor, NAME)


def _carried(request: Request) -> Iterator[Candidate | Declined]:
    tree = source.parse(request.text)
    node = source.node_at(tree, request.site.span)
    tensor = taken_from(node)
    function = source.find_function(tree, request.site.function, request.site.span.line)
    if tensor is None or function is None or not isinstance(node, ast.Call):
        yield Declined(
            NAME,
            f"A number is taken out of a tensor somewhere in line {request.site.span.line}.",
            "Write .item() out, in a statement of its own.",
        )
        return
    taken = source.segment(request.text, node)
    if _returned_list(tree, node):
        step = f"Return the tensor, and call .{_method(node)}() on it behind the compiled function."
        yield Declined(NAME, f"The list from `{_short(taken)}` is returned.", step)
        return
    inner = _innermost(function, node)
    try:
        (facts,) = request.facts.values(tensor)
        root = _root(request.text, node, tensor, facts, number_helper.names_in(request.text)["_number"])
        text = carry(request.text, inner, request.facts, roots={node: root})
    except NotAlike as unlike:
        line = getattr(unlike.node, "lineno", node.lineno)
        where = "The" if line == node.lineno else f"In line {line}, the"
        yield Declined(NAME, f"{where} number from `{_short(taken)}` {unlike.use}.", unlike.next_step)
        return
    warned = isinstance(node.func, ast.Name) and any(_is_floating(fact) for fact in facts)
    yield Candidate(
        kind=NAME,
        level=Level.RELAXED,
        title=f"`{_short(taken)}` stays a tensor without dimensions ({root.carried.number.dtype})",
        text=text,
        functions=(request.site.function,),
        notes=(
            _OTHER_CALLS,
            *((_WARNING.format(node.func.id),) if warned and isinstance(node.func, ast.Name) else ()),
        ),
    )


def _returned_list(tree: ast.Module, node: ast.Call) -> bool:
    """``return x.tolist()``, alone or beside others."""
    at = source.statement_at(tree, source.span_of(node))
    value = at.value if isinstance(at, ast.Return) else None
    parts = value.values if isinstance(value, ast.Dict) else getattr(value, "elts", [value])
    return _method(node) == "tolist" and any(
        isinstance(part, ast.Call) and source.position(part) == source.position(node) for part in parts
    )


def _is_floating(fact: Fact) -> bool:
    return fact.dtype is not None and numbers.category(fact.dtype) is Number.FLOAT


def _root(text: str, node: ast.Call, tensor: ast.expr, facts: tuple[Fact, ...], helper: str) -> Root:
    """The call as a tensor: detached, of Python's precision, without dimensions, and a copy. Raises
    NotAlike."""
    if not facts:
        raise NotAlike(node, "is never taken on the recorded inputs", "Give inputs that run this line.")
    if any(not fact.is_tensor or fact.dtype is None or fact.device is None for fact in facts):
        raise NotAlike(node, "comes from something that is not always a tensor")
    found = {numbers.of_dtype(fact.dtype) for fact in facts if fact.dtype}
    devices = {fact.device for fact in facts if fact.device}
    if len(found) != 1 or len(devices) != 1:
        raise NotAlike(node, "comes from tensors of several types")
    own, device = found.pop(), devices.pop()
    if own is None:
        raise NotAlike(node, "is complex")
    if device.startswith("mps"):
        raise NotAlike(node, "is computed in double precision, which this device lacks")
    if any(dimension != 1 for fact in facts for dimension in fact.shape or ()):
        raise NotAlike(node, "is a list of numbers", "Keep the tensor, and index or slice it.")
    name = node.func.id if isinstance(node.func, ast.Name) else None
    listed = isinstance(node.func, ast.Attribute) and node.func.attr == "tolist"
    if listed and any(fact.shape for fact in facts):
        raise NotAlike(node, "is a list of one number", "Use .item().")
    number = own if name is None else numbers.BUILTINS[name]
    if number is Number.INT and own is Number.FLOAT:
        raise NotAlike(node, "is cut to an integer: Python raises on NaN and infinity, a tensor does not")
    held = Carried(number, device, nonnegative=_nonnegative(tensor))
    kind = {Number.BOOL: "bool", Number.INT: "int", Number.FLOAT: "float"}[number]
    return Root(held, _edits(text, node, tensor, helper, f", {kind}, {name}" if name else f", {kind}"))


def _edits(
    text: str, node: ast.Call, tensor: ast.expr, helper: str, arguments: str
) -> tuple[source.Edit, ...]:
    """``t.item()`` or ``float(t)`` as ``helper(t, arguments)``; comments stay where they are."""
    line, column, end_line, end_column = source.position(node)
    behind = source.position(tensor)[2:]
    if isinstance(node.func, ast.Name):
        head = source.position(node.func)
        return ((*head, helper), (*behind, *behind, arguments))
    assert isinstance(node.func, ast.Attribute)
    name_line, name_end = source.position(node.func)[2:]
    row = source.lines(text)[name_line - 1].encode()[: name_end - len(node.func.attr)]
    if not row.rstrip().endswith(b"."):
        raise NotAlike(node, "is written over several lines", "Write `.item()` on one line.")
    dot = len(row.rstrip()) - 1
    parentheses = source.position(tensor)[:2] != (line, column)  # its own, which become those of the call
    opens = column + 1 if parentheses else column
    return (
        (line, column, line, opens, f"{helper}("),
        (*behind, *behind, arguments if parentheses else f"{arguments})"),
        (name_line, dot, end_line, end_column, ""),
    )


def _nonnegative(tensor: ast.expr) -> bool:
    return isinstance(tensor, ast.Call) and _method(tensor) in ("norm", "std", "var")


def _method(call: ast.Call) -> str:
    return call.func.attr if isinstance(call.func, ast.Attribute) else ""


def _innermost(function: source.Function, node: ast.expr) -> source.Function:
    """The innermost function around a node."""
    found = function
    for inner in ast.walk(function):
        if isinstance(inner, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda) and any(
            part is node for part in ast.walk(inner)
        ):
            found = inner
    return found


def _short(code: str) -> str:
    flat = " ".join(code.split())
    return flat if len(flat) <= 60 else flat[:57] + "..."
