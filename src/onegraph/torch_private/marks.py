"""Marks on tensors that tell torch.compile which sizes change, before the first call."""

from __future__ import annotations

import torch
from torch._dynamo import decorators
from torch.fx.experimental.symbolic_shapes import ConstraintViolationError

REFUSED: tuple[type[Exception], ...] = (ConstraintViolationError,)  # a line fixes a marked size


def dynamic(tensor: torch.Tensor, dim: int) -> None:
    """One artifact for all sizes from 2; an error where a line fixes the size. (0 and 1 are left alone.)"""
    if tensor.shape[dim] > 1:
        torch._dynamo.mark_dynamic(tensor, dim)


def maybe_dynamic(tensor: torch.Tensor, dim: int) -> None:
    """As ``dynamic``, without the error."""
    torch._dynamo.maybe_mark_dynamic(tensor, dim)


def unbacked(tensor: torch.Tensor, dim: int) -> None:
    """As ``dynamic``, also for 0 and 1; a line that asks for the size is then a graph break or an error."""
    decorators.mark_unbacked(tensor, dim)
