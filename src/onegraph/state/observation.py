"""Everything that one run was seen to do."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import torch

from onegraph.model import Call

ENDLESS = "onegraph.Overrun"  # the type of the error of a run that did not end in time


@dataclass(frozen=True, slots=True)
class Raised:
    """An exception: its qualified type name, message, and the names of its base classes."""

    type: str
    message: str
    bases: tuple[str, ...] = ()
    exception: BaseException | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Logged:
    """A log record that a logger accepted."""

    logger: str
    level: str
    message: str


@dataclass(frozen=True, slots=True)
class Warned:
    """A warning. ``torch``: issued from a file of torch, as the compiler's own are."""

    category: str
    message: str
    torch: bool = field(default=False, compare=False)


@dataclass(frozen=True, slots=True)
class Observation:
    """What a run returned, changed, consumed, said and raised. Tensors in it are copies, detached, with the
    ``requires_grad`` that the real ones had."""

    output: Any = None
    aliases: frozenset[tuple[str, str, str]] = frozenset()  # (place in output, "is"|"shares", other place)
    gradients: Mapping[str, torch.Tensor | None] = field(default_factory=dict)  # leaf -> gradient, None kept
    gradient_error: Raised | None = None  # the backward pass raised
    inputs: Call = field(default_factory=Call)  # the arguments after the run
    state: Mapping[str, Any] = field(default_factory=dict)  # place -> value, for what changed
    created: frozenset[str] = frozenset()  # of these places, the attributes that were not there before
    random: Mapping[str, Any] = field(default_factory=dict)  # stream -> state after the run
    stdout: str = ""
    stderr: str = ""
    logs: tuple[Logged, ...] = ()
    warnings: tuple[Warned, ...] = ()
    order: tuple[str, ...] = ()  # channels ("stdout", "stderr", "log") in the order in which they spoke
    error: Raised | None = None

    @property
    def endless(self) -> bool:
        """Whether the run was ended because it took too long."""
        return self.error is not None and self.error.type == ENDLESS
