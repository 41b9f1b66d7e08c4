"""``self.table = self.table.to(x.device)``: a buffer replaced by itself, moved or converted, on every call.

What happens: Dynamo can't store a tensor that is an ``nn.Buffer`` into a module.
What else it causes: the whole function runs without a graph.

Exact: the buffer is assigned only where it had to be moved. Such a call is not compiled; those behind it are, for the
buffer is where it belongs.
Declined: another attribute is assigned; the call makes a copy each time.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from onegraph.kinds import tree
from onegraph.kinds.base import Example, Untouched
from onegraph.lowering.effect_text import owns_lines
from onegraph.model import Break, Candidate, Declined, Level
from onegraph.rewrite import text as edit
from onegraph.rewrite.request import Request

NAME = "buffer_moved"
TITLE = "A buffer replaced by itself on another device or dtype"
GB_IDS = ("GB4841",)
ORDER = 45

_CONVERSIONS = frozenset(
    {"to", "type_as", "cpu", "cuda", "float", "half", "bfloat16", "double", "contiguous"}
)
_NOTE = "a call that has to move the buffer is not compiled; the next ones are"
_STEP = "Move the buffer once, outside of the compiled function."
_BEFORE = """\
import torch


class Positions(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.table = torch.nn.Buffer(torch.linspace(0, 1, 8).view(4, 2), persistent=False)

    def forward(self, x, ids):
        self.table = self.table.to(device=x.device, dtype=x.dtype)
        rows = self.table[ids]
        return x + rows


program = Positions()


def inputs():
    return [(torch.ones(3, 2), torch.arange(3))]
"""
EXAMPLES: tuple[Example, ...] = (
    Example(
        title="a table of positions",
        before=_BEFORE,
        after=_BEFORE.replace(
            "        self.table = self.table.to(device=x.device, dtype=x.dtype)\n",
            "        table = self.table.to(device=x.device, dtype=x.dtype)\n"
            "        if table is not self.table:\n"
            "            self.table = table\n",
        ),
        level=Level.EXACT,
    ),
)
UNTOUCHED: tuple[Untouched, ...] = (
    Untouched(
        "another value",
        _BEFORE.replace("self.table.to(device=x.device, dtype=x.dtype)", "torch.nn.Buffer(self.table * 2)"),
        "",
    ),
)


def recognises(break_: Break, node: ast.AST | None) -> bool:
    return break_.gb_type == "Unsupported python_type() call" and _assignment(node) is not None


def repairs(request: Request) -> Iterator[Candidate | Declined]:
    """The assignment only where it changes something."""
    text = request.text
    module = tree.parse(text)
    where = _assignment(tree.innermost(module, request.site.span) if module is not None else None)
    if where is None or not owns_lines(text, where):
        yield Declined(NAME, f"Line {request.site.span.line} assigns something else.", _STEP)
        return
    target = where.targets[0]
    assert isinstance(target, ast.Attribute)
    path = ast.unparse(target)
    name = edit.unused_name(edit.parse(text), target.attr.lstrip("_"))
    indent, unit = edit.indent_of(text, where.lineno), edit.indent_unit(text)
    end = edit.position(where)[2:]
    stored = f"\n{indent}if {name} is not {path}:\n{indent}{unit}{path} = {name}"
    changed = edit.replace_spans(text, [(*edit.position(target), name), (*end, *end, stored)])
    yield Candidate(
        NAME,
        Level.EXACT,
        f"Store `{path}` where it had to be moved",
        changed,
        (request.site.function,),
        (_NOTE,),
    )


def _assignment(node: ast.AST | None) -> ast.Assign | None:
    """``self.x = self.x.to(...)`` at or around a node."""
    statement = tree.statement(node) if node is not None else None
    match statement:
        case ast.Assign(
            targets=[ast.Attribute(value=ast.Name()) as target],
            value=ast.Call(func=ast.Attribute(value=ast.Attribute() as source, attr=method)),
        ) if method in _CONVERSIONS and ast.unparse(source) == ast.unparse(target):
            return statement
    return None
