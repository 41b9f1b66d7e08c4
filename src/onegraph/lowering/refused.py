"""Why a branch can't be lowered."""

from __future__ import annotations

import ast


class Refused(Exception):
    """``reason`` and ``next_step`` are sentences for the user, naming their code."""

    def __init__(self, reason: str, next_step: str) -> None:
        super().__init__(reason)
        self.reason, self.next_step = reason, next_step


class StateBehindReturn(Refused):
    """A path changes what is seen outside, and returns early; see `early_returns`."""


class InGradientBlock(Refused):
    """``node`` is a branch that a ``with torch.no_grad():`` around it stands in the way of; see `gradient_blocks`."""

    def __init__(self, reason: str, next_step: str, node: ast.AST) -> None:
        super().__init__(reason, next_step)
        self.node = node
