"""What the hooks report, before positions are turned into spans."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import CodeType
from typing import Protocol

from onegraph.model import Outcome, Value
from onegraph.torch_private.frames import RawFrame


@dataclass(frozen=True, slots=True)
class Raised:
    """An exception with which Dynamo stopped tracing, as it was when it was raised.

    ``cause`` is the earlier break that this one only wraps ("graph break in loop" around a print, for
    example).
    """

    gb_type: str
    message: str
    frames: tuple[RawFrame, ...] = ()
    locals: Mapping[str, Value] = field(default_factory=dict)
    context: str = ""
    explanation: str = ""
    hints: tuple[str, ...] = ()
    cause: Raised | None = None


class Listener(Protocol):
    """Told of everything that Dynamo does, from the thread that compiles. Code objects are the user's own."""

    def compiled(self, code: CodeType, failed: bool, resumed: bool, began: float) -> None:
        """Dynamo compiled a frame, or ``failed`` to (then ``frame_ended`` follows, with the reason).
        ``resumed``: it is the part behind a break. ``began`` is of ``time.perf_counter()``."""

    def broke(self, raised: Raised, outcome: Outcome, reason: str) -> None:
        """A break was committed; ``reason`` is Dynamo's text for it."""

    def frame_ended(self, code: CodeType, raised: Raised, logged: bool, swallowed: bool) -> None:
        """An exception ended the compilation of a frame. ``logged``: ``broke`` was told of it before.
        ``swallowed``: the frame runs eagerly; otherwise the exception goes on to the user."""

    def limit_reached(self, code: CodeType) -> None:
        """The recompile limit of a function was reached."""

    def graph(self, code: CodeType, nodes: int) -> None:
        """The backend made a graph with so many call nodes."""

    def recompiling(self, code: CodeType, resumed: bool, reasons: tuple[str, ...]) -> None:
        """A frame is compiled again, for these failed guards. ``resumed``: it is the part behind a break."""

    def fault(self, where: str, error: Exception) -> None:
        """A hook itself failed; the user's program goes on."""
