"""What one place held at the moment of a snapshot, and how to put it back into the same object."""

from __future__ import annotations

import gc
import random
import sys
import types
import weakref
from collections import OrderedDict, deque
from collections.abc import Iterator
from typing import Any, Protocol

import torch

from onegraph.torch_private.tensors import has_plain_storage, is_compiler_mark, storage_key

MISSING: Any = object()


class Saved(Protocol):
    """One place. ``changes`` gives (path, value now) of what differs; a deleted name has the value
    MISSING.
    """

    def changes(self) -> Iterator[tuple[str, Any]]: ...

    def restore(self) -> None: ...


class SavedContainer:
    """A dict, list, set, deque or bytearray: its items, by identity."""

    def __init__(self, container: Any, path: str) -> None:
        self.container = container
        self.path = path
        self.items = _items(container)

    def changes(self) -> Iterator[tuple[str, Any]]:
        now = _items(self.container)
        if _same(now, self.items):
            return
        if not isinstance(self.container, dict):
            yield self.path, self.container
            return
        before, after = dict(self.items), dict(now)
        for key in before.keys() | after.keys():
            value = after.get(key, MISSING)
            if not is_compiler_mark(key) and not _unchanged(value, before.get(key, MISSING)):
                yield f"{self.path}.{key}" if isinstance(key, str) else f"{self.path}[{key!r}]", value

    def created(self) -> Iterator[str]:
        """Paths of names that were not there before: attributes that the run made."""
        if isinstance(self.container, dict):
            before = {key for key, _ in self.items}
            new = (key for key, _ in _items(self.container) if key not in before and isinstance(key, str))
            yield from (f"{self.path}.{key}" for key in new)

    def restore(self) -> None:
        if _same(_items(self.container), self.items):
            return
        container, items = self.container, self.items
        if isinstance(container, dict):
            base: Any = OrderedDict if isinstance(container, OrderedDict) else dict
            base.clear(container)
            for key, value in items:
                base.__setitem__(container, key, value)
        elif isinstance(container, list):
            list.__setitem__(container, slice(None), items)
        elif isinstance(container, bytearray):
            container[:] = bytes(items)
        elif isinstance(container, deque):
            deque.clear(container)
            deque.extend(container, items)
        else:
            set.clear(container)
            set.update(container, items)


class SavedBinding:
    """A name in a module's globals or in a class."""

    def __init__(self, namespace: dict[str, Any] | type, name: str, path: str) -> None:
        self.namespace = namespace
        self.name = name
        self.path = path
        self.value = self._now()

    def _now(self) -> Any:
        names = self.namespace if isinstance(self.namespace, dict) else vars(self.namespace)
        return names.get(self.name, MISSING)

    def changes(self) -> Iterator[tuple[str, Any]]:
        if not _unchanged(self._now(), self.value):
            yield self.path, self._now()

    def restore(self) -> None:
        if self._now() is self.value:
            return
        if isinstance(self.namespace, dict):
            if self.value is MISSING:
                del self.namespace[self.name]
            else:
                self.namespace[self.name] = self.value
        elif self.value is MISSING:
            delattr(self.namespace, self.name)
        else:
            setattr(self.namespace, self.name, self.value)


class SavedSlot:
    """An attribute of an object with ``__slots__``."""

    def __init__(self, owner: Any, name: str, path: str) -> None:
        self.owner = owner
        self.name = name
        self.path = path
        self.value = getattr(owner, name, MISSING)

    def changes(self) -> Iterator[tuple[str, Any]]:
        now = getattr(self.owner, self.name, MISSING)
        if not _unchanged(now, self.value):
            yield self.path, now

    def restore(self) -> None:
        now = getattr(self.owner, self.name, MISSING)
        if now is self.value:
            return
        if self.value is MISSING:
            object.__delattr__(self.owner, self.name)
        else:
            object.__setattr__(self.owner, self.name, self.value)  # frozen dataclasses have slots too


class SavedCell:
    """A closure cell: the variable that ``nonlocal`` rebinds."""

    def __init__(self, cell: types.CellType, path: str) -> None:
        self.cell = cell
        self.path = path
        self.value = _contents(cell)

    def changes(self) -> Iterator[tuple[str, Any]]:
        if not _unchanged(_contents(self.cell), self.value):
            yield self.path, _contents(self.cell)

    def restore(self) -> None:
        if _contents(self.cell) is self.value:
            return
        if self.value is MISSING:
            del self.cell.cell_contents
        else:
            self.cell.cell_contents = self.value


class StorageCopy:
    """The bytes of one storage."""

    def __init__(self, live: torch.Tensor) -> None:
        self.copy = live.clone()


# Snapshots that live at the same time share their copies, so that a model is never held more than once over.
_copies: weakref.WeakValueDictionary[tuple[int, int], StorageCopy] = weakref.WeakValueDictionary()


class SavedStorage:
    """The memory that one or several tensors look at; compared and put back byte for byte."""

    def __init__(self, tensor: torch.Tensor) -> None:
        self.storage = tensor.untyped_storage()
        self.nbytes = self.storage.nbytes()
        key = (storage_key(tensor), self.nbytes)
        live = self._bytes()
        shared = _copies.get(key)
        if shared is None or not torch.equal(shared.copy, live):
            shared = _copies[key] = StorageCopy(live)
        self.saved = shared

    def _bytes(self) -> torch.Tensor:
        return torch.empty(0, dtype=torch.uint8, device=self.storage.device).set_(self.storage)

    def changed(self) -> bool:
        return self.storage.nbytes() != self.nbytes or not torch.equal(self._bytes(), self.saved.copy)

    def restore(self) -> None:
        if self.storage.nbytes() != self.nbytes:
            self.storage.resize_(self.nbytes)
        if self.changed():
            self._bytes().copy_(self.saved.copy)


class SavedTensor:
    """A tensor object: which memory it looks at and how, ``requires_grad``, ``.grad``; bytes are in
    ``storage``.
    """

    def __init__(self, tensor: torch.Tensor, path: str, storage: SavedStorage | None) -> None:
        self.tensor = tensor
        self.path = path
        self.storage = storage
        self.copy = None if storage is not None or tensor.device.type == "meta" else tensor.detach().clone()
        self.view = tensor.detach()
        self.is_leaf = tensor.is_leaf
        self.requires_grad = tensor.requires_grad
        self.grad = tensor.grad if tensor.is_leaf else None

    def _moved(self) -> bool:
        """Whether ``.data`` was assigned, or the tensor was resized or ``set_`` to other memory."""
        if self.storage is None:
            return False
        now = self.tensor.detach()
        return (
            storage_key(now) != storage_key(self.view)
            or (now.dtype, now.shape, now.stride()) != (self.view.dtype, self.view.shape, self.view.stride())
            or now.storage_offset() != self.view.storage_offset()
        )

    def changes(self) -> Iterator[tuple[str, Any]]:
        if self.storage is not None:
            changed = self._moved() or self.storage.changed()
        else:
            changed = self.copy is not None and not _equal(self.tensor.detach(), self.copy)
        if changed or self.tensor.requires_grad != self.requires_grad:
            yield self.path, self.tensor
        if self.tensor.is_leaf and self.tensor.grad is not self.grad:
            yield f"{self.path}.grad", self.tensor.grad

    def restore(self) -> None:
        with torch.no_grad():
            if not self.tensor.is_leaf and self.is_leaf:
                self.tensor.detach_()
            if self._moved():
                self.tensor.data = self.view
            if self.copy is not None and not _equal(self.tensor.detach(), self.copy):
                self.tensor.detach().copy_(self.copy)
        if self.is_leaf:
            if self.tensor.requires_grad != self.requires_grad:
                self.tensor.requires_grad_(self.requires_grad)
            if self.tensor.grad is not self.grad:
                self.tensor.grad = self.grad


class SavedArray:
    """A numpy array."""

    def __init__(self, array: Any, path: str) -> None:
        self.array = array
        self.path = path
        self.copy = array.copy()

    def changes(self) -> Iterator[tuple[str, Any]]:
        if self.array.tobytes() != self.copy.tobytes():
            yield self.path, self.array

    def restore(self) -> None:
        if self.array.tobytes() != self.copy.tobytes():
            self.array[...] = self.copy


class SavedGenerator:
    """A random generator object of torch, ``random`` or numpy that the program holds."""

    def __init__(self, generator: Any, path: str) -> None:
        self.generator = generator
        self.path = path
        self.state = self._now()

    def _now(self) -> Any:
        if isinstance(self.generator, torch.Generator):
            return self.generator.get_state()
        if isinstance(self.generator, random.Random):
            return self.generator.getstate()
        if hasattr(self.generator, "bit_generator"):
            return self.generator.bit_generator.state
        return self.generator.get_state(legacy=False)

    def changes(self) -> Iterator[tuple[str, Any]]:
        now = self._now()
        if not same_random_state(now, self.state):
            yield self.path, now

    def restore(self) -> None:
        if isinstance(self.generator, torch.Generator):
            self.generator.set_state(self.state)
        elif isinstance(self.generator, random.Random):
            self.generator.setstate(self.state)
        elif hasattr(self.generator, "bit_generator"):
            self.generator.bit_generator.state = self.state
        else:
            self.generator.set_state(self.state)


class SavedCache:
    """A ``functools.lru_cache``: entries that a run added are taken out again (hit counts are not put back).

    An empty cache is cleared. From one that held entries, the new ones are deleted from the dict inside,
    which only the garbage collector shows; CPython's cache allows for entries that vanish.
    """

    def __init__(self, cache: Any) -> None:
        self.cache = cache
        self.info = cache.cache_info()
        entries = _cache_entries(cache) if self.info.currsize else None
        self.keys = set(map(id, entries)) if entries is not None else set()
        self.kept = list(entries) if entries is not None else []  # so that no id is used twice

    def changes(self) -> Iterator[tuple[str, Any]]:
        return iter(())  # Dynamo looks through a cache and never fills it: not an effect to compare

    def restore(self) -> None:
        if self.cache.cache_info().misses == self.info.misses:
            return
        if not self.info.currsize:
            self.cache.cache_clear()
            return
        entries = _cache_entries(self.cache)
        if entries is not None:
            for key in [key for key in entries if id(key) not in self.keys]:
                del entries[key]


class SavedProcess:
    """Global random streams (torch CPU and CUDA, ``random``, numpy) and torch's global modes."""

    def __init__(self) -> None:
        self.random = random_state()
        self.grad_mode = torch.is_grad_enabled()
        self.dtype = torch.get_default_dtype()

    def changes(self) -> Iterator[tuple[str, Any]]:
        if torch.is_grad_enabled() != self.grad_mode:
            yield "torch.is_grad_enabled()", torch.is_grad_enabled()
        if torch.get_default_dtype() != self.dtype:
            yield "torch.get_default_dtype()", torch.get_default_dtype()

    def restore(self) -> None:
        set_random_state(self.random)
        if torch.is_grad_enabled() != self.grad_mode:
            torch.set_grad_enabled(self.grad_mode)
        if torch.get_default_dtype() != self.dtype:
            torch.set_default_dtype(self.dtype)


def random_state() -> dict[str, Any]:
    """The state of every global random stream in use, by name: "torch", "cuda", "random", "numpy"."""
    state: dict[str, Any] = {"torch": torch.get_rng_state(), "random": random.getstate()}
    if torch.cuda.is_initialized():  # type: ignore[no-untyped-call]
        state["cuda"] = torch.cuda.get_rng_state_all()
    if "numpy" in sys.modules:
        state["numpy"] = sys.modules["numpy"].random.get_state()
    return state


def same_random_state(one: Any, other: Any) -> bool:
    """Whether two states of a generator of torch, ``random`` or numpy are equal."""
    if isinstance(one, torch.Tensor):
        return torch.equal(one, other)
    if hasattr(one, "tobytes"):
        return bool(one.tobytes() == other.tobytes())
    if isinstance(one, (list, tuple)):
        return len(one) == len(other) and all(map(same_random_state, one, other))
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(same_random_state(one[key], other[key]) for key in one)
    return bool(one == other)


def set_random_state(state: dict[str, Any]) -> None:
    """Put back what ``random_state`` gave."""
    torch.set_rng_state(state["torch"])
    random.setstate(state["random"])
    if "cuda" in state:
        torch.cuda.set_rng_state_all(state["cuda"])
    if "numpy" in state:
        sys.modules["numpy"].random.set_state(state["numpy"])


def save_tensors(tensors: list[tuple[torch.Tensor, str]]) -> tuple[list[SavedStorage], list[SavedTensor]]:
    """Tensors that share memory share one copy of it."""
    storages: dict[int, SavedStorage] = {}
    saved = []
    for tensor, path in tensors:
        storage = None
        if has_plain_storage(tensor):
            key = storage_key(tensor)
            if key not in storages:
                storages[key] = SavedStorage(tensor.detach())
            storage = storages[key]
        saved.append(SavedTensor(tensor, path, storage))
    return list(storages.values()), saved


def _items(container: Any) -> list[Any]:
    if isinstance(container, dict):
        return list(dict.items(container))
    if isinstance(container, (set, frozenset)):
        return sorted(container, key=id)
    return list(container)


def _same(now: list[Any], before: list[Any]) -> bool:
    return len(now) == len(before) and all(map(_unchanged, now, before))


def _unchanged(now: Any, before: Any) -> bool:
    """The same object, an equal Python constant, or a copy of a tensor; an item of a dict is a (key, value) pair.

    A name that is bound anew to a tensor with the same content (a buffer that is registered again) is as it was for
    whoever reads it. What happens to the old object is seen where that object is saved.
    """
    if now is before:
        return True
    if type(now) is not type(before):
        return False
    if isinstance(now, torch.Tensor):
        return has_plain_storage(now) and has_plain_storage(before) and _same_content(now, before)
    if type(now) is tuple:
        return len(now) == len(before) and all(map(_unchanged, now, before))
    return type(now) in (bool, int, float, complex, str, bytes) and repr(now) == repr(before)


def _same_content(now: torch.Tensor, before: torch.Tensor) -> bool:
    told = [(t.shape, t.dtype, t.device, t.layout, t.requires_grad, t.grad_fn is None) for t in (now, before)]
    if told[0] != told[1] or now.device.type == "meta":
        return False
    now, before = now.detach(), before.detach()
    return bool(((now == before) | ((now != now) & (before != before))).all())


def _contents(cell: types.CellType) -> Any:
    try:
        return cell.cell_contents
    except ValueError:
        return MISSING


def _equal(now: torch.Tensor, before: torch.Tensor) -> bool:
    if now.layout is not torch.strided or before.layout is not torch.strided:
        return now.shape == before.shape and torch.equal(now.to_dense(), before.to_dense())
    return now.shape == before.shape and torch.equal(now, before)


def _cache_entries(cache: Any) -> dict[Any, Any] | None:
    own = getattr(cache, "__dict__", None)
    found = [item for item in gc.get_referents(cache) if type(item) is dict and item is not own]
    return found[0] if len(found) == 1 else None
