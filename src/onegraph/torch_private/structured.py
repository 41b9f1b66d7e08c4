"""torch's structured trace, read in the process: a second witness beside the hooks.

``torch._logging.trace_structured`` is where every record of the trace is handed over. It is read there, and
not by a handler on ``trace_log``: with a handler torch builds every record, each graph as text included, for
three wanted here. Nothing is written, no environment variable is needed, and a user's own TORCH_TRACE goes
on as before.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch._logging

from onegraph.torch_private.patching import Patch, wrap

Reader = Callable[[str, Any], None]
_ARTIFACTS = ("dynamo_graph_break_reason", "recompile_reasons")
_METRICS = "compilation_metrics"

_lock = threading.RLock()
_readers: list[Reader] = []
_patches: list[Patch] = []


@contextmanager
def reading(reader: Reader) -> Iterator[None]:
    """Call ``reader(name, payload)`` for each record of interest: the text of ``dynamo_graph_break_reason``,
    the reasons of ``recompile_reasons``, the fields of ``compilation_metrics``. ``reader`` must not raise."""
    with _lock:
        if not _readers:
            _patches.append(wrap(torch._logging, "trace_structured", _tap))
        _readers.append(reader)
    try:
        yield
    finally:
        with _lock:
            _readers.remove(reader)
            while not _readers and _patches:
                _patches.pop().undo()


def _tap(plain: Callable[..., None]) -> Callable[..., None]:
    def trace_structured(
        name: str,
        metadata_fn: Callable[[], Any] = dict,
        *,
        payload_fn: Callable[[], Any] = lambda: None,
        **rest: Any,
    ) -> None:
        plain(name, metadata_fn, payload_fn=payload_fn, **rest)
        if name == _METRICS:
            _hand_on(name, metadata_fn())
        elif name == "artifact" and (label := metadata_fn().get("name")) in _ARTIFACTS:
            _hand_on(label, payload_fn())

    return trace_structured


def _hand_on(name: str, payload: Any) -> None:
    for reader in tuple(_readers):
        reader(name, payload)
