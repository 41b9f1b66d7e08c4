"""Says at once, in words, what this torch lacks of what onegraph stands on.

Every private name the hooks touch is listed here with what is lost without it. ``missing()`` is cheap; ask
it before anything else, so that a new torch is met by a sentence and not by a wrong report.
"""

from __future__ import annotations

import functools
import importlib
import inspect
from dataclasses import dataclass
from typing import Any

import torch

SUPPORTED = "2.11"


@dataclass(frozen=True, slots=True)
class Need:
    """A private name: where it lives, the parameters we pass by name or position, what is lost without it."""

    module: str
    name: str  # dotted
    lost: str
    parameters: tuple[str, ...] = ()


_BREAKS = "graph breaks can't be seen"
_PROBE = "probe mode (breaks hidden behind others) can't run"
_TRAPS = "what torch.compile gets wrong without a word is not kept out of mended programs"
NEEDS = (
    Need("torch._dynamo.exc", "Unsupported.__init__", _BREAKS, ("msg", "gb_type")),
    Need("torch._dynamo.exc", "UserError.__init__", _BREAKS, ("error_type", "msg")),
    Need("torch._dynamo.exc", "TorchRuntimeError", _BREAKS),
    Need("torch._dynamo.exc", "UncapturedHigherOrderOpError", _BREAKS),
    Need("torch._dynamo.exc", "unimplemented", "breaks have no explanation", ("gb_type", "context", "hints")),
    Need("torch.fx.experimental.symbolic_shapes", "GuardOnDataDependentSymNode", _BREAKS),
    Need(
        "torch._dynamo.symbolic_convert",
        "InstructionTranslatorBase.log_graph_break",
        _BREAKS,
        ("code_options", "reason", "exc"),
    ),
    Need(
        "torch._dynamo.convert_frame",
        "ConvertFrameAssert.__call__",
        "skipped frames can't be seen",
        ("frame",),
    ),
    Need("torch._dynamo.convert_frame", "_compile", "compiled frames can't be counted", ("code",)),
    Need(
        "torch._dynamo.convert_frame",
        "get_and_maybe_log_recompilation_reasons",
        "recompiles can't be seen",
        ("frame",),
    ),
    Need("torch._dynamo.output_graph", "OutputGraph.call_user_compiler", "graphs can't be counted", ("gm",)),
    Need(
        "torch._dynamo.resume_execution",
        "ContinueExecutionCache.generated_code_metadata",
        "functions behind a break have Dynamo's names and inexact columns",
    ),
    Need(
        "torch._dynamo.variables.lazy",
        "LazyVariableTracker.is_realized",
        "local variables can't be described",
    ),
    Need(
        "torch._dynamo.variables.lazy",
        "LazyVariableTracker.original_value",
        "local variables can't be described",
    ),
    Need(
        "torch._logging",
        "trace_structured",
        "the hooks can't be checked against the structured trace",
        ("name", "metadata_fn", "payload_fn"),
    ),
    Need("torch._dynamo.variables.functions", "UserFunctionVariable.get_code", _TRAPS),
    Need("torch._dynamo.variables.builder", "get_fake_value", _TRAPS, ("node", "tx")),
    Need("torch._dynamo.variables.builder", "VariableBuilder.wrap_listlike", _TRAPS, ("value",)),
    Need("torch._dynamo.variables.lists", "DequeVariable.call_method", _TRAPS, ("tx", "name", "args")),
    Need("torch._dynamo.variables.misc", "NumpyVariable.call_function", _TRAPS),
    Need("torch._dynamo.variables.misc", "call_random_fn", _TRAPS),
    Need("torch._functorch.config", "fake_tensor_propagate_real_tensors", _PROBE),
    Need("torch._dynamo.symbolic_convert", "InstructionTranslatorBase.call_function", _PROBE, ("fn", "args")),
    Need("torch._dynamo.symbolic_convert", "InstructionTranslatorBase._load_attr", _PROBE),
    Need("torch._dynamo.symbolic_convert", "InstructionTranslator.dispatch_table", _PROBE),
    Need("torch._dynamo.symbolic_convert", "InliningInstructionTranslator.dispatch_table", _PROBE),
    Need("torch._dynamo.symbolic_convert", "InliningGeneratorInstructionTranslator.dispatch_table", _PROBE),
    Need("torch._dynamo.output_graph", "OutputGraph.compile_subgraph", _PROBE),
    Need("torch.fx.experimental.symbolic_shapes", "ShapeEnv._log_real_tensor_propagation", _PROBE),
)


@functools.cache
def missing(needs: tuple[Need, ...] = NEEDS) -> tuple[str, ...]:
    """One sentence for each name that this torch lacks or that takes other parameters; empty when all is
    well."""
    return tuple(problem for need in needs if (problem := _problem(need)))


def _problem(need: Need) -> str:
    full = f"{need.module}.{need.name}"
    try:
        found: Any = importlib.import_module(need.module)
        for part in need.name.split("."):
            found = getattr(found, part)
    except (ImportError, AttributeError):
        return _sentence(f"has no {full}", need.lost)
    if not need.parameters:
        return ""
    parameters = inspect.signature(found).parameters
    lacking = [name for name in need.parameters if name not in parameters]
    if lacking:
        return _sentence(f"has a {full} without the parameter {', '.join(lacking)}", need.lost)
    return ""


def _sentence(what: str, lost: str) -> str:
    return f"torch {torch.__version__} {what}: {lost}. onegraph is made for torch {SUPPORTED} to 2.14."
