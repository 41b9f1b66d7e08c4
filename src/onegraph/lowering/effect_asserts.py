"""``torch._assert_async`` in place of a check with a constant message: nothing waits for the value on a
GPU.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from onegraph.lowering import effect_text
from onegraph.lowering.effect_scope import scope_of
from onegraph.model import Candidate, Level
from onegraph.rewrite import text as text_
from onegraph.rewrite.request import Request


def asynchronous(request: Request, kind: str, statement: ast.stmt) -> Iterator[Candidate]:
    """The candidate, where the test is one tensor and the message is a literal; none elsewhere."""
    match statement:
        case ast.Assert(test=test, msg=ast.Constant(value=str()) as message):
            holds = True
        case ast.If(
            test=test,
            body=[
                ast.Raise(exc=ast.Call(args=[ast.Constant(value=str()) as message], keywords=[]), cause=None)
            ],
            orelse=[],
        ):
            holds = False
        case _:
            return
    while isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        test, holds = test.operand, not holds
    (facts,) = request.facts.values(test)
    plain = all(fact.is_tensor and fact.shape == () and fact.dtype == "torch.bool" for fact in facts)
    tree = text_.parse(request.text)
    function = scope_of(tree, statement).function
    if not facts or not plain or function is None or effect_text.is_elif(request.text, statement):
        return
    condition = text_.segment(request.text, test)
    if not holds:
        atom = ast.Call | ast.Name | ast.Attribute | ast.Subscript
        condition = f"~{condition}" if isinstance(test, atom) else f"~({condition})"
    _, torch = text_.ensure_torch_import(request.text)
    part = effect_text.part_of(request.text, statement, None, 0)
    changed = effect_text.with_call(
        request.text, part, f"{torch}._assert_async({condition}, {text_.segment(request.text, message)})"
    )
    changed, _ = text_.ensure_torch_import(changed)
    name = next(name for name, node in text_.functions(tree) if node is function)
    yield Candidate(
        kind,
        Level.RELAXED,
        "Assert on the device",
        changed,
        (name,),
        ("raises RuntimeError with the same text, in eager mode too; on a GPU some time after the check",),
    )
