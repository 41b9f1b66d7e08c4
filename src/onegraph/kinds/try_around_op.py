"""``try: torch.linalg.cholesky(a)`` with an ``except``: an operation that values or sizes make fail.

What happens: the graph holds the operation, and not the `except`, so an exception leaves the compiled program. While
onegraph mends, this counts as a graph break.
What else it causes: nothing says so, and no break shows in a plain torch.compile.

Declined: what a graph computes can't be caught.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from onegraph.kinds import tree
from onegraph.kinds.base import Example, Untouched
from onegraph.lowering import choice
from onegraph.model import Break, Candidate, Declined
from onegraph.rewrite.request import Request
from onegraph.silent import HANDLER

NAME = "try_around_op"
TITLE = "A `try` around an operation that may fail"
GB_IDS: tuple[str, ...] = ()
ORDER = 40

_TELLING = {"cholesky": "cholesky_ex", "inv": "inv_ex", "inverse": "inv_ex", "solve": "solve_ex"}
_BEFORE = """\
import torch


def program(a):
    try:
        factor = torch.linalg.cholesky(a)
    except RuntimeError:
        factor = a * 0.5
    return factor + 1


def inputs():
    return [(torch.eye(2),), (-torch.eye(2),)]
"""
EXAMPLES: tuple[Example, ...] = ()
UNTOUCHED: tuple[Untouched, ...] = (
    Untouched("values make it fail", _BEFORE, "`except` of line 7"),
    Untouched(
        "sizes make it fail",
        _BEFORE.replace("torch.linalg.cholesky(a)", "a.view(3)"),
        "`except` of line 7",
    ),
    Untouched(
        "a key that is not there",
        """\
import torch


def program(a, table={"scale": 2.0}):
    try:
        shift = table["shift"]
    except KeyError:
        shift = 1.0
    return torch.linalg.cholesky(a) + shift


def inputs():
    return [(torch.eye(2),)]
""",
        "",
    ),
)


def recognises(break_: Break, node: ast.AST | None) -> bool:
    return break_.gb_type == HANDLER


def repairs(request: Request) -> Iterator[Candidate | Declined]:
    """None: says which `except` it is, and which operation tells by a tensor."""
    module = tree.parse(request.text)
    node = tree.innermost(module, request.site.span) if module is not None else None
    around = (node, *tree.parents(node)) if node is not None else ()
    block = next((p for p in around if isinstance(p, ast.Try)), None)
    where = f"the `except` of line {block.handlers[0].lineno}" if block is not None else "its `except`"
    call = next((p for p in around if isinstance(p, ast.Call)), None)
    form = _TELLING.get(choice.called(call)) if call is not None else None
    step = "Test what makes it fail first, or keep the `try` outside of the compiled function."
    if form is not None:
        step = f"Use torch.linalg.{form}, which tells by a tensor whether it fails."
    yield Declined(NAME, f"In a graph, {where} is never entered.", step)
