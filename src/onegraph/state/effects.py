"""Catch what a run says: stdout, stderr, log records, warnings."""

from __future__ import annotations

import io
import itertools
import logging
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from pathlib import Path
from types import FrameType
from typing import Any

import torch

from onegraph.state.observation import Logged, Warned

_TORCH = Path(torch.__file__).parent


class _Heard(io.StringIO):
    """A text stream that notes when it was written to."""

    def __init__(self, channel: str, order: list[str]) -> None:
        super().__init__()
        self._channel = channel
        self._order = order

    def write(self, text: str) -> int:
        if text:
            self._order.append(self._channel)
        return super().write(text)


class Said:
    """What was caught; complete when the ``listening`` block is left."""

    def __init__(self) -> None:
        self._order: list[str] = []
        self.out = _Heard("stdout", self._order)
        self.err = _Heard("stderr", self._order)
        self.logs: list[Logged] = []
        self.caught: list[warnings.WarningMessage] = []

    def log(self, record: logging.LogRecord) -> None:
        self._order.append("log")
        self.logs.append(Logged(record.name, record.levelname, record.getMessage()))

    @property
    def order(self) -> tuple[str, ...]:
        """Channels in the order in which they spoke; one print writes several times, so runs count once."""
        return tuple(channel for channel, _ in itertools.groupby(self._order))

    @property
    def warnings(self) -> tuple[Warned, ...]:
        return tuple(
            Warned(item.category.__name__, str(item.message), _from_torch(item.filename))
            for item in self.caught
        )


@contextmanager
def listening() -> Iterator[Said]:
    """Catch everything said inside; nothing reaches the terminal or the handlers of loggers.

    Every warning counts, also one that was shown before (so that two runs can be compared). Log records are
    taken where a logger accepts them, so loggers that do not propagate are heard; torch's own loggers, and
    those of the tools that inductor uses (file locks), are not.
    """
    said = Said()
    handle = logging.Logger.handle
    always = torch.is_warn_always_enabled()

    def listen(logger: logging.Logger, record: logging.LogRecord) -> None:
        if logger.name == "torch" or logger.name.startswith("torch.") or _while_compiling():
            handle(logger, record)
        elif not logger.disabled:
            kept: Any = logger.filter(record)
            record = kept if isinstance(kept, logging.LogRecord) else record
            if kept:
                said.log(record)

    with redirect_stdout(said.out), redirect_stderr(said.err), warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        torch.set_warn_always(True)
        logging.Logger.handle = listen  # type: ignore[method-assign,assignment]
        said.caught = caught
        try:
            yield said
        finally:
            logging.Logger.handle = handle  # type: ignore[method-assign]
            torch.set_warn_always(always)


def _while_compiling() -> bool:
    """Whether inductor is behind the record: it is among the first of torch's files on the way out."""
    frame: FrameType | None = sys._getframe(2)
    reached = False
    while frame is not None:
        path = Path(frame.f_code.co_filename)
        if path.is_relative_to(_TORCH / "_inductor"):
            return True
        if reached and not path.is_relative_to(_TORCH):
            return False  # torch was called by this: an op of a compiled graph, a module of the program
        reached = path.is_relative_to(_TORCH)
        frame = frame.f_back
    return False


def _from_torch(filename: str) -> bool:
    """A file of torch's, or the code that it makes of a graph."""
    return filename.startswith("<eval_with_key>") or Path(filename).is_relative_to(_TORCH)
