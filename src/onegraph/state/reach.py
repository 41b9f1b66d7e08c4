"""Which objects can a call of the program change? A walk from the target over everything that it refers to.

Objects are followed through attributes, containers, closure cells, defaults, partials and bound methods.
Globals and class attributes are followed by *name*: only those that a function on the way mentions
(``co_names``), so that a model of a large library does not drag in the library. Each place has a path for
people: ``self.layer.weight``.
"""

from __future__ import annotations

import functools
import gc
import inspect
import random
import sys
import types
import weakref
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch

from onegraph.model import Program
from onegraph.state.owner import is_installed, is_user_module, root_of
from onegraph.torch_private.tensors import inner_tensors

_LruCache = type(functools.lru_cache(lambda: None))
_ATOMS = (
    type(None),
    bool,
    int,
    float,
    complex,
    str,
    bytes,
    torch.dtype,
    torch.device,
    torch.Size,
    torch.layout,
)
_CONTAINERS = (dict, list, set, deque, bytearray)


class Reach:
    """Everything found, in the order of a breadth-first walk. Paths of containers lead to their owner.

    ``bindings`` are (namespace, name, path): a module's ``__dict__`` or a class, and a name that is or may be
    in it.
    """

    def __init__(self, program: Program) -> None:
        self.containers: list[tuple[Any, str]] = []
        self.tensors: list[tuple[torch.Tensor, str]] = []
        self.cells: list[tuple[types.CellType, str]] = []
        self.slots: list[tuple[Any, str, str]] = []
        self.bindings: list[tuple[dict[str, Any] | type, str, str]] = []
        self.generators: list[tuple[Any, str]] = []
        self.arrays: list[tuple[Any, str]] = []
        self.lru_caches: list[Any] = []
        self.modules: list[torch.nn.Module] = []
        self._seen: dict[int, Any] = {}  # also keeps the objects alive, so that an id is never used twice
        self._present: set[tuple[int, str]] = set()  # bindings that held a value
        self._names: set[str] = set()
        self._homes: set[str] = set()  # top-level packages that the program itself comes from
        self._namespaces: dict[
            str, list[tuple[dict[str, Any] | type, str]]
        ] = {}  # name -> where it may be bound
        self._bound: set[tuple[int, str]] = set()
        self._queue: deque[tuple[Any, str]] = deque()
        self._walk(program)

    def add(self, other: Reach) -> None:
        """Take over what another walk found, made while the program ran another text: that text may touch
        more.

        Names that were bound only then (helpers of that text) are left out.
        """
        for ours, theirs in (
            (self.containers, other.containers),
            (self.tensors, other.tensors),
            (self.cells, other.cells),
            (self.arrays, other.arrays),
            (self.generators, other.generators),
        ):
            known = {id(found[0]) for found in ours}
            ours += [found for found in theirs if id(found[0]) not in known]
        self.slots += [found for found in other.slots if id(found[0]) not in self._seen]
        self.modules += [found for found in other.modules if id(found) not in self._seen]
        known = {id(cache) for cache in self.lru_caches}
        self.lru_caches += [cache for cache in other.lru_caches if id(cache) not in known]
        for namespace, name, path in other.bindings:
            now = namespace if isinstance(namespace, dict) else vars(namespace)
            of_the_text = (id(namespace), name) in other._present and name not in now
            if (id(namespace), name) not in self._bound and not of_the_text:
                self.bindings.append((namespace, name, path))
        self._bound |= other._bound
        self._seen |= other._seen

    def _holds_state(self, module: Any) -> bool:
        """Are globals and class attributes of this module state of the program?

        Those of the user's files and of the library that the program's own modules and functions come from.
        Another installed library that is merely called (a progress bar, a tokenizer) keeps its own books.
        """
        root = root_of(module)
        return is_user_module(module) and (root in self._homes or not is_installed(root))

    def _walk(self, program: Program) -> None:
        self._homes |= _homes(program.target)
        self._push(program.target, _root_name(program.target))
        for call in program.calls:
            for value in (*call.args, *call.kwargs.values()):
                self._push_shared(value, "argument")
        while self._queue:
            value, path = self._queue.popleft()
            self._visit(value, path)
        known = {id(cache) for cache in self.lru_caches}
        self.lru_caches += [cache for cache in _library_caches() if id(cache) not in known]

    def _push_shared(self, value: Any, path: str) -> None:
        """Arguments are copied for every run, but modules and functions among them are passed as they are."""
        if isinstance(value, (torch.nn.Module, types.FunctionType, types.MethodType, functools.partial)):
            self._push(value, path)
        elif isinstance(value, dict):
            for key, item in value.items():
                self._push_shared(item, f"{path}[{key!r}]")
        elif isinstance(value, (list, tuple)):
            for index, item in enumerate(value):
                self._push_shared(item, f"{path}[{index}]")

    def _push(self, value: Any, path: str) -> None:
        if isinstance(value, _ATOMS) and type(value) in _ATOMS:
            return
        if id(value) not in self._seen:
            self._seen[id(value)] = value
            self._queue.append((value, path))

    def _visit(self, value: Any, path: str) -> None:
        for handled, visit in _VISITORS:
            if isinstance(value, handled):
                visit(self, value, path)
                return
        if _is_numpy_state(value):
            (self.arrays if hasattr(value, "dtype") else self.generators).append((value, path))
        else:
            self._instance(value, path)

    # What is found in each sort of object.

    def _tensor(self, value: torch.Tensor, path: str) -> None:
        self.tensors.append((value, path))
        for name, inner in inner_tensors(value):
            self._push(inner, f"{path}.{name}")
        if value.is_leaf and value.grad is not None:
            self._push(value.grad, f"{path}.grad")
        self._attributes(value, path)

    def _dict(self, value: dict[Any, Any], path: str) -> None:
        self.containers.append((value, path))
        for key, item in dict.items(value):  # a subclass may load what it holds when it is asked
            self._push(item, f"{path}[{key!r}]")
        self._instance(value, path)

    def _sequence(self, value: Sequence[Any], path: str) -> None:
        if isinstance(value, _CONTAINERS):
            self.containers.append((value, path))
        for index, item in enumerate(value):
            self._push(item, f"{path}[{index}]")
        if type(value) not in (list, tuple, deque, bytearray):
            self._instance(value, path)

    def _set(self, value: set[Any] | frozenset[Any], path: str) -> None:
        if isinstance(value, set):
            self.containers.append((value, path))
        for item in value:
            self._push(item, f"{path}{{{type(item).__name__}}}")

    def _module(self, value: torch.nn.Module, path: str) -> None:
        self.modules.append(value)
        namespace = value.__dict__
        self.containers.append((namespace, path))
        self._seen[id(namespace)] = namespace
        for table in ("_parameters", "_buffers", "_modules"):
            entries = namespace.get(table)
            if entries is None:
                continue
            self._seen[id(entries)] = entries
            self.containers.append((entries, path))
            for name, item in entries.items():
                self._push(item, f"{path}.{name}")
        for name, item in namespace.items():
            self._push(item, f"{path}.{name}")
        self._class(type(value), type(value).__qualname__)

    def _instance(self, value: Any, path: str) -> None:
        kind = type(value)
        if not (is_user_module(kind.__module__) or isinstance(value, torch.optim.Optimizer)):
            if isinstance(value, (types.SimpleNamespace, functools.cached_property)):
                self._attributes(value, path)
            return
        self._attributes(value, path)
        for name in _slots(kind):
            self.slots.append((value, name, f"{path}.{name}"))
            if hasattr(value, name):
                self._push(getattr(value, name), f"{path}.{name}")
        self._class(kind, kind.__qualname__)

    def _attributes(self, value: Any, path: str) -> None:
        namespace = getattr(value, "__dict__", None)
        if not isinstance(namespace, dict) or id(namespace) in self._seen:
            return
        self._seen[id(namespace)] = namespace
        self.containers.append((namespace, path))
        for name, item in namespace.items():
            self._push(item, f"{path}.{name}")

    def _class(self, value: type, path: str) -> None:
        for kind in value.__mro__:
            if not self._holds_state(kind.__module__) or (id(kind), "") in self._bound:
                continue
            self._bound.add((id(kind), ""))
            self._seen[id(kind)] = kind
            for name in vars(kind):
                self._offer(kind, name, f"{kind.__qualname__}.{name}", always=_is_special(name))

    def _python_module(self, value: types.ModuleType, path: str) -> None:
        if self._holds_state(value.__name__):
            for name in tuple(vars(value)):
                self._offer(vars(value), name, f"{value.__name__}.{name}")

    def _function(self, value: types.FunctionType, path: str) -> None:
        code = value.__code__
        for name, cell in zip(code.co_freevars, value.__closure__ or (), strict=True):
            self._cell(cell, f"{path}.{name}")
        for default in (*(value.__defaults__ or ()), *(value.__kwdefaults__ or {}).values()):
            self._push(default, f"{path}()")
        self._attributes(value, path)
        if not self._holds_state(value.__globals__.get("__name__")):
            return
        owner = str(value.__globals__.get("__name__"))
        for name in sorted(_mentioned(code)):
            self._bind(value.__globals__, name, f"{owner}.{name}")
            self._mention(name)

    def _cell(self, cell: types.CellType, path: str) -> None:
        if id(cell) in self._seen:
            return
        self._seen[id(cell)] = cell
        self.cells.append((cell, path))
        if not is_empty(cell):
            self._push(cell.cell_contents, path)

    def _method(self, value: types.MethodType, path: str) -> None:
        self._push(value.__self__, "self")
        self._push(value.__func__, path)

    def _partial(self, value: functools.partial[Any], path: str) -> None:
        self._push(value.func, path)
        for index, item in enumerate(value.args):
            self._push(item, f"{path}.args[{index}]")
        self._push(value.keywords, f"{path}.keywords")
        self._attributes(value, path)

    def _descriptor(self, value: Any, path: str) -> None:
        for name in ("__func__", "fget", "fset", "func"):
            self._push(getattr(value, name, None), path)

    def _lru_cache(self, value: Any, path: str) -> None:
        self.lru_caches.append(value)
        self._push(value.__wrapped__, path)

    def _generator(self, value: Any, path: str) -> None:
        self.generators.append((value, path))

    # Names: a global or class attribute counts once a function on the way mentions it.

    def _offer(self, namespace: dict[str, Any] | type, name: str, path: str, always: bool = False) -> None:
        if always or name in self._names:
            self._bind(namespace, name, path)
        else:
            self._namespaces.setdefault(name, []).append((namespace, path))

    def _mention(self, name: str) -> None:
        if name not in self._names:
            self._names.add(name)
            for namespace, path in self._namespaces.pop(name, ()):
                self._bind(namespace, name, path)

    def _bind(self, namespace: dict[str, Any] | type, name: str, path: str) -> None:
        if (id(namespace), name) in self._bound:
            return
        self._bound.add((id(namespace), name))
        value = (namespace if isinstance(namespace, dict) else vars(namespace)).get(
            name, sys.modules.get(name)
        )
        if isinstance(namespace, dict) or not callable(value):
            self.bindings.append((namespace, name, path))
            if name in (namespace if isinstance(namespace, dict) else vars(namespace)):
                self._present.add((id(namespace), name))
        self._push(value, path)


_Visitor = Callable[[Reach, Any, str], None]
_VISITORS: tuple[tuple[type | tuple[type, ...], _Visitor], ...] = (
    (torch.Tensor, Reach._tensor),
    (torch.nn.Module, Reach._module),
    (dict, Reach._dict),
    ((list, tuple, deque, bytearray), Reach._sequence),
    ((set, frozenset), Reach._set),
    (types.FunctionType, Reach._function),
    (types.MethodType, Reach._method),
    (functools.partial, Reach._partial),
    ((staticmethod, classmethod, property, functools.cached_property), Reach._descriptor),
    (_LruCache, Reach._lru_cache),
    ((random.Random, torch.Generator), Reach._generator),
    (type, Reach._class),
    (types.ModuleType, Reach._python_module),
)


def _homes(target: Any) -> set[str]:
    """Top-level packages of the target: of every module in it, or of the function."""
    owner = getattr(target, "__self__", target)
    parts = tuple(owner.modules()) if isinstance(owner, torch.nn.Module) else (owner, inspect.unwrap(target))
    own = {root_of(getattr(part, "__module__", None)) for part in parts}
    return own | {root_of(kind.__module__) for part in parts for kind in type(part).__mro__}


def _root_name(target: Any) -> str:
    if isinstance(target, types.FunctionType):
        return target.__qualname__.rpartition(".")[2]
    return "self"


def _is_special(name: str) -> bool:
    return name == "forward" or (name.startswith("__") and name.endswith("__") and name != "__init__")


def is_empty(cell: types.CellType) -> bool:
    try:
        _ = cell.cell_contents
    except ValueError:
        return True
    return False


def _slots(kind: type) -> Iterator[str]:
    for base in kind.__mro__:
        for name, member in vars(base).items():
            if inspect.ismemberdescriptor(member) and is_user_module(base.__module__):
                yield name


@functools.lru_cache(4096)
def _mentioned(code: types.CodeType) -> frozenset[str]:
    """Names of globals and attributes in a code object and the functions in it; also strings for
    ``getattr``.
    """
    names = set(code.co_names)
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            names |= _mentioned(constant)
        elif isinstance(constant, str) and constant.isidentifier() and len(constant) < 64:
            names.add(constant)
    return frozenset(names)


def _is_numpy_state(value: Any) -> bool:
    numpy = sys.modules.get("numpy")
    if numpy is None:
        return False
    return isinstance(value, (numpy.ndarray, numpy.random.Generator, numpy.random.RandomState))


_caches_seen: tuple[int, weakref.WeakSet[Any]] = (0, weakref.WeakSet())


def _library_caches() -> list[Any]:
    """Every ``functools.lru_cache`` of user code and libraries. They remember calls ("warn once") across
    runs.

    The search asks the garbage collector for all of them, so it is done again only when a module was
    imported.
    """
    global _caches_seen
    if _caches_seen[0] != len(sys.modules):
        found: weakref.WeakSet[Any] = weakref.WeakSet()
        for cache in gc.get_referrers(_LruCache):
            if isinstance(cache, _LruCache) and is_user_module(getattr(cache, "__module__", None)):
                found.add(cache)
        _caches_seen = (len(sys.modules), found)
    return sorted(_caches_seen[1], key=id)
