"""Run a program under torch.compile on copies of its inputs, and see where the graph breaks."""

from __future__ import annotations

import contextlib
import dataclasses
import io
from collections.abc import Mapping
from typing import Any

import torch

from onegraph.model import Program, Trace
from onegraph.observe.watch import watch
from onegraph.state import copy_call, preserved
from onegraph.torch_private import dynamo

_CAPTURE = {"capture_scalar_outputs": True, "capture_dynamic_output_shape_ops": True}
_RESIDUAL = {"nested_graph_breaks": True, **_CAPTURE}
_BACKEND_ONLY = ("backend", "mode", "options", "fullgraph")


def observe(program: Program, *, fullgraph: bool = False, residual: bool = False) -> Trace:
    """Everything Dynamo does with ``program`` (all its calls, on copies), backend eager.

    ``fullgraph`` stops each call at its first break, as torch.compile(fullgraph=True) does. ``residual`` shows only
    the breaks that no setting of torch removes: nested graph breaks and both capture settings are on. The program's
    state and random generators are as before afterwards; whatever was compiled earlier is forgotten.

    An exception doesn't end the run: ``Trace.error`` has the first one of the compiler, or else of the program.
    """
    dynamo.reset()
    errors: list[BaseException] = []
    compiled = torch.compile(program.target, backend=_eager, fullgraph=fullgraph, **_options(program.options))
    with preserved(program), _settings(program, fullgraph, residual), watch() as watching:
        for call in program.calls:
            own = copy_call(call)
            with contextlib.redirect_stdout(io.StringIO()):
                try:
                    compiled(*own.args, **own.kwargs)
                except Exception as error:  # noqa: BLE001  (whatever the program raises is a result)
                    errors.append(error)
    dynamo.reset()
    return dataclasses.replace(watching.trace(), error=_worst(errors))


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
    """fullgraph=True captures more than the default. A user who asks for it gets that capture here, without the
    stop at the first break."""
    if residual:
        return dynamo.patched(**_RESIDUAL)
    if program.options.get("fullgraph") and not fullgraph:
        return dynamo.patched(**_CAPTURE)
    return contextlib.nullcontext()


def _worst(errors: list[BaseException]) -> BaseException | None:
    return next((each for each in errors if dynamo.is_compiler_error(each)), errors[0] if errors else None)
