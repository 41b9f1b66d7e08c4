"""At level lossy: a number or flag that was the same on every recorded call is taken for granted, and checked.

Eager mode reads it as before. The compiled program is made for that one value, and raises on any other.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from onegraph.lowering.toplevel import helper_in
from onegraph.model import Candidate, Level
from onegraph.rewrite import text as text_
from onegraph.rewrite.request import Request

HELPER = "_one_value"
HELPER_TEXT = '''\
def {name}(number, value, take=None):
    """``take(number)`` or ``number.item()``. A compiled program is made for ``value``, and raises on any other."""
    if {torch}.compiler.is_compiling() and isinstance(number, {torch}.Tensor) and number.numel() == 1:
        inexact = number.is_floating_point() or number.is_complex()
        alike = (number.dtype == {torch}.bool) == isinstance(value, bool)
        if not inexact and (alike or take is int):
            {torch}._assert_async((number == value).all(), f"compiled for the value {{value}}")
            return value
    return number.item() if take is None else take(number)
'''


def for_one_value(request: Request, node: ast.Call, tensor: ast.expr, kind: str) -> Iterator[Candidate]:
    """``t.item()`` or ``int(t)`` as the value that it always had."""
    (facts,), (held,) = request.facts.values(node), request.facts.values(tensor)
    values = {(fact.type, fact.value) for fact in facts}
    if len(values) != 1 or not all(fact.is_tensor for fact in held):
        return
    type_, value = values.pop()
    if type_ == "bool" and any(fact.dtype != "torch.bool" for fact in held):
        return  # any number but 0 is as true as 1
    if (
        type_ not in ("bool", "int")
        or value is None
        or any((f.dtype or "").startswith("torch.float") for f in held)
    ):
        return
    text = request.text
    torch = text_.ensure_torch_import(text)[1]
    helper = helper_in(text, HELPER, HELPER_TEXT, torch)
    shown = " ".join(text_.segment(text, node).split())
    take = f", {node.func.id}" if isinstance(node.func, ast.Name) else ""
    call = f"{helper.name}({text_.segment(text, tensor)}, {value}{take})"
    changed = text_.replace_spans(text, [(*text_.position(node), call)])
    if helper.line is None:
        changed = text_.insert_after_imports(changed, helper.text)
    changed, _ = text_.ensure_torch_import(changed)
    yield Candidate(
        kind=kind,
        level=Level.LOSSY,
        title=f"compiled for `{shown}` == {value}, its value on every recorded call",
        text=changed,
        functions=(request.site.function,),
        notes=(
            f"the compiled program raises RuntimeError where the value is not {value}; eager mode is as before",
        ),
    )
