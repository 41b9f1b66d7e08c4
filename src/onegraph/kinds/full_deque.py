"""A deque with a limit (``deque(maxlen=5)``) that is full, and gets one more entry in the compiled function.

What happens: torch.compile forgets the limit of a deque that was made outside of the compiled function, and so goes on
with one entry too many (`len(window)`, `sum(window)`). While onegraph mends, this counts as a graph break.
What else it causes: nothing says so, and no break shows in a plain torch.compile; behind the call the deque is right.

Declined: nothing that can be written in its place stays a deque.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from onegraph.kinds.base import Example, Untouched
from onegraph.lowering.kept_numbers import kept
from onegraph.model import Break, Candidate, Declined
from onegraph.rewrite.request import Request
from onegraph.silent import LIMIT

NAME = "full_deque"
TITLE = "A deque with a limit that is full and grows on"
GB_IDS: tuple[str, ...] = ()
ORDER = 40
EXAMPLES: tuple[Example, ...] = ()
UNTOUCHED: tuple[Untouched, ...] = (
    Untouched(
        "a window of the last two",
        """\
from collections import deque

import torch

window = deque(maxlen=2)


def program(x):
    window.append(x.shape[0])
    return x * len(window)


def inputs():
    return [(torch.ones(n),) for n in (3, 4, 5)]
""",
        "forgets its limit",
    ),
    Untouched(
        "not full yet",
        """\
from collections import deque

import torch


def program(x):
    window = deque(maxlen=2)
    for n in range(3):
        window.append(n)
    return x * len(window)


def inputs():
    return [(torch.ones(3),)]
""",
        "",
    ),
)


def recognises(break_: Break, node: ast.AST | None) -> bool:
    return break_.gb_type == LIMIT


def repairs(request: Request) -> Iterator[Candidate | Declined]:
    """What is only kept is kept by an op."""
    yield from kept(request, NAME)
    yield Declined(
        NAME,
        "torch.compile forgets its limit, and goes on with one entry too many.",
        "Append to it behind the compiled function; or keep a list there, and cut it: `del window[:-5]`.",
    )
