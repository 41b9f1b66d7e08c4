"""A logger is called inside the compiled function.

What happens: writing a record is no tensor operation, so the graph ends there. The same holds for a level
check (``log.isEnabledFor``), for ``getLogger`` inside the function, and for a warn-once helper: Dynamo
looks through
``functools.lru_cache``, so that "once" becomes "once a compilation".
What else it causes: tensors in the message leave the graph; code behind the call is a graph of its own.

Relaxed: the statement becomes an op with an ordered effect: same logger, level, text, order and count. The
call of a cached helper moves as a whole, so that its cache decides as before. In eager mode nothing
changes but the function name and line that a formatter may show.
Lossy (on request only): skipped while compiling.
Declined: an object in the message that no op can take; a logger that can't be named at module level.
"""

from __future__ import annotations

import ast
import logging
from collections.abc import Iterator

from onegraph.kinds import tree
from onegraph.kinds.base import Example, Untouched
from onegraph.kinds.logging_examples import EXAMPLES as _EXAMPLES
from onegraph.kinds.logging_examples import UNTOUCHED as _UNTOUCHED
from onegraph.lowering import effect_loggers, effect_repairs
from onegraph.lowering.effect_shapes import call_of, first_call, is_level_check, is_log
from onegraph.model import Break, Candidate, Declined
from onegraph.rewrite.request import Request

NAME = "logging_call"
TITLE = "A logger called inside the compiled function"
GB_IDS = ("GB0291", "GB0296")
ORDER = 40
EXAMPLES: tuple[Example, ...] = _EXAMPLES
UNTOUCHED: tuple[Untouched, ...] = _UNTOUCHED

_NOTE = "a formatter that shows the function or line of a record shows those of the op"


def recognises(break_: Break, node: ast.AST | None) -> bool:
    if all(frame.span.file == logging.__file__ for frame in break_.stack):
        return False  # logging itself was compiled, behind a break at its call
    if isinstance(node, ast.Call) and is_log(node):
        return True
    statement = tree.statement(node) if node is not None else None
    if statement is None or node is None:
        return break_.gb_type.startswith("logging.Logger method")
    if isinstance(statement, ast.If):
        call = first_call(statement, node)
        return (call is not None and is_log(call)) or any(map(is_level_check, ast.walk(statement.test)))
    if effect_loggers.made_in(statement) is not None:
        return True
    call = call_of(statement)
    return (call is not None and is_log(call)) or break_.gb_type.startswith("logging.Logger method")


def repairs(request: Request) -> Iterator[Candidate | Declined]:
    statement = effect_repairs.statement_of(request)
    if statement is not None and effect_loggers.made_in(statement) is not None:
        yield effect_loggers.hoisted(request, NAME, statement)
        return
    proposal = effect_repairs.Proposal(NAME, "Log from an ordered op", (_NOTE,))
    yield from effect_repairs.moved(request, proposal, "log")
