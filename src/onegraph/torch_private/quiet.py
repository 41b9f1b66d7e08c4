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
