"""Graph breaks where Dynamo captures what the compiled program then does otherwise than eager.

- A read of ``os.environ`` by the user's own code: Dynamo guards single keys that were found, not the absence of one. It
  guards the whole of ``os.environ.copy()``. (Libraries read switches of their own, which nobody turns meanwhile.)
- An operation in a ``try`` that values, or sizes, make fail: the ``except`` is no part of the graph, so that the
  exception leaves the compiled function.
- A deque with a limit that it was given outside: Dynamo forgets the limit, so that it grows on while it is traced.
- Random numbers of NumPy, which Dynamo draws from torch's stream, and of Python, which Inductor gets wrong.
"""

from __future__ import annotations

import functools
import os
import threading
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import CodeType
from typing import Any

import torch
from torch._dynamo import eval_frame, exc
from torch._dynamo.variables import builder, lists, misc, user_defined
from torch._dynamo.variables import functions as variables

from onegraph.installed import package_folders
from onegraph.silent import ENVIRONMENT, HANDLER, LIMIT, RANDOM
from onegraph.torch_private import frames
from onegraph.torch_private.patching import wrap

_here = threading.local()

_READ = os._Environ.__getitem__.__code__  # every other way to read one comes here
_BETWEEN = ("os", "collections.abc", "torch._dynamo.polyfills")  # modules that a read goes through
_COPY = os._Environ.copy.__code__
# They say by an exception what the values are like.
_MAY_FAIL = frozenset(
    getattr(owner, name)
    for owner, names in (
        (
            torch.linalg,
            ("cholesky", "inv", "solve", "eigh", "eig", "eigvals", "eigvalsh", "svd", "svdvals", "lstsq"),
        ),
        (torch.linalg, ("lu_factor", "ldl_factor", "tensorinv", "tensorsolve", "matrix_power", "cond")),
        (torch, ("cholesky", "inverse", "multinomial", "cholesky_inverse", "svd")),
    )
    for name in names
    if hasattr(owner, name)
)
_METHODS = frozenset(("cholesky", "inverse", "multinomial", "cholesky_inverse", "svd"))


@contextmanager
def set_everywhere() -> Iterator[None]:
    """Whatever this thread compiles inside breaks its graph at such a place."""
    _patch()
    before = getattr(_here, "on", False)
    _here.on = True
    try:
        yield
    finally:
        _here.on = before


def set_for(program: Callable[..., Any]) -> Callable[..., Any]:
    """``program``, with what it compiles at a call breaking its graphs at such places."""

    def call(*args: Any, **kwargs: Any) -> Any:
        with set_everywhere():
            return program(*args, **kwargs)

    eval_frame.skip_code(call.__code__)
    return call


def install(is_ours: Callable[[], bool]) -> None:
    """Patch Dynamo, for good: for other programs than those that this is set for, the patches pass through.

    ``is_ours`` tells whether it is set for what Dynamo traces at the moment."""
    _programs.append(is_ours)
    _patch()


@functools.cache
def _patch() -> None:
    """A name that this torch lacks is left out; the canary says what is lost."""
    for owner, name, make in (
        (variables.UserFunctionVariable, "get_code", _get_code),
        (builder, "get_fake_value", _get_fake_value),
        (builder.VariableBuilder, "wrap_listlike", _wrap_listlike),
        (lists.DequeVariable, "call_method", _deque_method),
        (misc.NumpyVariable, "call_function", _numpy_call),
        (user_defined, "call_random_fn", _random_call),
        (misc, "call_random_fn", _random_call),
    ):
        if hasattr(owner, name):
            wrap(owner, name, make)


_programs: list[Callable[[], bool]] = []


def _are_set() -> bool:
    return getattr(_here, "on", False) or any(is_ours() for is_ours in _programs)


def _get_code(original: Callable[..., CodeType]) -> Callable[..., CodeType]:
    @functools.wraps(original)
    def get_code(self: Any) -> CodeType:
        code = original(self)
        if code is _READ and _are_set() and _reads_itself():
            _break(
                ENVIRONMENT,
                "The compiled program would go on with what the environment held while compiling.",
            )
        return code

    return get_code


def _reads_itself() -> bool:
    """Whether the environment is read by code that is not installed, and not for a copy."""
    tracers = list(_tracers())
    if any(tracer.f_code is _COPY for tracer in tracers):
        return False
    reader = next((t for t in tracers if t.f_globals.get("__name__") not in _BETWEEN), None)
    return reader is not None and not package_folders(Path(reader.f_code.co_filename))


def _get_fake_value(original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def get_fake_value(node: Any, tx: Any, *args: Any, **kwargs: Any) -> Any:
        caught = _are_set() and any(map(_handles, _tracers(tx)))
        if caught and (node.target in _MAY_FAIL or (node.op == "call_method" and node.target in _METHODS)):
            _break(HANDLER, "An exception of the operation would leave the compiled program.")
        try:
            return original(node, tx, *args, **kwargs)
        except exc.TorchRuntimeError as error:
            if not caught:
                raise
            _break(HANDLER, f"The operation fails for these sizes: {error}")

    return get_fake_value


def _wrap_listlike(original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def wrap_listlike(self: Any, value: Any) -> Any:
        variable = original(self, value)
        limit = value.maxlen if isinstance(value, deque) else None
        if limit is not None and getattr(variable, "maxlen", None) is not None:
            kept = variable.maxlen.as_python_constant()
            variable.onegraph_limit = limit if kept is None else None
        return variable

    return wrap_listlike


def _deque_method(original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def call_method(self: Any, tx: Any, name: str, args: Any, kwargs: Any) -> Any:
        limit = getattr(self, "onegraph_limit", None)
        if limit is not None and name in _GROWS and _are_set():
            added = 1 if name.startswith("append") else limit  # how many come is not looked at
            if len(self.items) + added > limit:
                _break(LIMIT, "The compiled program would go on with more entries than the deque may hold.")
        return original(self, tx, name, args, kwargs)

    return call_method


_GROWS = frozenset(("append", "appendleft", "extend", "extendleft"))


def _numpy_call(original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def call_function(self: Any, *args: Any, **kwargs: Any) -> Any:
        drawn = misc.get_np_to_tnp_map().get(self.value)
        if getattr(drawn, "__module__", "") == "torch._numpy.random" and _are_set():
            _break(RANDOM, "The compiled program would draw them from torch's stream.")
        return original(self, *args, **kwargs)

    return call_function


def _random_call(original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def call_random_fn(*args: Any, **kwargs: Any) -> Any:
        if _are_set():
            _break(RANDOM, "Inductor may compute with other numbers than those that are drawn.")
        return original(*args, **kwargs)

    return call_random_fn


def _break(gb_type: str, explanation: str) -> None:
    exc.unimplemented(gb_type=gb_type, context="", explanation=explanation, hints=[])


def _tracers(tracer: Any | None = None) -> Iterator[Any]:
    """The frame that is traced, and those that it is inlined into."""
    tracer = tracer or frames.active_tracer()
    while tracer is not None:
        yield tracer
        tracer = getattr(tracer, "parent", None)


def _handles(tracer: Any) -> bool:
    """Whether the frame stands in a ``try`` with an ``except`` (``with`` and ``finally`` let exceptions pass)."""
    entry = getattr(tracer.current_instruction, "exn_tab_entry", None)
    if entry is None:
        return False
    start = tracer.indexof[entry.target]
    for instruction in tracer.instructions[start:]:
        if instruction.opname in ("WITH_EXCEPT_START", "RERAISE"):
            return False
        if instruction.opname in ("CHECK_EXC_MATCH", "CHECK_EG_MATCH", "POP_EXCEPT"):
            return True
    return False
