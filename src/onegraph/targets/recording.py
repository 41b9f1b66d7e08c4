"""Programs out of a running script: each compiled callable with copies of the first calls made to it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from onegraph.model import Call, Program

SIGNATURES = 4  # distinct input signatures kept for each callable


@dataclass(slots=True)
class Recorded:
    """One compiled callable as the script used it: its grad mode, and train or eval mode for a module."""

    target: Callable[..., Any]
    options: Mapping[str, Any]
    grad: bool
    training: bool | None
    calls: dict[Any, Call] = field(default_factory=dict)  # signature -> copy of its first call

    @property
    def program(self) -> Program:
        return Program(_name(self.target), self.target, tuple(self.calls.values()), self.options)

    @contextmanager
    def mode(self) -> Iterator[None]:
        """The grad mode and the train/eval modes of submodules as they were in the script's call."""
        import torch

        modules = list(self.target.modules()) if isinstance(self.target, torch.nn.Module) else []
        now = [(module, module.training) for module in modules]
        if modules and modules[0].training is not self.training:
            modules[0].train(bool(self.training))
        try:
            with torch.set_grad_enabled(self.grad):
                yield
        finally:
            for module, training in now:
                module.training = training


class Recording:
    """What ``recorded`` saw."""

    def __init__(self) -> None:
        self._entries: dict[Any, Recorded] = {}

    def entries(self) -> tuple[Recorded, ...]:
        """One for each compiled callable, grad mode and train/eval mode; in order of the first call."""
        return tuple(self._entries.values())

    def add(
        self,
        target: Callable[..., Any],
        options: Mapping[str, Any],
        args: tuple[Any, ...],
        kwargs: Mapping[str, Any],
    ) -> None:
        """Keep a copy of one call, if its signature is new."""
        import torch

        from onegraph.state.copying import copy_call

        grad, training = torch.is_grad_enabled(), getattr(target, "training", None)
        key = (id(target), grad, training)
        entry = self._entries.setdefault(key, Recorded(target, options, grad, training))
        if len(entry.calls) >= SIGNATURES:
            return
        signature = signature_of((args, kwargs))
        if signature not in entry.calls:
            entry.calls[signature] = copy_call(Call(args, kwargs))


@contextmanager
def recorded() -> Iterator[Recording]:
    """Record the calls at every entry point of torch.compile made inside."""
    from onegraph.torch_private import entries

    recording = Recording()
    with entries.watched(recording.add):
        yield recording


def signature_of(value: Any) -> Any:
    """A hashable description of inputs: structure, types, tensor metadata, and Python constants."""
    import torch

    if isinstance(value, torch.Tensor):
        kind = type(value).__name__
        return (kind, tuple(value.shape), value.dtype, value.device, value.requires_grad, value.layout)
    if isinstance(value, Mapping):
        return (type(value).__name__, tuple((repr(key), signature_of(item)) for key, item in value.items()))
    if isinstance(value, list | tuple | set | frozenset):
        return (type(value).__name__, tuple(signature_of(item) for item in value))
    if value is None or isinstance(value, bool | int | str | bytes):
        return (type(value).__name__, value)
    return (
        type(value).__module__,
        type(value).__qualname__,
    )  # a float too: its value changes with every call


def _name(target: Any) -> str:
    return str(getattr(target, "__qualname__", None) or type(target).__qualname__)
