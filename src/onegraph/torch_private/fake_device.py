"""An accelerator that isn't there: tensors with shapes, dtypes and a device of their own, and no memory.

A build of torch without CUDA aborts on fake CUDA tensors that require grad; a backend that is registered from
Python does not, forward and backward (tried on torch 2.13). It can be registered once in a process.
"""

from __future__ import annotations

import copy
from contextlib import AbstractContextManager
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode
from torch.fx.experimental.symbolic_shapes import ShapeEnv
from torch.utils.backend_registration import _setup_privateuseone_for_python_backend

from onegraph.model import Call

NAME = "fakegpu"


class FakeDevice:
    """Moves programs to the fake accelerator. Raises RuntimeError where another backend took the place."""

    def __init__(self) -> None:
        if torch._C._get_privateuse1_backend_name() != NAME:
            _setup_privateuseone_for_python_backend(NAME)
        self._mode = FakeTensorMode(shape_env=ShapeEnv(), allow_non_fake_inputs=True)

    def active(self) -> AbstractContextManager[Any]:
        return self._mode

    def tensor(self, tensor: torch.Tensor) -> torch.Tensor:
        """The same shape, strides and dtype, on the fake device."""
        empty = torch.empty_strided(tensor.shape, tensor.stride(), dtype=tensor.dtype, device="meta")
        made = FakeTensor(self._mode, empty, torch.device(f"{NAME}:0"))
        return made.requires_grad_(tensor.requires_grad) if tensor.requires_grad else made

    def module(self, module: torch.nn.Module) -> torch.nn.Module:
        """A copy with parameters and buffers on the fake device; the original is untouched."""
        memo: dict[int, Any] = {}
        for tensor in (*module.parameters(), *module.buffers()):
            fake = self.tensor(tensor.detach())
            if isinstance(tensor, torch.nn.Parameter):
                fake = torch.nn.Parameter(fake, requires_grad=tensor.requires_grad)
            memo[id(tensor)] = fake
        return copy.deepcopy(module, memo)

    def call(self, call: Call) -> Call:
        """The call with its tensors on the fake device."""
        from torch.utils import _pytree as pytree

        def move(value: Any) -> Any:
            return self.tensor(value) if isinstance(value, torch.Tensor) else value

        return Call(pytree.tree_map(move, call.args), pytree.tree_map(move, dict(call.kwargs)))
