"""Breaks that no kind mends yet: each is explained by its family, and declined with a next step.

Asked last; recognises everything.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from onegraph.kinds import families
from onegraph.kinds.base import Example, Untouched
from onegraph.model import Break, Candidate, Declined
from onegraph.rewrite.request import Request

NAME = "other"
TITLE = "Anything that onegraph explains but does not mend"
GB_IDS: tuple[str, ...] = ()
ORDER = 1_000_000
EXAMPLES: tuple[Example, ...] = ()
UNTOUCHED: tuple[Untouched, ...] = ()


def recognises(break_: Break, node: ast.AST | None) -> bool:
    return True


def reason(break_: Break) -> str:
    """One sentence on what happens at a break."""
    return families.reason(break_)


def repairs(request: Request) -> Iterator[Candidate | Declined]:
    breaks = request.site.breaks
    if not breaks:
        yield Declined(NAME, request.site.reason, families.named("python_feature").next_step)
        return
    yield Declined(NAME, families.reason(breaks[0]), families.of_break(breaks[0]).next_step)
