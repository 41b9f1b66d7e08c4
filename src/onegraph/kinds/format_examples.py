"""Examples and near misses of `format_of_tensor`."""

from __future__ import annotations

from onegraph.kinds.base import Example, Untouched
from onegraph.kinds.effect_examples import HELPER
from onegraph.model import Level

EXAMPLES: tuple[Example, ...] = (
    Example(
        title="the = form in a list of notes",
        before="""\
import torch

NOTES = []


def program(x):
    m = x.mean()
    NOTES.append(f"{m=} {x.max()=} spread {x.std():.3f}")
    return (x - m).abs()



def inputs():
    return [(torch.linspace(-1, 2, 6),), (torch.ones(2, 3),)]
""",
        after="""\
import torch


"""
        + HELPER
        + """\


NOTES = []


@_ordered_op
def _note_max_spread(m: torch.Tensor, x_max: torch.Tensor, x_std: torch.Tensor) -> None:
    NOTES.append(f"{m=} x.max()={x_max!r} spread {x_std:.3f}")


def program(x):
    m = x.mean()
    _note_max_spread(m, x.max(), x.std())
    return (x - m).abs()



def inputs():
    return [(torch.linspace(-1, 2, 6),), (torch.ones(2, 3),)]
""",
        level=Level.RELAXED,
    ),
)

UNTOUCHED: tuple[Untouched, ...] = (
    Untouched(
        "the text is a key",
        """\
import torch

TABLE = {}


def program(x):
    key = repr(x.sum())
    return x * TABLE.get(key, 2)



def inputs():
    return [(torch.linspace(-1, 2, 6),), (torch.ones(2, 3),)]
""",
        "text of a tensor is used inside the function",
    ),
    Untouched(
        "a list of the function",
        """\
import torch


def program(x):
    notes = []
    notes.append(f"{x.sum()=}")
    return x * 2, notes



def inputs():
    return [(torch.linspace(-1, 2, 6),), (torch.ones(2, 3),)]
""",
        "text of a tensor is used inside the function",
    ),
)
