"""Copies of arguments and results: what is one tensor, or one memory, stays one in the copy."""

from __future__ import annotations

import copy
import dataclasses
import functools
import types
from collections import OrderedDict, defaultdict, deque
from collections.abc import Callable
from typing import Any

import torch

from onegraph.model import Call
from onegraph.torch_private.tensors import has_plain_storage, storage_key

_SHARED = (
    torch.nn.Module,
    type,
    types.ModuleType,
    types.FunctionType,
    types.BuiltinFunctionType,
    types.MethodType,
    functools.partial,
    torch.Generator,
)
_ATOMS = (type(None), bool, int, float, complex, str, bytes, torch.dtype, torch.device, torch.Size)


def copy_call(call: Call) -> Call:
    """The call with its own tensors and containers.

    Shapes, strides, dtypes, devices, ``requires_grad`` (as new leaves), ``.grad``, memory shared between
    arguments, and marks set on tensors (``mark_dynamic``) are kept. Modules, functions and generators are
    passed as they are, and so is an object that can't be copied (an open file).
    """
    copier = Copier()
    return Call(
        tuple(copier.copy(value) for value in call.args),
        {name: copier.copy(value) for name, value in call.kwargs.items()},
    )


def map_tensors(call: Call, change: Callable[[torch.Tensor], torch.Tensor]) -> Call:
    """A copy of the call with every tensor replaced by ``change(tensor)``."""
    copier = _Mapper(change)
    return Call(
        tuple(copier.copy(value) for value in call.args),
        {name: copier.copy(value) for name, value in call.kwargs.items()},
    )


def freeze(value: Any) -> Any:
    """A picture of a result: tensors detached and cloned (``requires_grad`` still tells), containers
    copied.
    """
    return Copier().copy(value)


class Copier:
    """Copies values that belong together: one memo, so that an object met twice is one object in the copy."""

    def __init__(self) -> None:
        self._memo: dict[int, Any] = {}
        self._alive: list[Any] = []  # an id stays taken while we copy
        self._storages: dict[int, torch.UntypedStorage] = {}

    def copy(self, value: Any) -> Any:
        """The copy of ``value``; the same copy for the same object."""
        if type(value) in _ATOMS or isinstance(value, _SHARED):
            return value
        if id(value) not in self._memo:
            self._alive.append(value)
            self._memo[id(value)] = self._new(value)
        return self._memo[id(value)]

    def _new(self, value: Any) -> Any:
        if isinstance(value, torch.Tensor):
            return self._tensor(value)
        if isinstance(value, dict):
            return self._dict(value)
        if isinstance(value, (list, deque, set)):
            return self._mutable(value)
        if isinstance(value, (tuple, frozenset)):
            return self._immutable(value)
        if _is_plain_object(value):
            return self._object(value)
        try:
            return copy.deepcopy(value, self._memo)
        except (TypeError, ValueError, RuntimeError, NotImplementedError, AttributeError, copy.Error):
            return value  # locks, files, generators: the run gets the real one

    def _tensor(self, tensor: torch.Tensor) -> torch.Tensor:
        source = tensor.detach()
        if has_plain_storage(tensor) and type(tensor) in (torch.Tensor, torch.nn.Parameter):
            key = storage_key(source)
            if key not in self._storages:
                self._storages[key] = source.untyped_storage().clone()  # type: ignore[no-untyped-call]
            storage = self._storages[key]
            fresh = torch.empty(0, dtype=source.dtype, device=source.device)
            made = fresh.set_(storage, source.storage_offset(), source.shape, source.stride())
            if source.is_conj() or source.is_neg():
                made = source.clone()
        else:
            made = source.clone()
        if isinstance(tensor, torch.nn.Parameter) and type(tensor) is torch.nn.Parameter:
            made = torch.nn.Parameter(made, requires_grad=tensor.requires_grad)
        elif tensor.requires_grad:
            made.requires_grad_()
        self._memo[id(tensor)] = made
        if tensor.is_leaf and tensor.grad is not None:
            made.grad = self.copy(tensor.grad)
        for name, mark in vars(tensor).items() if hasattr(tensor, "__dict__") else ():
            setattr(made, name, copy.copy(mark) if isinstance(mark, (set, dict, list)) else mark)
        return made

    def _dict(self, value: dict[Any, Any]) -> Any:
        """Of any dict class: ``ModelOutput``, ``OrderedDict``, ``defaultdict``, a user's own."""
        if isinstance(value, defaultdict):
            made: Any = type(value)(value.default_factory)
        else:
            made = _empty(type(value))
        self._memo[id(value)] = made
        base: Any = OrderedDict if isinstance(value, OrderedDict) else dict
        for key, item in dict.items(value):
            base.__setitem__(made, self.copy(key), self.copy(item))
        return self._fill(value, made)

    def _mutable(self, value: Any) -> Any:
        made = _empty(type(value))
        if isinstance(value, deque):
            deque.__init__(made, (), value.maxlen)
        self._memo[id(value)] = made
        add: Callable[[Any, Any], None] = (
            set.add if isinstance(value, set) else deque.append if isinstance(value, deque) else list.append
        )
        for item in value:
            add(made, self.copy(item))
        return self._fill(value, made)

    def _immutable(self, value: Any) -> Any:
        items = [self.copy(item) for item in value]
        if type(value) in (tuple, frozenset):
            return type(value)(items)
        if hasattr(value, "_fields"):
            return self._fill(value, type(value)._make(items))
        try:
            return type(value)(items)  # torch.return_types.max and other struct sequences
        except TypeError:
            return value

    def _object(self, value: Any) -> Any:
        made = object.__new__(type(value))
        self._memo[id(value)] = made
        return self._fill(value, made)

    def _fill(self, value: Any, made: Any) -> Any:
        """Attributes in ``__dict__`` and slots."""
        for name, item in getattr(value, "__dict__", {}).items():
            made.__dict__[name] = self.copy(item)
        for kind in type(value).__mro__:
            for name, member in vars(kind).items():
                if isinstance(member, types.MemberDescriptorType) and hasattr(value, name):
                    object.__setattr__(made, name, self.copy(getattr(value, name)))
        return made


class _Mapper(Copier):
    def __init__(self, change: Callable[[torch.Tensor], torch.Tensor]) -> None:
        super().__init__()
        self._change = change

    def _tensor(self, tensor: torch.Tensor) -> torch.Tensor:
        return self._change(tensor)


def _empty(kind: Any) -> Any:
    return kind.__new__(kind)


def _is_plain_object(value: Any) -> bool:
    """An instance of a Python class that says nothing about how to copy it."""
    kind = type(value)
    if dataclasses.is_dataclass(value):
        return True
    own_ways = (
        "__deepcopy__",
        "__copy__",
        "__reduce__",
        "__reduce_ex__",
        "__getstate__",
        "__getnewargs__",
        "__new__",
    )
    if any(getattr(kind, name, None) is not getattr(object, name, None) for name in own_ways):
        return False
    return hasattr(value, "__dict__")
