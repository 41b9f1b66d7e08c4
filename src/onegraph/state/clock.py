"""A clock of our own for the program that is run again: two runs of the same program read the same times.

Only what this thread runs of the user's code reads it; torch, other libraries and other threads get the real time.
"""

from __future__ import annotations

import ctypes
import itertools
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from onegraph.state.owner import is_user_module

_SECONDS = ("time", "perf_counter", "monotonic", "process_time", "thread_time")
_REAL: dict[str, Callable[[], Any]] = {
    name: getattr(time, name) for each in _SECONDS for name in (each, f"{each}_ns")
}
_START = 1_700_000_000.0  # seconds
_STEP = 2.0**-10  # seconds: so that differences are exact


@contextmanager
def own_clock() -> Iterator[None]:
    """Inside, each read of a clock of module ``time`` by the user's code gives a time one step later than the last.

    A clock that somebody put in the place of a real one stays."""
    ticks, thread = itertools.count(), threading.get_ident()

    def read(name: str) -> Any:
        asking = sys._getframe(2).f_globals.get("__name__")
        if threading.get_ident() != thread or not is_user_module(str(asking)):
            return _REAL[name]()
        now = _START + next(ticks) * _STEP
        return int(now * 1e9) if name.endswith("_ns") else now

    changed = [(vars(time), name) for name, real in _REAL.items() if vars(time)[name] is real]
    for module in list(sys.modules.values()):
        names = getattr(module, "__dict__", None)
        if isinstance(names, dict) and not _REAL.keys().isdisjoint(names):
            held = [name for name, real in _REAL.items() if names.get(name) is real]
            changed += [(names, name) for name in held if is_user_module(str(names.get("__name__")))]
    clocks = {name: _as_c_function(name, read) for name in _REAL}
    for namespace, name in changed:
        namespace[name] = clocks[name]
    try:
        yield
    finally:
        for namespace, name in changed:
            namespace[name] = _REAL[name]


def _as_c_function(name: str, read: Callable[[str], Any]) -> Any:
    """No Python function: the compiler would trace into it, where it has to end the graph at the real clock."""
    kind = ctypes.c_longlong if name.endswith("_ns") else ctypes.c_double
    return ctypes.CFUNCTYPE(kind)(lambda: read(name))
