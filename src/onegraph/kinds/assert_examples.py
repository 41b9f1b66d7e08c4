"""Examples and near misses of `assert_on_tensor`."""

from __future__ import annotations

from onegraph.kinds.base import Example, Untouched
from onegraph.kinds.effect_examples import HELPER
from onegraph.model import Level

EXAMPLES: tuple[Example, ...] = (
    Example(
        title="conditions in Python, a formatted message",
        before="""\
import torch


def program(x, low=-2):
    assert x.dim() < 3 and (x >= low).all(), f"below {low}: {x.min():.1f}"
    return x * 2



def inputs():
    return [(torch.linspace(-1, 2, 6),), (torch.full((2, 3), -4.0),)]
""",
        after="""\
import torch


"""
        + HELPER
        + """\


@_ordered_op
def _check_below(
    x_dim_below_3: bool,
    x_at_least_low_all: torch.Tensor,
    low: torch.types.Number,
    x: torch.Tensor,
) -> None:
    assert x_dim_below_3 and x_at_least_low_all, f"below {low}: {x.min():.1f}"


def program(x, low=-2):
    _check_below(x.dim() < 3, (x >= low).all(), low, x)
    return x * 2



def inputs():
    return [(torch.linspace(-1, 2, 6),), (torch.full((2, 3), -4.0),)]
""",
        level=Level.RELAXED,
    ),
)

UNTOUCHED: tuple[Untouched, ...] = (
    Untouched(
        "one tensor and a constant: torch captures it",
        """\
import torch


def program(x):
    assert (x > -5).all(), "too small"
    return x * 2



def inputs():
    return [(torch.linspace(-1, 2, 6),), (torch.ones(2, 3),)]
""",
        "",
    ),
    Untouched(
        "in a try that catches it",
        """\
import torch


def program(x):
    try:
        assert not x.isnan().any(), f"nan in {x}"
    except AssertionError:
        return x * 0
    return x * 2



def inputs():
    return [(torch.linspace(-1, 2, 6),), (torch.ones(2, 3),)]
""",
        "stands in a `try`",
    ),
)
