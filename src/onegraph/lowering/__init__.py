"""Turns Python statements that a tensor decides into ``torch.where`` and ``torch.cond``."""

from onegraph.lowering.branch import lower_branch
from onegraph.lowering.loop import lower_loop

__all__ = ["lower_branch", "lower_loop"]
