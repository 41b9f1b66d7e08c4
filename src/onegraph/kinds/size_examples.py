"""Examples and near misses of ``branch_on_size``."""

from __future__ import annotations

from onegraph.kinds.base import Example, Untouched

EXAMPLES: tuple[
    Example, ...
] = ()  # it shows where sizes are captured; the tests of the text are with the lowering

UNTOUCHED = (
    Untouched(
        "a size of the input",
        """\
import torch


def program(x):
    if x.shape[0] == 0:
        return x
    return x * 2


def inputs():
    return [(torch.ones(2),)]
""",
        "",
    ),
)
