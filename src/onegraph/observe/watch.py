"""``watch()``: everything that torch.compile does inside, in any thread, seen and unchanged."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

from onegraph.model import Trace
from onegraph.observe.recorder import Recorder
from onegraph.torch_private import canary, hooks, structured


class Watch:
    """What was seen so far; ``trace()`` may be asked at any time."""

    def __init__(self) -> None:
        self._recorder = Recorder()
        self._start = time.perf_counter()
        self._seconds: float | None = None
        self.error: BaseException | None = None

    def trace(self) -> Trace:
        seen = self._recorder
        running = time.perf_counter() - self._start
        return Trace(
            breaks=tuple(seen.breaks),
            graphs=tuple(seen.graphs),
            recompiles=tuple(seen.recompiles),
            frames_given_up=tuple(dict.fromkeys(seen.given_up)),
            limits_reached=tuple(seen.limits),
            disagreements=(*canary.missing(), *seen.faults, *seen.check.disagreements()),
            compiled_calls=seen.attempts,
            error=self.error,
            attempts=tuple(seen.timeline),
            seconds=running if self._seconds is None else self._seconds,
        )

    def _end(self) -> None:
        self._seconds = time.perf_counter() - self._start


@contextmanager
def watch() -> Iterator[Watch]:
    """Watch every compilation inside. An exception that leaves the block is kept in ``Watch.error`` and goes
    on."""
    watching = Watch()
    try:
        with hooks.listening(watching._recorder), structured.reading(watching._recorder.read):
            yield watching
    except BaseException as error:
        watching.error = error
        raise
    finally:
        watching._end()
