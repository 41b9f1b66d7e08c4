"""Small wrappers around ``torch._dynamo``: reset, configuration, what kind of exception."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Any

import torch
import torch._dynamo
from torch._dynamo import config, exc
from torch.fx.experimental.symbolic_shapes import GuardOnDataDependentSymNode


def reset() -> None:
    """Forget everything compiled so far."""
    torch._dynamo.reset()


def patched(**settings: Any) -> AbstractContextManager[Any]:
    """``torch._dynamo.config`` with other values inside. A setting that this torch doesn't have is left
    out."""
    known = {name: value for name, value in settings.items() if hasattr(config, name)}
    patch: AbstractContextManager[Any] = config.patch(known)
    return patch


def is_compiler_error(error: BaseException) -> bool:
    """Whether the compiler raised it, and not the program. (A TorchRuntimeError may repeat the program's
    own.)"""
    return isinstance(
        error, (exc.TorchDynamoException, exc.FailOnRecompileLimitHit, GuardOnDataDependentSymNode)
    )
