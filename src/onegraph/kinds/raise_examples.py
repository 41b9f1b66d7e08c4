"""Examples and near misses of `raise_on_tensor`."""

from __future__ import annotations

from onegraph.kinds.base import Example, Untouched
from onegraph.kinds.effect_examples import HELPER
from onegraph.model import Level

EXAMPLES: tuple[Example, ...] = (
    Example(
        title="counts of tensors in the message",
        before="""\
import torch


def program(ids, feats):
    slots = ids == 9
    n = slots.sum()
    if n != feats.shape[0]:
        raise ValueError(f"{n} placeholders for {feats.shape[0]} features")
    return torch.where(slots, feats.sum(), 0.0)


def inputs():
    return [(torch.tensor([1, 9, 2, 9]), torch.ones(2)), (torch.tensor([1, 9, 2, 2]), torch.ones(2))]
""",
        after="""\
import torch


"""
        + HELPER
        + """\


@_ordered_op
def _check_placeholders_features(n: torch.Tensor, feats_size_0: int) -> None:
    if n != feats_size_0:
        raise ValueError(f"{n} placeholders for {feats_size_0} features")


def program(ids, feats):
    slots = ids == 9
    n = slots.sum()
    _check_placeholders_features(n, feats.shape[0])
    return torch.where(slots, feats.sum(), 0.0)


def inputs():
    return [(torch.tensor([1, 9, 2, 9]), torch.ones(2)), (torch.tensor([1, 9, 2, 2]), torch.ones(2))]
""",
        level=Level.RELAXED,
    ),
    Example(
        title="behind Python conditions; the other arms stay",
        before="""\
import torch


def program(x, strict=True):
    if x.isnan().any():
        raise ValueError("nan in the input")
    elif x.dim() == 1:
        x = x * 2
    else:
        x = x * 3
    if strict and not (x <= 6).all():
        worst = x.max().item()
        raise OverflowError(f"{worst:.2f} is above 6") from None
    return x



def inputs():
    return [(torch.linspace(-1, 2, 6),), (torch.full((2, 3), 2.5),), (torch.full((2,), torch.nan),)]
""",
        after="""\
import torch


"""
        + HELPER
        + """\


@_ordered_op
def _check_nan_input(x_isnan_any: torch.Tensor) -> None:
    if x_isnan_any:
        raise ValueError("nan in the input")


@_ordered_op
def _check_above(x_at_most_6_all: torch.Tensor, x: torch.Tensor) -> None:
    if not x_at_most_6_all:
        worst = x.max().item()
        raise OverflowError(f"{worst:.2f} is above 6") from None


def program(x, strict=True):
    _check_nan_input(x.isnan().any())
    if x.dim() == 1:
        x = x * 2
    else:
        x = x * 3
    if strict:
        _check_above((x <= 6).all(), x)
    return x



def inputs():
    return [(torch.linspace(-1, 2, 6),), (torch.full((2, 3), 2.5),), (torch.full((2,), torch.nan),)]
""",
        level=Level.RELAXED,
    ),
    Example(
        title="a helper that raises",
        before="""\
import torch


def reject(x, why):
    raise RuntimeError(f"{why}: {x.tolist()}")


def program(x):
    y = x.log()
    if not torch.isfinite(y).all():
        reject(x, "logarithm of")
    return y



def inputs():
    return [(torch.ones(2),), (torch.zeros(3),)]
""",
        after="""\
import torch


"""
        + HELPER
        + """\


def reject(x, why):
    raise RuntimeError(f"{why}: {x.tolist()}")


@_ordered_op
def _check_logarithm(y_isfinite_all: torch.Tensor, x: torch.Tensor) -> None:
    if not y_isfinite_all:
        reject(x, "logarithm of")


def program(x):
    y = x.log()
    _check_logarithm(torch.isfinite(y).all(), x)
    return y



def inputs():
    return [(torch.ones(2),), (torch.zeros(3),)]
""",
        level=Level.RELAXED,
    ),
)

UNTOUCHED: tuple[Untouched, ...] = (
    Untouched(
        "in a try that catches it",
        """\
import torch


def program(x):
    try:
        if (x > 1).any():
            raise ValueError("large")
    except ValueError:
        return x * 0
    return x



def inputs():
    return [(torch.linspace(-1, 2, 6),), (torch.ones(2, 3),)]
""",
        "stands in a `try`",
    ),
    Untouched(
        "a check of the shape",
        """\
import torch


def program(x):
    if x.dim() > 2:
        raise ValueError(f"{x.dim()} dimensions")
    return x * 2



def inputs():
    return [(torch.linspace(-1, 2, 6),), (torch.ones(2, 3),)]
""",
        "",
    ),
)
