"""What the work is at, told to whoever shows it; said by the stages, which don't know whether anybody does."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

_listeners: list[Callable[[str], None]] = []


def say(words: str) -> None:
    """The work goes on to this."""
    for listener in _listeners:
        listener(words)


@contextmanager
def told(listener: Callable[[str], None]) -> Iterator[None]:
    """Tell ``listener`` what is said inside."""
    _listeners.append(listener)
    try:
        yield
    finally:
        _listeners.remove(listener)
