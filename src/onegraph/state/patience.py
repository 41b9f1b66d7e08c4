"""Ends a run that goes on for too long: on inputs that we made up, and in a text that we wrote, a loop may have no
end.

The exception comes from another thread, so that it works in whichever thread the program runs, and takes no signal
away from the program. Python raises it between two bytecodes: one operation of torch is never cut short.
"""

from __future__ import annotations

import ctypes
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

_LEAST = 10.0  # seconds: however short the recorded calls are
_TIMES = 20  # as long as the longest recorded call
_COMPILING = 60  # times as long as without the compiler
_GENERATING = 10  # times as long as tracing alone
_AGAIN = 1.0  # seconds until it is raised once more, where a handler of the program has swallowed it


class Overrun(BaseException):
    """The run did not end in time. No ``except Exception`` of the program catches it."""


class Patience:
    """How many seconds a run may take, from how long the recorded calls took."""

    def __init__(self) -> None:
        self._longest = 0.0

    @contextmanager
    def learning(self) -> Iterator[None]:
        """Around a run of the program itself on the user's own inputs: it ends when it ends."""
        start = time.perf_counter()
        try:
            yield
        finally:
            self._longest = max(self._longest, time.perf_counter() - start)

    @property
    def known(self) -> bool:
        """Whether a recorded call was run yet."""
        return self._longest > 0

    @contextmanager
    def bounded(self) -> Iterator[None]:
        """Around a run without the compiler that may have no end. Raises Overrun."""
        with deadline(self.seconds):
            yield

    @property
    def seconds(self) -> float:
        """For a run without the compiler."""
        return max(_LEAST, _TIMES * self._longest)

    @property
    def compiling(self) -> float:
        """For a run that the compiler traces first."""
        return _COMPILING * self.seconds

    @property
    def generating(self) -> float:
        """For a run that inductor makes code for first."""
        return _GENERATING * self.compiling


@contextmanager
def deadline(seconds: float | None) -> Iterator[None]:
    """Raises Overrun in this thread where the block takes longer. None: it may take as long as it likes."""
    if seconds is None:
        yield
        return
    watchdog = _Watchdog(seconds)
    try:
        try:
            watchdog.start()
            yield
        finally:
            watchdog.stop()
    except Overrun:  # it may have come just before the watchdog was stopped
        watchdog.stop()
        raise


class _Watchdog(threading.Thread):
    def __init__(self, seconds: float) -> None:
        super().__init__(name="onegraph deadline", daemon=True)
        self._seconds = seconds
        self._watched = ctypes.c_ulong(threading.get_ident())
        self._over = threading.Event()
        self._turn = threading.Lock()

    def run(self) -> None:
        wait = self._seconds
        while not self._over.wait(wait):
            with self._turn:
                if not self._over.is_set():
                    self._raise(ctypes.py_object(Overrun))
            wait = _AGAIN

    def stop(self) -> None:
        """From here on nothing is raised any more."""
        with self._turn:
            self._over.set()
            self._raise(None)

    def _raise(self, kind: ctypes.py_object[type[Overrun]] | None) -> None:
        ctypes.pythonapi.PyThreadState_SetAsyncExc(self._watched, kind)
