"""The structured hooks on Dynamo: every break, graph and recompile as it happens.

Installed once for all listeners, taken away with the last one. A hook calls what it replaced with the same
arguments and returns or raises the same; what it tells its listeners can't reach the user's program, not
even as an exception.
"""

from __future__ import annotations

import functools
import sys
import threading
import time
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import CodeType
from typing import Any

from torch._dynamo import convert_frame, exc, output_graph, symbolic_convert
from torch.fx.experimental.symbolic_shapes import GuardOnDataDependentSymNode

from onegraph.model import Outcome
from onegraph.torch_private import frames
from onegraph.torch_private.patching import Patch, wrap
from onegraph.torch_private.records import Listener, Raised

_SKIPPED = "Failed to handle graph break gracefully"
_REST_EAGER = "Encountered graph break that we cannot resume from"

# Classes whose instances end a trace. ObservedException is missing on purpose: it is how Dynamo traces the
# program's own exceptions, and reaches us only when it leaves a frame.
_RECORDED = (
    exc.Unsupported,
    exc.UserError,
    exc.TorchRuntimeError,
    exc.UncapturedHigherOrderOpError,
    GuardOnDataDependentSymNode,
)
_BREAKS = (exc.Unsupported, exc.UserError)

_lock = threading.RLock()
_listeners: list[Listener] = []
_patches: list[Patch] = []
_raised: weakref.WeakKeyDictionary[BaseException, Raised] = weakref.WeakKeyDictionary()


@contextmanager
def listening(listener: Listener) -> Iterator[None]:
    """Tell ``listener`` of everything that Dynamo does inside, in any thread."""
    with _lock:
        if not _listeners:
            _install()
        _listeners.append(listener)
    try:
        yield
    finally:
        with _lock:
            _listeners.remove(listener)
            if not _listeners:
                _uninstall()


@contextmanager
def noting_exceptions() -> Iterator[None]:
    """Note where the compiler's exceptions are raised, for ``record_of``; nobody is told."""
    with listening(_Nobody()):
        yield


class _Nobody:
    """Listens, and does nothing with what it hears."""

    def __getattr__(self, name: str) -> Any:
        return lambda *args: None


def record_of(error: BaseException, tracer: Any | None) -> Raised:
    """What was noted when the exception was raised; for classes not hooked, what its tracer still knows."""
    noted = (
        _raised.get(error) if isinstance(error, _RECORDED) else None
    )  # built-in ones can't be referred to weakly
    return noted or _describe(error, tracer, None)


def _install() -> None:
    for cls in _RECORDED:
        _patch(cls, "__init__", _hook_raise)
    _patch(symbolic_convert.InstructionTranslatorBase, "log_graph_break", _hook_break)
    _patch(convert_frame.ConvertFrameAssert, "__call__", _hook_frame)
    _patch(convert_frame, "_compile", _hook_compile)
    _patch(convert_frame, "get_and_maybe_log_recompilation_reasons", _hook_recompile)
    _patch(output_graph.OutputGraph, "call_user_compiler", _hook_graph)


def _patch(owner: Any, name: str, make: Callable[[Callable[..., Any]], Callable[..., Any]]) -> None:
    """A name that this torch lacks is left out; the canary says what is lost."""
    if hasattr(owner, name):
        _patches.append(wrap(owner, name, make))


def _uninstall() -> None:
    while _patches:
        _patches.pop().undo()


def _tell(where: str, report: Callable[[Listener], None]) -> None:
    """Run a report for every listener; a fault of ours is reported, never raised."""
    for listener in tuple(_listeners):
        try:
            report(listener)
        except Exception as error:  # noqa: BLE001  (must not reach the user's program)
            listener.fault(where, error)


def _hook_raise(plain: Callable[..., None]) -> Callable[..., None]:
    @functools.wraps(plain)
    def __init__(self: BaseException, *args: Any, **kwargs: Any) -> None:
        plain(self, *args, **kwargs)

        def note(_: Listener) -> None:
            _raised[self] = _describe(self, frames.active_tracer(), sys._getframe(3))

        if _listeners:
            _tell("an exception of the compiler", note)

    return __init__


def _hook_break(plain: Callable[..., None]) -> Callable[..., None]:
    @functools.wraps(plain)
    def log_graph_break(
        self: Any, code_options: Any, reason: str, exc: Any, *args: Any, **kwargs: Any
    ) -> None:
        logged_before = getattr(exc, "logged", False)
        plain(self, code_options, reason, exc, *args, **kwargs)
        if logged_before:
            return

        def report(listener: Listener) -> None:
            listener.broke(record_of(exc, self), _outcome(reason), reason)

        _tell("log_graph_break", report)

    return log_graph_break


def _hook_frame(plain: Callable[..., Any]) -> Callable[..., Any]:
    """Around the conversion of one frame: exceptions that leave it, swallowed by Dynamo afterwards or not."""

    @functools.wraps(plain)
    def __call__(self: Any, frame: Any, *args: Any, **kwargs: Any) -> Any:
        try:
            return plain(self, frame, *args, **kwargs)
        except Exception as error:
            caught = error

            def report(listener: Listener) -> None:
                code = frames.original_code(frame.f_code)
                raised = record_of(caught, frames.tracer_in(caught.__traceback__))
                if _is_limit(caught, raised):
                    listener.limit_reached(code)
                else:
                    logged = bool(getattr(caught, "logged", False))
                    listener.frame_ended(code, raised, logged, _is_swallowed(caught, self))

            _tell("the end of a frame", report)
            raise

    return __call__


def _hook_compile(plain: Callable[..., Any]) -> Callable[..., Any]:
    """A frame that Dynamo leaves alone because nothing in it is for a graph doesn't count."""

    @functools.wraps(plain)
    def _compile(code: CodeType, *args: Any, **kwargs: Any) -> Any:
        began = time.perf_counter()

        def tell(failed: bool) -> None:
            own, resumed = frames.original_code(code), frames.is_resume(code)
            _tell("_compile", lambda listener: listener.compiled(own, failed, resumed, began))

        try:
            result = plain(code, *args, **kwargs)
        except Exception:
            tell(True)
            raise
        if getattr(result, "guarded_code", result) is not None:
            tell(False)
        return result

    return _compile


def _hook_recompile(plain: Callable[..., Any]) -> Callable[..., Any]:
    """Its parameters moved between versions: the frame is the argument with ``f_code``."""

    @functools.wraps(plain)
    def get_and_maybe_log_recompilation_reasons(*args: Any, **kwargs: Any) -> Any:
        result = plain(*args, **kwargs)

        def report(listener: Listener) -> None:
            frame = next(each for each in (*args, *kwargs.values()) if hasattr(each, "f_code"))
            reasons = tuple(str(reason) for reason in result)
            code = frame.f_code
            listener.recompiling(frames.original_code(code), frames.is_resume(code), reasons)

        _tell("recompile reasons", report)
        return result

    return get_and_maybe_log_recompilation_reasons


def _hook_graph(plain: Callable[..., Any]) -> Callable[..., Any]:
    """After the backend returned: a graph that a restart throws away is no graph."""

    @functools.wraps(plain)
    def call_user_compiler(self: Any, gm: Any, *args: Any, **kwargs: Any) -> Any:
        compiled = plain(self, gm, *args, **kwargs)

        def report(listener: Listener) -> None:
            calls = sum(node.op in ("call_function", "call_method", "call_module") for node in gm.graph.nodes)
            listener.graph(frames.original_code(self.root_tx.f_code), calls)

        _tell("call_user_compiler", report)
        return compiled

    return call_user_compiler


def _outcome(reason: str) -> Outcome:
    if reason.startswith(_SKIPPED):
        return Outcome.FRAME_SKIPPED
    if reason.startswith(_REST_EAGER):
        return Outcome.REST_EAGER
    return Outcome.RESUMED


def _describe(error: BaseException, tracer: Any | None, raiser: Any | None) -> Raised:
    details = _details(raiser)
    source = details.get("from_exc")
    return Raised(
        gb_type=details.get("gb_type") or _name(error),
        message=str(getattr(error, "msg", None) or error),
        frames=frames.stack_of(tracer) if tracer is not None else (),
        locals=frames.locals_of(tracer) if tracer is not None else {},
        context=str(details.get("context") or ""),
        explanation=str(details.get("explanation") or ""),
        hints=tuple(details.get("hints") or ()),
        cause=_raised.get(source) if isinstance(source, _BREAKS) else None,
    )


def _details(raiser: Any | None) -> dict[str, Any]:
    """The arguments of ``unimplemented``, which the exception itself doesn't keep."""
    for _ in range(4):
        if raiser is None:
            break
        if raiser.f_code.co_name == "unimplemented":
            return dict(raiser.f_locals)
        raiser = raiser.f_back
    return {}


def _name(error: BaseException) -> str:
    if isinstance(error, exc.UserError):
        return f"UserError.{error.error_type.name}"
    return getattr(error, "gb_type", None) or type(error).__name__


def _is_swallowed(error: BaseException, converter: Any) -> bool:
    """Whether Dynamo goes on with the frame in eager mode, instead of raising to the user."""
    return not getattr(converter, "_one_graph", False) and isinstance(error, _BREAKS)


def _is_limit(error: BaseException, raised: Raised) -> bool:
    return "RecompileLimit" in type(error).__name__ or "recompile limit" in raised.gb_type.lower()
