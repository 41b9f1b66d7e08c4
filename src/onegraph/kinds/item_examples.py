"""Examples and near misses of `item_call`."""

from __future__ import annotations

from onegraph.kinds.base import Example, Untouched
from onegraph.model import Level

EXAMPLES: tuple[Example, ...] = (
    Example(
        title="a norm as a factor; the gradient stays cut",
        before="""\
import torch


def program(x):
    scale = x.norm().item()
    return x * scale + 1


def inputs():
    return [(torch.linspace(-1, 2, 6, requires_grad=True),), (torch.ones(2, 3, requires_grad=True),)]
""",
        after="""\
import torch


def program(x):
    scale = x.norm().detach().double()
    return x * scale + 1


def inputs():
    return [(torch.linspace(-1, 2, 6, requires_grad=True),), (torch.ones(2, 3, requires_grad=True),)]
""",
        level=Level.EXACT,
        grad=True,
    ),
)
UNTOUCHED: tuple[Untouched, ...] = ()
