"""Take a picture of everything that a program's run can change, and put it back."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import torch

from onegraph.model import Program
from onegraph.state.files import SavedFiles
from onegraph.state.patience import Patience
from onegraph.state.reach import Reach
from onegraph.state.saved import (
    MISSING,
    Saved,
    SavedArray,
    SavedBinding,
    SavedCache,
    SavedCell,
    SavedContainer,
    SavedGenerator,
    SavedProcess,
    SavedSlot,
    SavedStorage,
    SavedTensor,
    save_tensors,
)


class World:
    """What a call of ``program`` can change: module state, closures, globals, random streams, caches.

    Restoring is in place: the same modules, tensors, lists and dicts hold the old values again, so
    references from elsewhere stay valid, and so do files that the run opens for writing. Not put back: iterators,
    files that were open before, and state inside C extensions.
    """

    def __init__(self, program: Program) -> None:
        self.program = program
        self.patience = Patience()
        self.modules: tuple[torch.nn.Module, ...] = ()
        self._saved: list[Saved] | None = None
        self._tensors: list[SavedTensor] = []
        self._storages: list[SavedStorage] = []
        self._caches: list[SavedCache] = []

    def snapshot(self, *others: Reach) -> None:
        """Remember everything as it is now (one copy of all tensors found; snapshots alive together share
        it).

        ``others`` are walks made while the program ran other texts, which may touch more.
        """
        reach = Reach(self.program)
        for other in others:
            reach.add(other)
        self.modules = tuple(reach.modules)
        self._storages, self._tensors = save_tensors(reach.tensors)
        self._caches = [SavedCache(cache) for cache in reach.lru_caches]
        self._saved = [
            *(SavedContainer(*found) for found in reach.containers),
            *(SavedBinding(*found) for found in reach.bindings),
            *(SavedSlot(*found) for found in reach.slots),
            *(SavedCell(*found) for found in reach.cells),
            *(SavedArray(*found) for found in reach.arrays),
            *(SavedGenerator(*found) for found in reach.generators),
            *self._tensors,
            SavedFiles(),
            SavedProcess(),
        ]

    def restore(self) -> None:
        """Put everything back as it was at the snapshot. Raises RuntimeError without a snapshot."""
        for saved in self._all():
            saved.restore()
        for storage in self._storages:
            storage.restore()
        for cache in self._caches:
            cache.restore()

    def changes(self) -> dict[str, Any]:
        """What differs from the snapshot now: path -> live value; ``DELETED`` for a name that is gone."""
        found: dict[str, Any] = {}
        for saved in self._all():
            for path, value in saved.changes():
                found[_unused(path, found)] = DELETED if value is MISSING else value
        return dict(sorted(found.items()))

    def created(self) -> frozenset[str]:
        """The paths among ``changes()`` that hold nothing at the snapshot: attributes that the run made."""
        containers = (saved for saved in self._all() if isinstance(saved, SavedContainer))
        return frozenset(path for saved in containers for path in saved.created())

    def leaves(self) -> dict[str, torch.Tensor]:
        """The tensors outside the arguments that a gradient can reach: parameters and leaves in closures,
        globals.
        """
        return {
            path: tensor for path, tensor in self.tensors().items() if tensor.is_leaf and tensor.requires_grad
        }

    def tensors(self) -> dict[str, torch.Tensor]:
        """Every tensor found, by path."""
        self._all()
        found: dict[str, torch.Tensor] = {}
        for saved in self._tensors:
            found[_unused(saved.path, found)] = saved.tensor
        return found

    def _all(self) -> list[Saved]:
        if self._saved is None:
            raise RuntimeError("World.restore(), changes() and leaves() need a snapshot() first")
        return self._saved


DELETED = "<deleted>"


def _unused(path: str, taken: Mapping[str, Any]) -> str:
    """Two objects of a walk can have one path ("item of a set"): the second is ``path#2``."""
    number, name = 1, path
    while name in taken:
        number += 1
        name = f"{path}#{number}"
    return name


@contextmanager
def preserved(program: Program) -> Iterator[World]:
    """Run anything inside; afterwards everything that ``program`` can change is as before, also after an
    exception.
    """
    world = World(program)
    world.snapshot()
    try:
        yield world
    finally:
        world.restore()
