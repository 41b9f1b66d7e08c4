"""``warnings.warn(...)`` inside the compiled function.

What happens: Dynamo skips ``warnings.warn``, so the graph ends there.
What else it causes: code behind the call is a graph of its own.

Relaxed: the statement becomes an op with an ordered effect: same category and text. In eager mode it stays
where it was as soon as it says ``stacklevel``. What moves: the place that the compiled program names in
the warning, and with it the filters "once per location" and "only in __main__".
Lossy (on request only): skipped while compiling.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from onegraph.kinds import tree
from onegraph.kinds.base import Example, Untouched
from onegraph.kinds.warning_examples import EXAMPLES as _EXAMPLES
from onegraph.kinds.warning_examples import UNTOUCHED as _UNTOUCHED
from onegraph.lowering import effect_repairs
from onegraph.lowering.effect_shapes import call_of, first_call, is_warn
from onegraph.model import Break, Candidate, Declined
from onegraph.rewrite.request import Request

NAME = "warning_call"
TITLE = "warnings.warn inside the compiled function"
GB_IDS = ("GB0007",)
ORDER = 40
EXAMPLES: tuple[Example, ...] = _EXAMPLES
UNTOUCHED: tuple[Untouched, ...] = _UNTOUCHED

_NOTE = "inside the compiled program the warning names the op as its place"


def recognises(break_: Break, node: ast.AST | None) -> bool:
    if isinstance(node, ast.Call) and is_warn(node):
        return True
    statement = tree.statement(node) if node is not None else None
    call = call_of(statement) if not isinstance(statement, ast.If) else first_call(statement, node)
    return call is not None and is_warn(call)


def repairs(request: Request) -> Iterator[Candidate | Declined]:
    proposal = effect_repairs.Proposal(NAME, "Warn from an ordered op", (_NOTE,))
    yield from effect_repairs.moved(request, proposal, "warn")
