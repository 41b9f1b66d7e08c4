"""Factories and callables: ``(callable_or_module, inputs)`` becomes a ``Program``."""

from __future__ import annotations

import functools
import importlib
import importlib.util
import inspect
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

from onegraph.model import Call, Program
from onegraph.targets.errors import TargetError, TargetFailed
from onegraph.targets.traceback import trimmed

SHAPE = "(callable_or_module, inputs); inputs is one tuple, or a list of tuples or of (args, kwargs)"


def from_factory(where: str, name: str) -> Program:
    """Import ``where`` (a ``.py`` file or a dotted module), call ``name()``, and check what it returns.

    Keywords given to torch.compile inside the factory become the program's options.
    Raises TargetError, and TargetFailed with whatever the import or the factory raised.
    """
    from onegraph.torch_private import entries

    spec = f"{where}:{name}"
    if where.endswith(".py") and not Path(where).is_file():
        raise TargetError(f"no such file: {where}", f"Looked in {Path.cwd()}.", "check the path")
    with entries.watched() as seen:
        module = _failing_as_target(
            lambda: _import_file(Path(where)) if where.endswith(".py") else _import(where)
        )
        factory = _lookup(module, name, spec)
        made = _failing_as_target(factory)
    if not isinstance(made, tuple) or len(made) != 2:
        raise TargetError(
            f"{spec} returned {_a(made)}",
            f"A factory returns {SHAPE}.",
            f"end {name} with  return model, (x,)",
        )
    target, inputs = made
    target, options = seen.origin(target)
    given = check_callable(target, f"{_named(target, 'the target')} (from {spec})")
    return Program(_named(target, spec), given, calls_from(inputs, spec), options)


def from_callable(
    fn: Callable[..., Any],
    args: tuple[Any, ...] = (),
    kwargs: Mapping[str, Any] | None = None,
    *,
    options: Mapping[str, Any] | None = None,
) -> Program:
    """One call ``fn(*args, **kwargs)`` as a program. ``options`` are keywords of torch.compile.

    Something that torch.compile returned is unwrapped first. Raises TargetError where ``fn`` can't be
    compiled.
    """
    from onegraph.torch_private import entries

    fn = entries.innermost(fn)
    name = _named(fn, type(fn).__name__)
    return Program(
        name, check_callable(fn, name), (Call(tuple(args), dict(kwargs or {})),), dict(options or {})
    )


def calls_from(inputs: Any, spec: str) -> tuple[Call, ...]:
    """The calls that a factory's ``inputs`` describe."""
    if isinstance(inputs, tuple):
        return (_call(inputs, spec),)
    if isinstance(inputs, list) and inputs:
        return tuple(_call(item, spec) for item in inputs)
    what = "an empty list" if inputs == [] else _a(inputs)
    raise TargetError(
        f"{spec}: the inputs are {what}",
        f"A factory returns {SHAPE}.",
        "write a one-element tuple for one argument:  return model, (x,)",
    )


def holds_tensor(value: Any) -> bool:
    """Whether there is a tensor among the arguments of a call, or in containers in them."""
    import torch

    if isinstance(value, Call):
        return holds_tensor((value.args, value.kwargs))
    if isinstance(value, Mapping):
        return any(map(holds_tensor, value.values()))
    if isinstance(value, list | tuple | set):
        return any(map(holds_tensor, value))
    return isinstance(value, torch.Tensor) or any(map(holds_tensor, getattr(value, "__dict__", {}).values()))


def _call(item: Any, spec: str) -> Call:
    if not isinstance(item, tuple):
        raise TargetError(
            f"{spec}: one of the inputs is {_a(item)}",
            f"A factory returns {SHAPE}.",
            "put it in a tuple:  [(x,), (y,)]",
        )
    if len(item) == 2 and isinstance(item[0], tuple) and isinstance(item[1], dict):
        args, kwargs = item
        if all(isinstance(key, str) for key in kwargs):
            return Call(args, kwargs)
    return Call(item)


def check_callable(target: Any, spec: str) -> Callable[..., Any]:
    """``target``, if torch.compile can do something with it. Raises TargetError."""
    if not callable(target):
        raise TargetError(
            f"{spec}: {_a(target)} can't be called", f"A factory returns {SHAPE}.", "return the model itself"
        )
    code = _plain(target)
    if inspect.isgeneratorfunction(code):
        raise TargetError(
            f"{spec} is a generator function",
            "Calling it runs nothing; torch.compile leaves the frames of generators alone.",
            "give a function that consumes it, such as  lambda x: list(generate(x))",
        )
    if inspect.iscoroutinefunction(code) or inspect.isasyncgenfunction(code):
        raise TargetError(
            f"{spec} is a coroutine function",
            "Calling it runs nothing.",
            "give the plain function that it awaits",
        )
    if inspect.isclass(target):
        raise TargetError(f"{spec} is a class", "Calling it makes an object.", "give an instance of it")
    if inspect.isbuiltin(code) or isinstance(code, type(len)):
        raise TargetError(
            f"{spec} is written in C",
            "It has no Python code to look at or to mend.",
            "give a Python function around it",
        )
    return target  # type: ignore[no-any-return]


def _plain(target: Any) -> Any:
    """The function whose code a call runs, as far as it shows: partials and bound methods are looked
    through."""
    while isinstance(target, functools.partial):
        target = target.func
    forward = getattr(target, "forward", None) if hasattr(target, "_parameters") else None
    return inspect.unwrap(getattr(forward or target, "__func__", forward or target))


def _named(target: Any, default: str) -> str:
    plain = target.func if isinstance(target, functools.partial) else target
    if hasattr(plain, "_parameters"):
        return type(plain).__name__
    name = getattr(plain, "__qualname__", None) or default
    return str(name).replace("<locals>.", "")


def _lookup(module: ModuleType, name: str, spec: str) -> Callable[[], Any]:
    found: Any = module
    for part in name.split("."):
        if not hasattr(found, part):
            functions = [
                n
                for n, v in vars(module).items()
                if inspect.isfunction(v) and v.__module__ == module.__name__
            ]
            raise TargetError(
                f"no {name!r} in {spec.rpartition(':')[0]}",
                f"Functions there: {', '.join(functions) or 'none'}.",
                "name a factory: a function that takes nothing and returns " + SHAPE,
            )
        found = getattr(found, part)
    if not callable(found):
        raise TargetError(
            f"{spec} is {_a(found)}, no factory", f"A factory returns {SHAPE}.", "wrap it in a function"
        )
    needed = _needed(found)
    if needed:
        raise TargetError(
            f"{spec} needs arguments: {', '.join(needed)}",
            "A factory is called with nothing.",
            f"write a function that returns ({name}, inputs), and name that",
        )
    return found  # type: ignore[no-any-return]


def _needed(factory: Callable[..., Any]) -> list[str]:
    try:
        parameters = inspect.signature(factory).parameters.values()
    except (TypeError, ValueError):
        return []
    free = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    return [p.name for p in parameters if p.default is p.empty and p.kind not in free]


def _import(name: str) -> ModuleType:
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.insert(0, here)
    importlib.invalidate_caches()  # files may be newer than what the import system has seen of the folder
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name is not None and (name == error.name or name.startswith(error.name + ".")):
            raise TargetError(
                f"no module named {error.name}",
                f"Looked in {here} and in the packages of {sys.executable}.",
                "check the name, or name the file: path/file.py:factory",
            ) from None
        raise


def _import_file(path: Path) -> ModuleType:
    """Import a file under its dotted name where it stands in a package, else under its stem."""
    path = path.resolve()
    root, parts = path.parent, [path.stem]
    while (root / "__init__.py").is_file():
        parts.insert(0, root.name)
        root = root.parent
    if str(root) not in sys.path:
        sys.path.insert(0, str(root))
    if len(parts) > 1:
        return importlib.import_module(".".join(parts))
    name = path.stem
    loaded = sys.modules.get(name)
    if loaded is not None and getattr(loaded, "__file__", None) != str(path):
        name = f"{name}__target"  # a module of that name exists; leave it alone
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


def _failing_as_target(run: Callable[[], Any]) -> Any:
    try:
        return run()
    except (TargetError, KeyboardInterrupt):
        raise
    except BaseException as error:  # noqa: BLE001 (whatever the target raises is the target's)
        raise TargetFailed(trimmed(error)) from None


def _a(value: Any) -> str:
    if value is None:
        return "None"
    name = type(value).__name__
    size = f" of {len(value)}" if isinstance(value, tuple | list) else ""
    return f"{'an' if name[:1].lower() in 'aeiou' else 'a'} {name}{size}"
