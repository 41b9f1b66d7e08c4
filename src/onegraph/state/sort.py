"""What sort of call is it? The dtypes, ranks and Python types of everything that it reads, but no sizes.

Two calls of one sort go through the same arms of everything that Python decides, as far as types, flags and
None decide it. Arguments count, and the state that the program reaches: a model in half precision or in
eval mode is called in another way than it was before.
"""

from __future__ import annotations

import enum
import hashlib
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import torch

from onegraph.model import Call, Program
from onegraph.state.reach import Reach, is_empty
from onegraph.state.walk import children
from onegraph.torch_private.tensors import has_plain_storage, storage_key

_NAMED = (bool, str, bytes, enum.Enum, type, torch.dtype, torch.device, torch.layout, torch.memory_format)


def sort_of(target: Callable[..., Any] | None, arguments: Mapping[str, Any]) -> str:
    """A key: equal for calls of one sort. Sizes and integers count as 0, 1 or more. Without ``target`` it is
    the key of the arguments alone, which costs little."""
    lines = [*_modes(), *_Walk().lines(dict(arguments), "")]
    if target is not None:
        lines += _state(Reach(Program("", target, (Call(tuple(arguments.values())),))))
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()


def _modes() -> Iterator[str]:
    """Settings of torch that decide what an operation gives."""
    yield f"{torch.is_grad_enabled()} {torch.is_inference_mode_enabled()} {torch.get_default_dtype()}"
    accelerator = torch.accelerator.current_accelerator()
    for device in ("cpu", *([accelerator.type] if accelerator is not None else [])):
        yield f"autocast {torch.is_autocast_enabled(device)} {torch.get_autocast_dtype(device)}"


class _Walk:
    """Over values that belong together: what is one tensor, or one memory, twice is told."""

    def __init__(self) -> None:
        self._open: set[int] = set()
        self._tensors: dict[int, str] = {}
        self._memory: dict[Any, str] = {}

    def lines(self, value: Any, path: str) -> Iterator[str]:
        yield f"{path}: {self._told(value, path)}"
        if isinstance(value, torch.Tensor) or id(value) in self._open:
            return
        self._open.add(id(value))
        for name, item in children(value):
            yield from self.lines(item, path + name)
        self._open.discard(id(value))

    def _told(self, value: Any, path: str) -> str:
        if not isinstance(value, torch.Tensor):
            return _plain(value)
        same = self._tensors.setdefault(id(value), path)
        memory = self._memory.setdefault(storage_key(value), path) if has_plain_storage(value) else path
        return f"{_tensor(value)} {same} {memory}"


def _tensor(value: torch.Tensor) -> str:
    sizes = [_number(size) for size in value.shape]
    strided = value.layout is torch.strided
    laid = (value.is_contiguous(), 0 in value.stride()) if strided else value.layout
    kind = type(value).__qualname__
    return f"{kind} {value.dtype} {value.device.type} {value.requires_grad} {sizes} {laid}"


def _number(value: Any) -> str:
    """Of a size that is a symbol nothing is asked: that would be a guard."""
    return str(min(max(value, -1), 2)) if type(value) is int else "many"


def _plain(value: Any) -> str:
    kind = f"{type(value).__module__}.{type(value).__qualname__}"
    if isinstance(value, _NAMED):
        return f"{kind} {value!r}"
    return f"{kind} {_number(value)}" if type(value) is int else kind


def _state(reach: Reach) -> Iterator[str]:
    """Gradients that were left behind are none: they come and go with every step."""
    yield "".join(str(int(module.training)) for module in reach.modules)
    yield from (f"{path}: {_tensor(value)}" for value, path in reach.tensors if not path.endswith(".grad"))
    for held, path in reach.containers:
        yield from (f"{path}: {line}" for line in _container(held))
    for namespace, name, path in reach.bindings:
        names = namespace if isinstance(namespace, dict) else vars(namespace)
        yield f"{path}: {_plain(names.get(name))}"
    for value, name, path in reach.slots:
        yield f"{path}: {_plain(getattr(value, name, None))}"
    for cell, path in reach.cells:
        yield f"{path}: {'empty' if is_empty(cell) else _plain(cell.cell_contents)}"


def _container(held: Any) -> list[str]:
    """A list or set by the types that it holds: it may grow with every call."""
    if isinstance(held, dict):
        return [f"{key} {_plain(item)}" for key, item in dict.items(held) if isinstance(key, str)]
    if isinstance(held, (list, set, deque)):
        return sorted({_plain(item) for item in held})
    return []
