"""The tensors in a value, with a path for each: ``output[0].loss``."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from typing import Any

import torch

from onegraph.model import Call


def tensors_in(value: Any, path: str) -> Iterator[tuple[str, torch.Tensor]]:
    """Every tensor in containers and in attributes of plain objects, once for each place, in a fixed
    order.
    """
    yield from _walk(value, path, set())


def _walk(value: Any, path: str, open_: set[int]) -> Iterator[tuple[str, torch.Tensor]]:
    if isinstance(value, torch.Tensor):
        yield path, value
        return
    if id(value) in open_:
        return
    open_.add(id(value))
    for name, item in children(value):
        yield from _walk(item, path + name, open_)
    open_.discard(id(value))


def children(value: Any) -> Iterator[tuple[str, Any]]:
    """The items of a container, or attributes of an object, with the text that selects each."""
    if isinstance(value, Call):
        yield "argument", value.args
        yield "", dict(value.kwargs)
    elif isinstance(value, dict):
        for key, item in dict.items(value):
            yield f"[{key!r}]", item
    elif isinstance(value, tuple) and hasattr(value, "_fields"):
        for name in value._fields:
            yield f".{name}", getattr(value, name)
    elif isinstance(value, (list, tuple, deque)):
        for index, item in enumerate(value):
            yield f"[{index}]", item
    elif _has_attributes(value):
        for name, item in vars(value).items():
            yield f".{name}", item


def _has_attributes(value: Any) -> bool:
    return hasattr(value, "__dict__") and not callable(value) and not isinstance(value, torch.nn.Module)
