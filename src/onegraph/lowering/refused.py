"""Why a branch can't be lowered."""

from __future__ import annotations


class Refused(Exception):
    """``reason`` and ``next_step`` are sentences for the user, naming their code."""

    def __init__(self, reason: str, next_step: str) -> None:
        super().__init__(reason)
        self.reason, self.next_step = reason, next_step
