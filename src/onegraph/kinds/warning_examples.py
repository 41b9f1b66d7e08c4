"""Examples and near misses of `warning_call`."""

from __future__ import annotations

from onegraph.kinds.base import Example, Untouched
from onegraph.kinds.effect_examples import HELPER
from onegraph.model import Level

EXAMPLES: tuple[Example, ...] = (
    Example(
        title="a constant text",
        before="""\
import warnings

import torch


def program(x, scale=None):
    if scale is None:
        warnings.warn("no scale given, 2 is used", RuntimeWarning)
        scale = 2
    return x * scale



def inputs():
    return [(torch.linspace(-1, 2, 6),), (torch.ones(2, 3),)]
""",
        after="""\
import warnings

import torch


"""
        + HELPER
        + """\


@_ordered_op
def _warn_scale_given_used() -> None:
    warnings.warn("no scale given, 2 is used", RuntimeWarning)


def program(x, scale=None):
    if scale is None:
        _warn_scale_given_used()
        scale = 2
    return x * scale



def inputs():
    return [(torch.linspace(-1, 2, 6),), (torch.ones(2, 3),)]
""",
        level=Level.RELAXED,
    ),
    Example(
        title="put down to the caller: eager mode keeps the statement",
        before="""\
import warnings

import torch


def program(x):
    warnings.warn(f"norm {x.norm():.3f} is not checked", stacklevel=2)
    return x * 2



def inputs():
    return [(torch.linspace(-1, 2, 6),), (torch.ones(2, 3),)]
""",
        after="""\
import warnings

import torch


"""
        + HELPER
        + """\


@_ordered_op
def _warn_norm_checked(x_norm: torch.Tensor) -> None:
    warnings.warn(f"norm {x_norm:.3f} is not checked", stacklevel=2)


def program(x):
    if torch.compiler.is_compiling():
        _warn_norm_checked(x.norm())
    else:
        warnings.warn(f"norm {x.norm():.3f} is not checked", stacklevel=2)
    return x * 2



def inputs():
    return [(torch.linspace(-1, 2, 6),), (torch.ones(2, 3),)]
""",
        level=Level.RELAXED,
    ),
)

UNTOUCHED: tuple[Untouched, ...] = (
    Untouched(
        "a category that only the caller knows",
        """\
import warnings

import torch


def program(x, category=UserWarning):
    warnings.warn("old", category)
    return x * 2



def inputs():
    return [(torch.linspace(-1, 2, 6),), (torch.ones(2, 3),)]
""",
        "`category` is a type",
    ),
)
