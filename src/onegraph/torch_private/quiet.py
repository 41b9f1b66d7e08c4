"""Dynamo's warnings ("Graph break from `Tensor.item()`", "hit recompile_limit") say what our report says."""

from __future__ import annotations

import contextlib
import io
import logging
from collections.abc import Iterator


@contextlib.contextmanager
def quiet(*, stderr: bool = False) -> Iterator[None]:
    """No warnings of Dynamo's on stderr inside, unless the user asked for its logs (TORCH_LOGS).

    With ``stderr`` the program's own stderr is dropped as well: for programs that are run again and again.
    """
    dynamo = logging.getLogger("torch._dynamo")
    level = dynamo.level
    if dynamo.getEffectiveLevel() == logging.WARNING:
        dynamo.setLevel(logging.ERROR)
    try:
        with contextlib.redirect_stderr(io.StringIO()) if stderr else contextlib.nullcontext():
            yield
    finally:
        dynamo.setLevel(level)


@contextlib.contextmanager
def muted() -> Iterator[None]:
    """What the program prints and logs goes nowhere: it is run by us, and has said so already, or never will."""
    call = logging.Logger.callHandlers

    def own(logger: logging.Logger, record: logging.LogRecord) -> None:
        if logger.name == "torch" or logger.name.startswith("torch."):
            call(logger, record)

    logging.Logger.callHandlers = own  # type: ignore[method-assign,assignment]
    try:
        with contextlib.redirect_stdout(io.StringIO()):
            yield
    finally:
        logging.Logger.callHandlers = call  # type: ignore[method-assign]


@contextlib.contextmanager
def without_guard_errors() -> Iterator[None]:
    """A size that can't be dynamic is an exception for us to read; torch logs its whole traceback besides."""
    guards = logging.getLogger("torch._guards")
    level = guards.level
    guards.setLevel(logging.CRITICAL)
    try:
        yield
    finally:
        guards.setLevel(level)
