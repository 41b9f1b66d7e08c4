"""An environment variable read in the compiled function.

What happens: torch.compile guards single variables that it found, and nothing where one is not set; so the compiled
program may go on with what the environment held while compiling. While onegraph mends, this counts as a graph break.
What else it causes: nothing says so, and no break shows in a plain torch.compile.

Exact: the variable is read from a copy of the environment, which torch.compile guards as a whole. The program is
compiled again whenever any variable has changed since.
Declined: the statement also writes to the environment, or reads it through a function of another module.
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
from onegraph.silent import ENVIRONMENT

NAME = "environment_read"
TITLE = "An environment variable that is held fast"
GB_IDS: tuple[str, ...] = ()
ORDER = 40

_STEP = "Read the variable before the compiled function, and pass it on."
_NOTE = "the program is compiled again whenever any environment variable has changed"
_READERS = frozenset(("get", "keys", "items", "values", "__getitem__", "__contains__"))
_BEFORE = """\
import os
import torch


def program(x):
    if "ONEGRAPH_EXAMPLE" in os.environ:
        x = x * float(os.environ["ONEGRAPH_EXAMPLE"])
    return x + float(os.getenv("ONEGRAPH_SHIFT", "1"))


def inputs():
    return [(torch.ones(3),)]
"""
EXAMPLES: tuple[Example, ...] = (
    Example(
        title="a test and a default",
        before=_BEFORE,
        after=_BEFORE.replace('EXAMPLE" in os.environ:', 'EXAMPLE" in os.environ.copy():').replace(
            "os.getenv(", "os.environ.copy().get("
        ),
        level=Level.EXACT,
    ),
)
UNTOUCHED: tuple[Untouched, ...] = (
    Untouched(
        "through a function that was kept",
        """\
import os
import torch

read = os.environ.get


def program(x):
    return x * float(read("ONEGRAPH_EXAMPLE", "2"))


def inputs():
    return [(torch.ones(3),)]
""",
        "is not read by name",
    ),
    Untouched(
        "from a copy",
        """\
import os
import torch


def program(x):
    return x * float(os.environ.copy().get("ONEGRAPH_EXAMPLE", "2"))


def inputs():
    return [(torch.ones(3),)]
""",
        "",
    ),
)


def recognises(break_: Break, node: ast.AST | None) -> bool:
    return break_.gb_type == ENVIRONMENT


def repairs(request: Request) -> Iterator[Candidate | Declined]:
    """The read from a copy."""
    module = tree.parse(request.text)
    node = tree.innermost(module, request.site.span) if module is not None else None
    found = _read_in(node)
    if found is None:
        line = request.site.span.line
        yield Declined(NAME, f"The environment is not read by name in line {line}.", _STEP)
        return
    read, code = found
    text = edit.replace_spans(request.text, [(*edit.position(read), code)])
    title = "Read a copy of the environment, which is guarded"
    yield Candidate(NAME, Level.EXACT, title, text, (request.site.function,), (_NOTE,))


def _read_in(node: ast.AST | None) -> tuple[ast.expr, str] | None:
    """The ``os.environ`` or ``os.getenv`` that a node reads first, and what to write for it."""
    for part in ast.walk(node) if node is not None else ():
        path = dotted(part) if isinstance(part, ast.Attribute | ast.Name) else None
        if path is None:
            continue
        owner, _, last = path.rpartition(".")
        if last == "environ" and owner in ("", "os") and _only_reads(part):
            assert isinstance(part, ast.expr)
            return part, f"{path}.copy()"
        if path == "os.getenv":
            assert isinstance(part, ast.expr)
            return part, "os.environ.copy().get"
    return None


def _only_reads(environ: ast.AST) -> bool:
    """Whether the mapping is only looked up, in a way that a copy can stand for."""
    parent = next(tree.parents(environ), None)
    if isinstance(parent, ast.Attribute):
        return parent.attr in _READERS
    if isinstance(parent, ast.Subscript):
        return isinstance(parent.ctx, ast.Load) and parent.value is environ
    return isinstance(parent, ast.Compare) and parent.left is not environ
