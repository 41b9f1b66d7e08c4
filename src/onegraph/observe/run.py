"""Run a program under torch.compile on copies of its inputs, and see where the graph breaks."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

import torch

from onegraph.model import Call, Program, Trace
from onegraph.observe.watch import watch
from onegraph.state import copy_call, preserved
from onegraph.torch_private import dynamo
from onegraph.torch_private.quiet import muted

_CAPTURE = {"capture_scalar_outputs": True, "capture_dynamic_output_shape_ops": True}
_RESIDUAL = {"nested_graph_breaks": True, **_CAPTURE}
_BACKEND_ONLY = ("backend", "mode", "options", "fullgraph")


def observe(program: Program, *, fullgraph: bool = False, residual: bool = False) -> Trace:
    """Everything Dynamo does with ``program`` (all its calls, on copies), backend eager.

    ``fullgraph`` stops each call at its first break, as torch.compile(fullgraph=True) does. ``residual``
    shows only the breaks that no setting of torch removes: nested graph breaks and both capture settings are
    on. The program's state and random generators are as before afterwards; whatever was compiled earlier is
    forgotten.

    An exception doesn't end the run: ``Trace.error`` has the first one of the compiler, or else of the
    program.
    """
    dynamo.reset()
    compiled = torch.compile(program.target, backend=_eager, fullgraph=fullgraph, **_options(program.options))
    failures: list[_Failure] = []
    with preserved(program), _settings(program, fullgraph, residual), watch() as watching:
        for call in program.calls:
            before = len(watching.trace().breaks)
            error = _attempt(compiled, call)
            if error is not None:
                failures.append(_Failure(call, error, range(before, len(watching.trace().breaks))))
    dynamo.reset()
    return _with_errors(watching.trace(), program, failures)


@dataclasses.dataclass(frozen=True, slots=True)
class _Failure:
    """A call that raised, and the numbers of the breaks seen during it."""

    call: Call
    error: Exception
    breaks: range


def _with_errors(trace: Trace, program: Program, failures: list[_Failure]) -> Trace:
    """A compiler's error that repeats one of the program itself is the program's, and no break."""
    errors: list[Exception] = []
    echoes: set[int] = set()
    for failure in failures:
        own = _eager_error(program, failure.call) if dynamo.is_compiler_error(failure.error) else None
        if own is not None:
            name = type(failure.error).__name__
            echoes |= {number for number in failure.breaks if trace.breaks[number].gb_type == name}
        errors.append(own or failure.error)
    kept = {number: at for at, number in enumerate(n for n in range(len(trace.breaks)) if n not in echoes)}
    breaks = tuple(trace.breaks[number] for number in kept)
    attempts = tuple(
        dataclasses.replace(each, breaks=tuple(kept[number] for number in each.breaks if number in kept))
        for each in trace.attempts
    )
    return dataclasses.replace(trace, breaks=breaks, attempts=attempts, error=_worst(errors))


def _attempt(target: Callable[..., Any], call: Call) -> Exception | None:
    own = copy_call(call)
    with muted():
        try:
            target(*own.args, **own.kwargs)
        except Exception as error:  # noqa: BLE001  (whatever the program raises is a result)
            return error
    return None


def _eager_error(program: Program, call: Call) -> Exception | None:
    """What the program raises without the compiler. (Some operators compile also then: that doesn't
    count.)"""
    with preserved(program):
        error = _attempt(program.target, call)
    return error if error is not None and not dynamo.is_compiler_error(error) else None


def _eager(gm: torch.fx.GraphModule, example_inputs: list[torch.Tensor]) -> Any:
    return gm.forward


def _options(options: Mapping[str, Any]) -> dict[str, Any]:
    """The user's keywords of torch.compile, without those that only the backend reads."""
    kept = {name: value for name, value in options.items() if name not in _BACKEND_ONLY}
    inner = options.get("options") or {}
    if "guard_filter_fn" in inner:
        kept["options"] = {"guard_filter_fn": inner["guard_filter_fn"]}
    return kept


def _settings(program: Program, fullgraph: bool, residual: bool) -> contextlib.AbstractContextManager[Any]:
    """fullgraph=True captures more than the default. A user who asks for it gets that capture here, without
    the stop at the first break."""
    if residual:
        return dynamo.patched(**_RESIDUAL)
    if program.options.get("fullgraph") and not fullgraph:
        return dynamo.patched(**_CAPTURE)
    return contextlib.nullcontext()


def _worst(errors: list[Exception]) -> BaseException | None:
    return next((each for each in errors if dynamo.is_compiler_error(each)), errors[0] if errors else None)
