"""The two ways in which a target is at fault."""

from __future__ import annotations


class TargetError(Exception):
    """The target can't be used as given. ``str()`` says what, why and what to do next, one line each."""

    def __init__(self, what: str, why: str = "", next_step: str = "") -> None:
        self.what, self.why, self.next_step = what, why, next_step
        super().__init__("\n".join(filter(None, (what, why, next_step and f"next: {next_step}"))))


class TargetFailed(Exception):
    """The target itself raised. ``error`` is its exception, with a traceback that starts in the target's
    code."""

    def __init__(self, error: BaseException) -> None:
        self.error = error
        super().__init__(f"{type(error).__name__}: {error}")
