"""Run the mended program in this process: live functions take the code of the mended text, and get
theirs back.

``swapped`` changes ``fn.__code__`` in place, so that every reference to the function (imported names,
closures, bound methods, wrappers) runs the mended code, eager and compiled. ``code_map`` gives the same
pairs to whoever substitutes code only while Dynamo traces.
"""

from __future__ import annotations

import gc
import linecache
import sys
import weakref
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from itertools import compress, repeat
from operator import attrgetter, is_
from types import CodeType, FunctionType
from typing import Any

from onegraph.model import FileChange
from onegraph.rewrite import source, text
from onegraph.rewrite.pairing import (
    CodePair,
    Helper,
    Instrument,
    Lines,
    Pairs,
    SwapError,
    pair,
    real_path,
    user_lines,
    virtual_path,
)
from onegraph.rewrite.workspace import Workspace
from onegraph.torch_private import dynamo

__all__ = [
    "CodeMap",
    "SwapError",
    "all_functions",
    "code_map",
    "real_path",
    "remembering",
    "search_anew",
    "swapped",
    "user_lines",
    "virtual_path",
]

_ABSENT = object()
_active = False


@contextmanager
def swapped(
    workspace: Workspace,
    *,
    instrument: Mapping[str, Instrument] | None = None,
    inject: Mapping[str, Any] | None = None,
    lines: Lines = "current",
    reset: bool = True,
) -> Iterator[None]:
    """While active, the program runs the current texts of the workspace.

    ``instrument`` maps a path to a change of its tree, made inside functions before compiling;
    ``inject`` puts names into the modules of those files. With ``lines="current"`` the code has the file
    name ``<onegraph>/real/path.py`` and the lines of the current text (``linecache`` knows it); with
    ``"user"`` the real file name and the user's lines. ``reset=False`` leaves Dynamo's caches alone: for
    runs that compile nothing.

    Raises SwapError when a changed function can't be swapped (then nothing was changed), or when swaps
    are nested.
    """
    global _active
    if _active:
        raise SwapError("a swap is active already; swaps don't nest")
    instrument = instrument or {}
    files = _pairs(workspace, lines, instrument)
    live = _live(files)
    with ExitStack() as stack:
        _active = True
        stack.callback(_deactivate)
        if reset:
            stack.callback(dynamo.reset)
        for path, file in files.items():
            _show(file)
            for module in _modules(path, live[path]):
                _execute_helpers(file.helpers, module, stack)
                if path in instrument:
                    _bind(module, dict(inject or {}), stack)
        codes = _swap(files, live, stack)
        stack.callback(_take_back, codes, _counts(codes))
        if reset:
            dynamo.reset()
        yield


def _deactivate() -> None:
    global _active
    _active = False


def _pairs(workspace: Workspace, lines: Lines, instrument: Mapping[str, Instrument]) -> dict[str, Pairs]:
    changes = {change.path: change for change in workspace.changes()}
    for path in instrument:
        if path not in changes:
            changes[path] = FileChange(path, workspace.original(path), workspace.current(path), ())
    return {path: pair(change, lines, instrument.get(path)) for path, change in changes.items()}


# --- the live functions ---------------------------------------------------------------------------


def _live(files: Mapping[str, Pairs]) -> dict[str, list[FunctionType]]:
    """The function objects of each file. Raises SwapError when a changed function is nowhere to be
    found."""
    found = _remembered(files) or _searched(files)
    for path, file in files.items():
        names = {code.co_qualname for fn in found[path] for code in _with_inner(fn.__code__)}
        for name in file.change.functions:
            if name not in names:
                raise SwapError(f"{name} of {path} is not loaded in this process")
    return found


def _searched(files: Iterable[str]) -> dict[str, list[FunctionType]]:
    """By a search through all objects of the process."""
    found: dict[str, list[FunctionType]] = {path: [] for path in files}
    if found:
        functions = list(all_functions())
        files_of = list(map(attrgetter("__code__.co_filename"), functions))
        ours = {name for name in set(files_of) if source.absolute(name) in found}
        for function in compress(functions, map(ours.__contains__, files_of)):
            found[source.absolute(function.__code__.co_filename)].append(function)
        if _memory is not None and _counts_tell():
            for path, each in found.items():
                _memory[path] = _Known(each)
    return found


class _Known:
    """The functions of a file as they were found. None has come since while the reference counts of their code are
    the same, and none has gone.
    """

    def __init__(self, functions: Sequence[FunctionType]) -> None:
        self._functions = [weakref.ref(function) for function in functions]
        found = [code for function in functions for code in _with_inner(function.__code__)]
        self._codes = list({id(code): code for code in found}.values())
        del found  # or it would count
        self._counts = self._count()

    def functions(self) -> list[FunctionType] | None:
        """None where they must be searched for again."""
        alive = [function for ref in self._functions if (function := ref()) is not None]
        return alive if len(alive) == len(self._functions) and self._count() == self._counts else None

    def _count(self) -> list[int]:
        return [sys.getrefcount(code) for code in self._codes]


_memory: dict[str, _Known] | None = None  # by file, inside ``remembering``


@contextmanager
def remembering() -> Iterator[None]:
    """Functions that were found once are not searched for again inside, until ``search_anew``. For many swaps of the
    same files: a search goes through all objects of the process.
    """
    global _memory
    before, _memory = _memory, {}
    try:
        yield
    finally:
        _memory = before


def search_anew() -> None:
    """Forget the functions that were found: what was loaded meanwhile from the same files is found as well."""
    if _memory is not None:
        _memory.clear()


def _remembered(files: Iterable[str]) -> dict[str, list[FunctionType]] | None:
    found = {}
    for path in files:
        known = _memory.get(path) if _memory is not None else None
        functions = known.functions() if known is not None else None
        if functions is None:
            return None
        found[path] = functions
    return found


def _counts_tell() -> bool:
    """Without the GIL the reference counts of code objects tell nothing."""
    return bool(getattr(sys, "_is_gil_enabled", lambda: True)())


def all_functions() -> Iterator[FunctionType]:
    """Every function object of the process, without a loop in Python over all its objects."""
    things = gc.get_objects()
    found: Iterator[FunctionType] = compress(things, map(is_, map(type, things), repeat(FunctionType)))
    return found


def _with_inner(code: CodeType) -> Iterator[CodeType]:
    yield code
    yield from source.code_objects(code)


def _swap(
    files: Mapping[str, Pairs], live: Mapping[str, list[FunctionType]], stack: ExitStack
) -> dict[int, CodePair]:
    """Returns the pairs of code, that of nested functions too, by id of the new code."""
    codes: dict[int, CodePair] = {}
    for path, file in files.items():
        wanted = _wanted(file)
        for function in live[path]:
            old = function.__code__
            new = file.new(old) if wanted is None or _root(old.co_qualname) in wanted else None
            if new is not None:
                stack.callback(setattr, function, "__code__", old)
                function.__code__ = new
                codes.update((id(pair[1]), pair) for pair in [(old, new), *_inner_pairs(file, old)])
    return codes


def _take_back(codes: Mapping[int, CodePair], counts: list[int]) -> None:
    """Functions that were made while the swap was active (closures, copies of a function) get the loaded code
    too. Whether there are any, the reference counts of their code tell.
    """
    if _counts(codes) == counts and _counts_tell():
        return
    for function in all_functions():
        if id(function.__code__) in codes:
            function.__code__ = codes[id(function.__code__)][0]


def _counts(codes: Mapping[int, CodePair]) -> list[int]:
    return [sys.getrefcount(pair[1]) for pair in codes.values()]


def _inner_pairs(file: Pairs, old: CodeType) -> Iterator[CodePair]:
    for inner in source.code_objects(old):
        new = file.new(inner)
        if new is not None:
            yield inner, new


def _wanted(file: Pairs) -> set[str] | None:
    """The outermost functions to swap; None for all. With the current text's lines all functions of the
    file are swapped, so that every position in it is one of the current text."""
    return None if file.filename != file.change.path else {_root(name) for name in file.change.functions}


def _root(qualname: str) -> str:
    return qualname.partition(".<locals>")[0]


def _show(file: Pairs) -> None:
    """Let tracebacks and Dynamo read the current text under its own name."""
    if file.filename != file.change.path:
        rows = list(text.lines(file.change.mended.replace("\r\n", "\n").replace("\r", "\n")))
        linecache.cache[file.filename] = (len(file.change.mended), None, rows, file.filename)


# --- what the text adds to its module -------------------------------------------------------------


def _modules(path: str, live: Iterable[FunctionType]) -> Iterator[dict[str, Any]]:
    """The global namespaces that functions of one file live in."""
    seen: dict[int, dict[str, Any]] = {id(fn.__globals__): fn.__globals__ for fn in live}
    yield from seen.values()


_executed: dict[
    tuple[int, str], tuple[str, Any]
] = {}  # (namespace, name) -> text that made it, and its value
_actions: dict[int, set[str]] = {}  # namespace -> texts of statements that bind nothing and were executed


def _execute_helpers(helpers: tuple[Helper, ...], module: dict[str, Any], stack: ExitStack) -> None:
    fresh: set[str] = set()
    for helper in helpers:
        key = id(module)
        known = {name: _executed.get((key, name), ("", None)) for name in helper.names}
        done = helper.words in _actions.setdefault(key, set()) and all(
            w == helper.words for w, _ in known.values()
        )
        if helper.registers and done and not helper.reads & fresh:
            _bind(module, {name: value for name, (_, value) in known.items()}, stack)
            continue
        for name in helper.names:
            _restore_later(module, name, stack)
        exec(helper.code, module)
        fresh |= helper.names
        _actions[key].add(helper.words)
        for name in helper.names:
            _executed[key, name] = (helper.words, module.get(name))


def _bind(module: dict[str, Any], values: Mapping[str, Any], stack: ExitStack) -> None:
    for name, value in values.items():
        _restore_later(module, name, stack)
        module[name] = value


def _restore_later(module: dict[str, Any], name: str, stack: ExitStack) -> None:
    before = module.get(name, _ABSENT)

    def restore() -> None:
        if before is _ABSENT:
            module.pop(name, None)
        else:
            module[name] = before

    stack.callback(restore)


# --- for substitution while tracing ---------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class CodeMap:
    """Loaded code objects and the mended code for each. Look up by identity: equal code of two files is
    not the same.

    ``helpers`` are the names that :meth:`install_helpers` adds to the modules.
    """

    pairs: Mapping[int, tuple[CodeType, CodeType]]
    helpers: frozenset[str]
    _install: tuple[tuple[tuple[Helper, ...], dict[str, Any]], ...]

    def get(self, code: CodeType) -> CodeType | None:
        """The mended code for a loaded code object, or None."""
        found = self.pairs.get(id(code))
        return found[1] if found is not None else None

    def install_helpers(self) -> None:
        """Add the helpers, ops and imports of the mended texts to their modules, for good."""
        for helpers, module in self._install:
            _execute_helpers(helpers, module, ExitStack())


def code_map(workspace: Workspace, lines: Lines = "user") -> CodeMap:
    """The code objects that are loaded now and change, nested ones included. Raises SwapError."""
    files = _pairs(workspace, lines, {})
    live = _live(files)
    found: dict[int, tuple[CodeType, CodeType]] = {}
    install = []
    for path, file in files.items():
        wanted = _wanted(file)
        for function in live[path]:
            if wanted is None or _root(function.__code__.co_qualname) in wanted:
                for old in _with_inner(function.__code__):
                    new = file.new(old)
                    if new is not None:
                        found[id(old)] = (old, new)
        install += [(file.helpers, module) for module in _modules(path, live[path])]
    names = frozenset(name for helpers, _ in install for helper in helpers for name in helper.names)
    return CodeMap(found, names, tuple(install))
