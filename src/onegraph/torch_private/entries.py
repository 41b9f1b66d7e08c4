"""The entry points of torch.compile: who was compiled with which keywords, and the calls made there.

``torch.compile`` is replaced while ``watched`` is active, and its result gets one thin Python frame around
it. ``nn.Module.compile`` and the decorator form go through the same function.
"""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import torch

OnCall = Callable[[Callable[..., Any], Mapping[str, Any], tuple[Any, ...], Mapping[str, Any]], None]


class Entries:
    """What went through torch.compile."""

    def __init__(self) -> None:
        self._made: dict[int, tuple[Any, Callable[..., Any], Mapping[str, Any]]] = {}

    def note(self, result: Any, model: Callable[..., Any], options: Mapping[str, Any]) -> None:
        self._made[id(result)] = (
            result,
            model,
            options,
        )  # keeps the result alive, so that the id stays its own

    def origin(self, result: Any) -> tuple[Any, Mapping[str, Any]]:
        """The callable behind a result of torch.compile and its keywords; anything else comes back as it
        is."""
        if id(result) in self._made:
            _, model, options = self._made[id(result)]
            return model, options
        if (call := getattr(result, "_compiled_call_impl", None)) is not None and id(call) in self._made:
            return result, self._made[id(call)][2]  # after module.compile()
        return innermost(result), {}


@contextmanager
def watched(on_call: OnCall | None = None) -> Iterator[Entries]:
    """Watch torch.compile. ``on_call(callable, options, args, kwargs)`` is told of each outermost call of a
    compiled callable just before it runs."""
    entries = Entries()
    plain = torch.compile

    @functools.wraps(plain)
    def compile(model: Any = None, *args: Any, **options: Any) -> Any:
        result = plain(model, *args, **options)
        if model is None or result is model:
            return result  # a decorator, which comes back with the function; or disable=True
        target = _whole_module(model)
        if on_call is not None:
            result = _telling(result, functools.partial(on_call, target, options))
        entries.note(result, target, options)
        return result

    torch.compile = compile
    try:
        yield entries
    finally:
        torch.compile = plain


def innermost(fn: Any) -> Any:
    """The user's callable behind a result of torch.compile."""
    module = getattr(fn, "_orig_mod", None)
    if isinstance(module, torch.nn.Module) and type(fn).__name__ == "OptimizedModule":
        return module
    while "_torchdynamo_orig_callable" in getattr(fn, "__dict__", {}):
        fn = fn._torchdynamo_orig_callable
    return _whole_module(fn)


def _whole_module(model: Any) -> Any:
    """``module.compile()`` compiles the bound method ``_call_impl``: the module is meant."""
    owner = getattr(model, "__self__", None)
    whole = isinstance(owner, torch.nn.Module) and getattr(model, "__name__", "") in (
        "_call_impl",
        "__call__",
    )
    return owner if whole else model


_inside = threading.local()


def _telling(result: Any, tell: Callable[[tuple[Any, ...], Mapping[str, Any]], None]) -> Any:
    if isinstance(result, torch.nn.Module):
        result.forward = _around(result.forward, tell)  # an instance attribute of OptimizedModule
        return result
    return _around(result, tell)


def _around(fn: Callable[..., Any], tell: Callable[[tuple[Any, ...], Mapping[str, Any]], None]) -> Any:
    @functools.wraps(fn)
    def entry(*args: Any, **kwargs: Any) -> Any:
        if getattr(_inside, "active", False):
            return fn(*args, **kwargs)
        tell(args, kwargs)
        _inside.active = True
        try:
            return fn(*args, **kwargs)
        finally:
            _inside.active = False

    if hasattr(fn, "_torchdynamo_wrapper_id"):  # Dynamo tells by it a wrapper from a copy of its attributes
        entry._torchdynamo_wrapper_id = id(entry)  # type: ignore[attr-defined]
    return entry
