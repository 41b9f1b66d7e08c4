"""Turns Python statements that a tensor decides into ``torch.where`` and ``torch.cond``."""

from onegraph.lowering.branch import lower_branch

__all__ = ["lower_branch"]
