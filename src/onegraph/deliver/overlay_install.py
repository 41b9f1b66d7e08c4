"""Swap the functions of an overlay into the installed library, in memory, and take them out again.

A file that is imported already is swapped at once: every reference to a function sees it, as the
function object stays and only its code changes. A file that is not imported yet is swapped right after
its import.
"""

from __future__ import annotations

import importlib.abc
import importlib.machinery
import os
import sys
import threading
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import CodeType, ModuleType
from typing import Any

from onegraph.deliver.overlay_file import OverlayRefused, change_of, read_overlay
from onegraph.deliver.place import absolute
from onegraph.deliver.private import private
from onegraph.model import FileChange
from onegraph.rewrite.swap import SwapError, all_functions, code_map
from onegraph.rewrite.workspace import Workspace
from onegraph.torch_private import dynamo

_MISSING = object()
_lock = threading.RLock()


@dataclass(slots=True)
class _Installed:
    """One overlay, and what was done for it, to be undone."""

    overlay: str
    changes: dict[str, FileChange]  # by path
    codes: list[tuple[CodeType, CodeType]] = field(default_factory=list)  # (library's, mended)
    names: list[tuple[dict[str, Any], str, Any]] = field(default_factory=list)  # (module, name, value before)


_installed: dict[str, _Installed] = {}


def install(path: str | os.PathLike[str]) -> None:
    """Swap in the functions of the overlay ``path``, now or when their module is imported.

    Doing it again does nothing.
    Raises ``OverlayRefused``, with nothing changed, when the library is not the one it was made for.
    """
    key = str(absolute(path))
    with _lock:
        changes = {each.path: each for each in (change_of(file, path) for file in read_overlay(path))}
        known = _installed.get(key)
        if known is not None:
            if known.changes == changes:
                return
            uninstall(path)
        _refuse_overlap(changes, key)
        entry = _Installed(key, changes)
        try:
            for change in changes.values():
                if _is_loaded(change.path):
                    _swap(entry, change.path)
        except OverlayRefused:
            _undo(entry)
            raise
        _installed[key] = entry
        if entry.codes:
            dynamo.reset()  # what was compiled before has the library's code in it
        if _hook not in sys.meta_path:
            sys.meta_path.insert(0, _hook)


def uninstall(path: str | os.PathLike[str]) -> None:
    """Give the functions of the overlay ``path`` the library's code again, if it is installed."""
    with _lock:
        entry = _installed.pop(str(absolute(path)), None)
        if entry is not None:
            _undo(entry)
            dynamo.reset()


def _refuse_overlap(changes: dict[str, FileChange], key: str) -> None:
    for other in _installed.values():
        for path in changes.keys() & other.changes.keys():
            shared = set(changes[path].functions) & set(other.changes[path].functions)
            if shared:
                raise OverlayRefused(
                    f"{key}: {', '.join(sorted(shared))} is already mended by {other.overlay}; "
                    "uninstall that overlay first"
                )


# --- swap and undo --------------------------------------------------------------------------------------


def _is_loaded(path: str) -> bool:
    return any(_file_of(module) == path for module in list(sys.modules.values()))


def _file_of(module: Any) -> str | None:
    name = getattr(module, "__file__", None)
    return str(absolute(name)) if isinstance(name, str) else None


def _swap(entry: _Installed, path: str) -> None:
    try:
        codes = code_map(Workspace({path: private(entry.changes[path])}))
    except SwapError as error:
        raise OverlayRefused(
            f"{entry.overlay} can't be installed: {error}. Import it behind the definitions"
        ) from error
    # A reload leaves the functions of the first import behind.
    done = {id(mended) for _, mended in entry.codes}
    pairs = {key: pair for key, pair in codes.pairs.items() if key not in done}
    functions = [each for each in all_functions() if id(each.__code__) in pairs]
    for module in {id(function.__globals__): function.__globals__ for function in functions}.values():
        entry.names += [(module, name, module.get(name, _MISSING)) for name in codes.helpers]
    codes.install_helpers()
    for function in functions:
        function.__code__ = pairs[id(function.__code__)][1]
    entry.codes += pairs.values()


def _undo(entry: _Installed) -> None:
    """Also closures that were made since get the library's code."""
    back = {id(new): old for old, new in entry.codes}
    for each in all_functions():
        if id(each.__code__) in back:
            each.__code__ = back[id(each.__code__)]
    for module, name, before in reversed(entry.names):
        if before is _MISSING:
            module.pop(name, None)
        else:
            module[name] = before


# --- modules that are imported later --------------------------------------------------------------------


class _AfterImport(importlib.abc.MetaPathFinder):
    """Finds nothing itself: has the modules of overlays swapped after their import, and after a reload."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        if not _may_concern(fullname.rpartition(".")[2]):
            return None
        for finder in sys.meta_path:
            if finder is not self and hasattr(finder, "find_spec"):
                spec = finder.find_spec(fullname, path, target)
                if spec is not None:
                    _watch(spec)
                    return spec
        return None


_hook = _AfterImport()


def _concerned(path: str) -> list[_Installed]:
    return [entry for entry in _installed.values() if path in entry.changes]


def _may_concern(stem: str) -> bool:
    """Whether a module of this name can be a file of an overlay: spares every other import the search."""
    paths = [Path(path) for entry in _installed.values() for path in entry.changes]
    return any(stem in (path.stem, path.parent.name) for path in paths)


def _watch(spec: importlib.machinery.ModuleSpec) -> None:
    if not spec.origin or not _concerned(path := str(absolute(spec.origin))) or spec.loader is None:
        return
    loader: Any = spec.loader
    execute = loader.exec_module

    def exec_module(module: ModuleType) -> None:
        loader.exec_module = execute
        execute(module)
        with _lock:
            for entry in _concerned(path):
                _swap(entry, path)

    loader.exec_module = exec_module
