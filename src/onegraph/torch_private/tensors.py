"""What only private names tell about a tensor: its inner tensors, its storage's identity, fakeness."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch

_MARKS = ("_dynamo_", "_torchdynamo", "_compiled_call_impl", "_is_torch_compile")


def inner_tensors(tensor: torch.Tensor) -> Iterator[tuple[str, torch.Tensor]]:
    """The tensors that a traceable wrapper subclass is made of, with their attribute names."""
    flatten = getattr(type(tensor), "__tensor_flatten__", None)
    if flatten is not None:
        for name in flatten(tensor)[0]:
            yield name, getattr(tensor, name)


def has_plain_storage(tensor: torch.Tensor) -> bool:
    """Whether the bytes of the tensor lie in one readable storage: strided, real, no wrapper around other
    tensors.
    """
    if tensor.layout is not torch.strided or tensor.device.type == "meta" or tensor.is_quantized:
        return False
    if getattr(type(tensor), "__tensor_flatten__", None) is not None or tensor.is_nested:
        return False
    return not isinstance(tensor, torch._subclasses.FakeTensor)


def can_be_copied(tensor: torch.Tensor) -> bool:
    """Whether a copy can be computed with: not on the device "meta", not fake, not inside a transform of
    torch.func."""
    if tensor.device.type == "meta" or isinstance(tensor, torch._subclasses.FakeTensor):
        return False
    return not torch._C._functorch.is_functorch_wrapped_tensor(tensor)


def storage_key(tensor: torch.Tensor) -> int:
    """Equal for two living tensors exactly when they share a storage."""
    with torch._C.DisableTorchFunctionSubclass():
        return int(tensor.untyped_storage()._cdata)


def is_compiler_mark(name: object) -> bool:
    """Is this attribute one that Dynamo leaves on tensors and modules? It says nothing about the program."""
    return isinstance(name, str) and name.startswith(_MARKS)


@contextmanager
def without_saved_tensor_hooks() -> Iterator[None]:
    """Tensors that are saved for a backward pass inside are kept as they are: the caller's hooks (those of
    torch.utils.checkpoint run the caller's function once more) are for the caller's own."""
    autograd: Any = torch._C._autograd
    hooks = []
    while (top := autograd._top_saved_tensors_default_hooks(False)) is not None:
        hooks.append(top)
        autograd._pop_saved_tensors_default_hooks()
    try:
        yield
    finally:
        for pack, unpack in reversed(hooks):
            autograd._push_saved_tensors_default_hooks(pack, unpack)
