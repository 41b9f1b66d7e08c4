"""``with torch.backends.cudnn.flags(...)`` and its kin in the compiled function.

What happens: the block sets flags of a library of kernels, which Dynamo can't trace, so the graph ends at the ``with``.
What else it causes: a ``with`` block can't be resumed in its middle: the whole function runs without a graph.

Relaxed: the block is entered in eager mode only. What moves: the compiled program runs under the flags that are set
where it is called; they choose among kernels for the same result.
Declined: the flags are bound to a name, or it is no ``with`` block; the file also reads or sets flags of that library.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from onegraph.kinds import tree
from onegraph.kinds.base import Example, Untouched
from onegraph.lowering.effect_shapes import dotted
from onegraph.model import Break, Candidate, Declined, Level
from onegraph.rewrite import text as edit
from onegraph.rewrite.request import Request

NAME = "backend_flags"
TITLE = "Flags of a kernel library set in the compiled function"
GB_IDS = ("GB0208", "GB0142")
ORDER = 45

_NOTE = "the compiled program runs under the flags that are set where it is called"
_BEFORE = """\
import torch


def program(x):
    with torch.no_grad(), torch.backends.cudnn.flags(enabled=False):
        features = x * 2
    return features + x


def inputs():
    return [(torch.ones(3),)]
"""
EXAMPLES: tuple[Example, ...] = (
    Example(
        title="beside no_grad",
        before=_BEFORE,
        after="import contextlib\n"
        + _BEFORE.replace(
            "    with torch.no_grad(), torch.backends.cudnn.flags(enabled=False):\n",
            "    with (\n"
            "        torch.no_grad(),\n"
            "        contextlib.nullcontext()\n"
            "        if torch.compiler.is_compiling()\n"
            "        else torch.backends.cudnn.flags(enabled=False),\n"
            "    ):\n",
        ),
        level=Level.RELAXED,
    ),
)
UNTOUCHED: tuple[Untouched, ...] = (
    Untouched(
        "entered by hand",
        """\
import torch


def program(x):
    flags = torch.backends.cudnn.flags(enabled=False)
    flags.__enter__()
    features = x * 2
    flags.__exit__(None, None, None)
    return features


def inputs():
    return [(torch.ones(3),)]
""",
        "is no `with` block",
    ),
    Untouched(
        "the flag is read inside",
        """\
import torch


def scale():
    return 2 if torch.backends.cudnn.enabled else 3


def program(x, wide=False):
    with torch.backends.cudnn.flags(enabled=False):
        return x * scale() if wide else x + 1


def inputs():
    return [(torch.ones(3),)]
""",
        "which the block may set",
    ),
)


def recognises(break_: Break, node: ast.AST | None) -> bool:
    return _flags(node) is not None


def repairs(request: Request) -> Iterator[Candidate | Declined]:
    """The flags behind ``torch.compiler.is_compiling()``."""
    module = tree.parse(request.text)
    call = _flags(tree.innermost(module, request.site.span) if module is not None else None)
    block = tree.statement(call) if call is not None else None
    if (
        call is None
        or not isinstance(block, ast.With)
        or not any(item.context_expr is call for item in block.items)
    ):
        line = request.site.span.line
        yield Declined(NAME, f"Line {line} is no `with` block.", "Set the flags around the compiled call.")
        return
    if any(item.context_expr is call and item.optional_vars for item in block.items):
        yield Declined(NAME, "The flags are bound to a name.", "Set the flags around the compiled call.")
        return
    used = _used_elsewhere(module, call) if module is not None else None
    if used is not None:
        reason = f"Line {used.lineno} works with `{ast.unparse(used)}`, which the block may set."
        yield Declined(NAME, reason, "Set the flags around the compiled call.")
        return
    torch = edit.ensure_torch_import(request.text)[1]
    try:
        changed = edit.ensure_import(_rewritten(request.text, block, call, torch), "contextlib")
    except ValueError as error:
        yield Declined(NAME, f"{error}.", "Set the flags around the compiled call.")
        return
    yield Candidate(
        NAME, Level.RELAXED, "Set the flags in eager mode only", changed, (request.site.function,), (_NOTE,)
    )


def _flags(node: ast.AST | None) -> ast.Call | None:
    """The call of ``torch.backends.….flags`` at a node, or among the items of the ``with`` at it."""
    if isinstance(node, ast.With):
        return next((c for item in node.items if (c := _flags(item.context_expr)) is not None), None)
    for each in (node, *tree.parents(node)) if node is not None else ():
        if isinstance(each, ast.Call):
            path = (dotted(each.func) or "").split(".")
            if path[:2] == ["torch", "backends"] and path[-1] == "flags":
                return each
        if isinstance(each, ast.stmt):
            return None
    return None


def _used_elsewhere(module: ast.Module, call: ast.Call) -> ast.Attribute | None:
    """Where the file reads or sets a flag of the library that a call of ``flags`` is about: it need not be in this
    function to run inside the block."""
    assert isinstance(call.func, ast.Attribute)
    library = ast.unparse(call.func.value)
    found = (n for n in ast.walk(module) if isinstance(n, ast.Attribute) and n.attr != call.func.attr)
    return next((n for n in found if ast.unparse(n.value) == library), None)


def _rewritten(text: str, block: ast.With, call: ast.Call, torch: str) -> str:
    """The items of the ``with`` on lines of their own."""
    indent, unit = edit.indent_of(text, block.lineno), edit.indent_unit(text)
    rows = ["with ("]
    for item in block.items:
        code = edit.segment(text, item.context_expr)
        if item.context_expr is call:
            rows += [
                f"{indent}{unit}contextlib.nullcontext()",
                f"{indent}{unit}if {torch}.compiler.is_compiling()",
            ]
            code = f"else {code}"
        name = f" as {edit.segment(text, item.optional_vars)}" if item.optional_vars else ""
        rows.append(f"{indent}{unit}{code}{name},")
    rows.append(f"{indent})")
    start = edit.offset(text, *edit.position(block)[:2])
    stop = edit.offset(text, *edit.position(block.body[0])[:2])
    colon = text.index(":", edit.offset(text, *_end_of_items(block)), stop)
    return text[:start] + "\n".join(rows) + text[colon:]


def _end_of_items(block: ast.With) -> tuple[int, int]:
    last = block.items[-1]
    return edit.position(last.optional_vars or last.context_expr)[2:]
