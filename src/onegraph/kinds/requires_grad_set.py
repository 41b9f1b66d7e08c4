"""``x.requires_grad = True``, ``x.requires_grad_()``, ``torch.zeros(..., requires_grad=True)`` on a tensor made inside.

What happens: the statement makes a tensor a leaf of autograd, whose ``.grad`` is filled in by the backward pass; a
graph has no such tensors inside. (It is often a leftover: reentrant checkpointing needed it.)
What else it causes: code behind it is a graph of its own.

Relaxed: it is left to eager mode. What moves: the compiled program does not fill in ``.grad`` of this tensor, which
nothing reads. That the results require grad as before, and all gradients agree, is verified. (Where the tensor requires
grad already, or holds no floats, the statement runs as before: eager mode may raise there.)
Declined: the tensor is, or may be, one of the caller or of an object, who may look at its ``.grad``; or the function
itself reads a ``.grad`` or calls the backward pass.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from onegraph.kinds import tree
from onegraph.kinds.base import Example, Untouched
from onegraph.kinds.requires_grad_examples import EXAMPLES as _EXAMPLES
from onegraph.kinds.requires_grad_examples import UNTOUCHED as _UNTOUCHED
from onegraph.lowering import ops
from onegraph.lowering.effect_text import is_elif, owns_lines
from onegraph.model import Break, Candidate, Declined, Level
from onegraph.rewrite import text as edit
from onegraph.rewrite.request import Facts, Request

NAME = "requires_grad_set"
TITLE = "requires_grad switched on in the compiled function"
GB_IDS = ("GB0206", "GB0125", "GB0225", "GB8985", "GB7324")
ORDER = 45
EXAMPLES: tuple[Example, ...] = _EXAMPLES
UNTOUCHED: tuple[Untouched, ...] = _UNTOUCHED

_TITLE = "Leave `requires_grad` to eager mode"
_NOTES = (
    "the compiled program does not fill in .grad of this tensor",
    "a result that requires grad because of this tensor alone does not in the compiled program",
)
_READERS = frozenset({"grad", "backward", "is_leaf", "retain_grad", "register_hook"})
# their result is new and requires no grad, if nobody asks for it
_MAKERS = ops.CREATE - {"cat", "stack", "clone"} | {
    "tensor",
    "new_empty",
    "new_full",
    "new_ones",
    "new_zeros",
    "eye",
}
_BY_HAND = "Take the gradient with torch.func.grad, or compile the code around it."


def recognises(break_: Break, node: ast.AST | None) -> bool:
    return "requires_grad" in break_.gb_type and "Parameter" not in break_.gb_type


def repairs(request: Request) -> Iterator[Candidate | Declined]:
    """The switch behind ``torch.compiler.is_compiling()``."""
    module = tree.parse(request.text)
    node = tree.innermost(module, request.site.span) if module is not None else None
    where = _switch(node)
    function = tree.function(node) if node is not None else None
    if where is None or function is None:
        yield Declined(
            NAME,
            f"Line {request.site.span.line} hands on a tensor whose requires_grad was switched on before.",
            "Switch it on outside of the compiled function.",
        )
        return
    why = _seen_outside(_tensor(where), function, request.facts) or _gradient_read(function)
    if why:
        yield Declined(NAME, why, _BY_HAND)
        return
    text, torch = request.text, edit.ensure_torch_import(request.text)[1]
    edits = _edits(where, text, f"{torch}.compiler.is_compiling()")
    if edits is None:
        yield Declined(NAME, "It is part of a larger statement.", "Put it on a line of its own.")
        return
    changed, _ = edit.ensure_torch_import(edit.replace_spans(text, edits))
    yield Candidate(NAME, Level.RELAXED, _TITLE, changed, (request.site.function,), _NOTES)


# --- what it is ---------------------------------------------------------------------------------------------


def _switch(node: ast.AST | None) -> ast.Assign | ast.Call | None:
    """The assignment to ``.requires_grad``, or the call that switches it on, at or around a node."""
    for each in (node, *tree.parents(node)) if node is not None else ():
        if isinstance(each, ast.Assign) and _assigned(each) is not None:
            return each
        if isinstance(each, ast.Call) and (_method(each) or _keyword(each)):
            return each
        if isinstance(each, ast.stmt):
            return None
    return None


def _assigned(node: ast.Assign) -> ast.expr | None:
    match node.targets:
        case [ast.Attribute(value=tensor, attr="requires_grad")]:
            return tensor
    return None


def _method(call: ast.Call) -> bool:
    return isinstance(call.func, ast.Attribute) and call.func.attr == "requires_grad_"


def _keyword(call: ast.Call) -> ast.keyword | None:
    return next((each for each in call.keywords if each.arg == "requires_grad"), None)


def _tensor(where: ast.Assign | ast.Call) -> ast.expr:
    """The expression of the tensor that is switched; for a factory, its own call."""
    if isinstance(where, ast.Assign):
        tensor = _assigned(where)
        assert tensor is not None
        return tensor
    if _method(where):
        assert isinstance(where.func, ast.Attribute)
        return where.func.value
    return where


# --- who could see the gradient? ------------------------------------------------------------------------------


def _seen_outside(tensor: ast.expr, function: ast.AST, facts: Facts) -> str:
    """Why somebody else may hold the tensor itself; "" for one that the function makes."""
    if not isinstance(tensor, ast.Name):
        return "" if _is_new(tensor, facts) else f"`{ast.unparse(tensor)}` may be a tensor that others hold."
    values = [getattr(node, "value", None) for node in ast.walk(function) if _binds(node, tensor.id)]
    if not values:
        return f"`{tensor.id}` is a tensor of the caller, who may read its gradient."
    old = next((value for value in values if value is None or not _is_new(value, facts)), None)
    return f"`{ast.unparse(old)}` may be a tensor that others hold." if old is not None else ""


def _is_new(value: ast.expr, facts: Facts) -> bool:
    """Whether an expression always gives another tensor object than those that went in (``x.to(dtype)`` does not)."""
    match value:
        case ast.Call(func=ast.Attribute(value=inner, attr="requires_grad_")):
            return _is_new(inner, facts)
        case ast.Call(func=ast.Attribute(value=inner, attr=name)):
            owner = ast.unparse(inner) in ("torch", "torch.nn.functional") or _is_tensor(inner, facts)
            return owner and name in ops.VALUES | _MAKERS
        case ast.Subscript(value=inner, slice=ast.Slice() | ast.Tuple()):
            return _is_tensor(inner, facts)
        case ast.IfExp(body=left, orelse=right):
            return _is_new(left, facts) and _is_new(right, facts)
        case ast.BinOp(left=left, right=right):
            return _is_tensor(left, facts) or _is_tensor(right, facts)
    return False


def _is_tensor(node: ast.expr, facts: Facts) -> bool:
    seen = facts.values(node)[0]
    return bool(seen) and all(fact.is_tensor for fact in seen)


def _binds(node: ast.AST, name: str) -> bool:
    match node:
        case ast.Assign(targets=targets):
            return any(isinstance(t, ast.Name) and t.id == name for t in targets)
        case ast.AnnAssign(target=ast.Name(id=bound)) | ast.AugAssign(target=ast.Name(id=bound)):
            return bound == name
        case ast.NamedExpr(target=ast.Name(id=bound)):
            return bound == name
    return False


def _gradient_read(function: ast.AST) -> str:
    for node in ast.walk(function):
        if isinstance(node, ast.Attribute) and node.attr in _READERS:
            return f"`{ast.unparse(node)}` in line {node.lineno} works with the gradient of such a tensor."
    return ""


def _made(tensor: ast.expr) -> bool:
    """Whether it is made of nothing, so that it requires no grad yet."""
    return (
        isinstance(tensor, ast.Call)
        and isinstance(tensor.func, ast.Attribute)
        and tensor.func.attr in _MAKERS
    )


# --- the text -----------------------------------------------------------------------------------------------


def _edits(where: ast.Assign | ast.Call, text: str, compiling: str) -> list[edit.Edit] | None:
    """A statement of its own goes under an ``if``; where a tensor is made, the flag itself says it."""
    statement = tree.statement(where)
    assert statement is not None
    if isinstance(where, ast.Assign) or (isinstance(statement, ast.Expr) and statement.value is where):
        if not owns_lines(text, statement) or is_elif(text, statement):
            return None
        indent, unit = edit.indent_of(text, statement.lineno), edit.indent_unit(text)
        block = edit.reindent(edit.block_of(text, statement, statement), indent + unit)
        first, last = statement.lineno, edit.position(statement)[2]
        name = edit.segment(text, _tensor(where))
        runs = f"not {compiling} or {name}.requires_grad or not {name}.is_floating_point()"
        return [(first, 0, last + 1, 0, f"{indent}if {runs}:\n{block}")]
    if _method(where) and not _made(_tensor(where)):
        return None
    eager = f"not {compiling}"
    value = where.args[0] if _method(where) and where.args else getattr(_keyword(where), "value", None)
    if value is None:  # x.requires_grad_()
        end = edit.position(where)[2:]
        return [(end[0], end[1] - 1, end[0], end[1] - 1, eager)]
    if isinstance(value, ast.Constant):
        return [(*edit.position(value), eager if value.value else "False")]
    code = edit.segment(text, value)
    loose = isinstance(value, ast.BoolOp | ast.IfExp | ast.Lambda | ast.NamedExpr)
    return [(*edit.position(value), f"{f'({code})' if loose else code} and {eager}")]
