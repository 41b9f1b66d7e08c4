"""Let Dynamo read mended code where it would read the user's, for chosen compiled programs only.

The outermost frame of such a program is a function of ours with a code object of its own (a copy of the
user's function, mended or not). That makes three things simple. Dynamo's cache of the frame is not
shared with whatever the user compiles; eager code is never touched; and the code object itself tells,
while Dynamo traces, whose trace it is: the functions it inlines are looked up for mended code, at no
cost for calls. (Giving Dynamo other code for a frame that already runs crashes the process when the
cells differ.) It also tells, before Dynamo compiles, that it is about to: ``Check``.
"""

from __future__ import annotations

import copy
import functools
import inspect
import threading
import weakref
from collections.abc import Callable, Mapping
from types import CellType, CodeType, FunctionType, MethodType
from typing import Any, NamedTuple, TypeVar

import torch
from torch._dynamo import convert_frame, eval_frame, external_utils, symbolic_convert, trace_rules
from torch._dynamo.variables import functions as variables
from torch.nn.modules.module import _has_any_global_hook

from onegraph.torch_private import traps
from onegraph.torch_private.frames import original_code
from onegraph.torch_private.patching import wrap

Call = TypeVar("Call", bound=Callable[..., Any])
Lookup = Callable[[CodeType], CodeType | None]  # the user's code -> mended code, None where nothing changed
Check = Callable[[Mapping[str, Any]], None]  # gets the arguments of a call that is about to be compiled


class _Root(NamedTuple):
    """One compiled program: what its traces substitute, and who is asked before one begins."""

    lookup: Lookup
    check: Check


_lock = threading.Lock()
_roots: dict[int, _Root] = {}  # by the id of the code of a root


def unchecked(arguments: Mapping[str, Any]) -> None:
    """The ``Check`` that lets everything pass."""


def root(target: Callable[..., Any], lookup: Lookup, check: Check = unchecked) -> Callable[..., Any]:
    """A callable that does what ``target`` does, in a frame of its own, for ``torch.compile``.

    Behaves like ``target``: same globals, closure cells, defaults, signature. Whatever Dynamo inlines below
    it is mended by ``lookup``. Each time Dynamo is about to compile it, ``check`` is called, before anything
    of the call has run; what it raises, the call raises.
    """
    if isinstance(target, MethodType) and isinstance(target.__func__, FunctionType):
        function = root(target.__func__, lookup, check)
        return MethodType(function, target.__self__) if isinstance(function, FunctionType) else function
    if isinstance(target, FunctionType) and not _is_skipped(target):
        function = _with_code(target, _own(lookup(target.__code__) or target.__code__))
    else:
        wrapper = external_utils.wrap_inline(target)
        assert isinstance(wrapper, FunctionType)
        function = _with_code(wrapper, _own(wrapper.__code__))
    _register(function.__code__, _Root(lookup, check))
    return function


def module_root(module: torch.nn.Module, lookup: Lookup, check: Check = unchecked) -> Callable[..., Any]:
    """What ``module(*args, **kwargs)`` does, with ``forward`` as the outermost frame that is compiled.

    A module with hooks, or whose ``forward`` is no plain method of its class, is traced from its call on.
    """
    whole = root(module, lookup, check)
    function = getattr(module.forward, "__func__", None)
    if not isinstance(function, FunctionType) or _is_skipped(function):
        return whole
    forward = root(function, lookup, check)

    def call(*args: Any, **kwargs: Any) -> Any:
        if (
            module._forward_hooks
            or module._forward_pre_hooks
            or module._backward_hooks
            or module._backward_pre_hooks
            or getattr(module.forward, "__func__", None) is not function
            or _has_any_global_hook()  # type: ignore[no-untyped-call]
        ):
            return whole(*args, **kwargs)
        return forward(module, *args, **kwargs)

    skip(call)
    return call


def skip(function: Callable[..., Any]) -> None:
    """Tell Dynamo to run the frame of a Python function as it is and look at what it calls."""
    eval_frame.skip_code(function.__code__)


def not_compiled(function: Call) -> Call:
    """A decorator: run this, and what it calls, without Dynamo (what it compiles itself is compiled)."""
    disabled: Call = torch.compiler.disable(function)  # type: ignore[no-untyped-call]
    return disabled


def innermost(target: Callable[..., Any]) -> Callable[..., Any]:
    """The user's function or module behind the results of ``torch.compile`` and of ours."""
    return eval_frame.innermost_fn(target)


def mark_as_wrapper(wrapper: Any, target: Callable[..., Any]) -> None:
    """Let Dynamo see through a wrapper: ``innermost`` gives the target, and an outer trace inlines it."""
    wrapper._torchdynamo_orig_callable = target
    wrapper._torchdynamo_wrapper_id = id(wrapper)
    wrapper._torchdynamo_inline = target


# --- functions with a code object of their own ----------------------------------------------------------


def _is_skipped(function: Callable[..., Any]) -> bool:
    """Whether Dynamo never compiles this frame as an outermost one (files of torch, the standard library)."""
    return bool(trace_rules.check(function))


def _own(code: CodeType) -> CodeType:
    """An equal code object with another identity: Dynamo's caches go by identity."""
    return code.replace(co_name=code.co_name)


def _with_code(function: FunctionType, code: CodeType) -> FunctionType:
    """A function that shares everything with ``function`` but the code. Both have the same free variables."""
    cells = dict(zip(function.__code__.co_freevars, function.__closure__ or (), strict=True))
    closure = tuple(cells[name] for name in code.co_freevars)
    made = FunctionType(code, function.__globals__, function.__name__, function.__defaults__, closure)
    functools.update_wrapper(made, function)
    del made.__wrapped__  # type: ignore[attr-defined]  # a twin, not a wrapper: it has the signature itself
    if "__wrapped__" in vars(function):
        made.__wrapped__ = function.__wrapped__  # type: ignore[attr-defined]
    made.__kwdefaults__ = function.__kwdefaults__
    return made


# --- lookups while Dynamo traces ------------------------------------------------------------------------


def _register(code: CodeType, made: _Root) -> None:
    with _lock:
        _install()
        _roots[id(code)] = made
    weakref.finalize(code, _roots.pop, id(code), None)


@functools.cache
def _install() -> None:
    """Patch the two places where Dynamo reads the code of a function that it inlines, and the one where it
    is handed a frame to compile. Done once, for good: for frames other than our roots they pass through."""
    wrap(variables.UserFunctionVariable, "get_code", _get_code)
    wrap(variables.UserFunctionVariable, "bind_args", _bind_args)
    wrap(convert_frame.CatchErrorsWrapper, "__call__", _compile_frame)
    traps.install(lambda: _traced_root() is not None)


def _get_code(original: Callable[..., CodeType]) -> Callable[..., CodeType]:
    @functools.wraps(original)
    def get_code(self: Any) -> CodeType:
        code = original(self)
        return _mended(code) or code

    return get_code


def _bind_args(original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def bind_args(self: Any, *args: Any, **kwargs: Any) -> Any:
        code = _mended(self.fn.__code__) if isinstance(self.fn, FunctionType) else None
        if code is None:
            return original(self, *args, **kwargs)
        twin = copy.copy(self)  # cells are made for the code that is traced
        twin.fn = _with_code(self.fn, code)
        return original(twin, *args, **kwargs)

    return bind_args


def _mended(code: CodeType) -> CodeType | None:
    found = _traced_root()
    return found.lookup(code) if found is not None else None


def _traced_root() -> _Root | None:
    """The program of ours that Dynamo is tracing."""
    tracer = getattr(symbolic_convert.tls, "current_tx", None)
    if tracer is None or not _roots:
        return None
    return _roots.get(id(tracer.f_code)) or _roots.get(id(original_code(tracer.f_code)))


def _compile_frame(original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def __call__(self: Any, frame: Any, *args: Any, **kwargs: Any) -> Any:
        if (found := _roots.get(id(frame.f_code))) is not None:
            found.check(_arguments(frame))
        return original(self, frame, *args, **kwargs)

    return __call__


def _arguments(frame: Any) -> dict[str, Any]:
    """What the parameters of a frame that did not start yet hold."""
    code, values = frame.f_code, frame.f_locals
    count = code.co_argcount + code.co_kwonlyargcount
    count += bool(code.co_flags & inspect.CO_VARARGS) + bool(code.co_flags & inspect.CO_VARKEYWORDS)
    found = {name: values[name] for name in code.co_varnames[:count] if name in values}
    return {
        name: value.cell_contents if isinstance(value, CellType) else value for name, value in found.items()
    }
