"""A program, moved to a device that isn't there, captured forward and backward, and held against the rules."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import torch
from torch.fx import GraphModule

from onegraph.cudagraphs.rules import Obstacle, obstacles
from onegraph.model import Call, Program
from onegraph.state import tensors_in
from onegraph.torch_private import aot_graphs, dynamo
from onegraph.torch_private.fake_device import FakeDevice
from onegraph.words import first_line


@dataclass(frozen=True, slots=True)
class Prediction:
    """``obstacles`` by graph ("forward", "backward"), in program order; ``missing`` says why there is none."""

    program: str
    obstacles: dict[str, tuple[Obstacle, ...]]
    missing: str = ""

    @property
    def whole(self) -> bool:
        """Whether everything is captured as one CUDA graph (one for each direction)."""
        return not self.missing and not any(self.obstacles.values())

    @property
    def captured(self) -> bool:
        """Whether anything is captured."""
        return not self.missing and not any(each.whole for found in self.obstacles.values() for each in found)


def predict(program: Program) -> Prediction:
    """What ``mode="reduce-overhead"`` would capture of the first call of ``program``, on one GPU.

    Nothing runs: shapes, dtypes and devices alone are propagated. The backward pass is looked at where the
    caller's gradient mode is on and something requires grad. Not yet checked against hardware. The device that
    isn't there stays registered in this process: predict in a process that does nothing else.
    """
    if not isinstance(program.target, torch.nn.Module) and _closed_over(program.target):
        return Prediction(
            program.name, {}, "a function that holds a module: name the module itself as target"
        )
    dynamo.reset()
    device = FakeDevice()
    target: Any = program.target
    moved = device.module(target) if isinstance(target, torch.nn.Module) else target
    seen: dict[str, tuple[Obstacle, ...]] = {}

    def look(name: str, gm: GraphModule) -> None:
        static = aot_graphs.static_inputs(gm) if name == "forward" else frozenset[str]()
        seen[name] = (*seen.get(name, ()), *_apart(obstacles(gm.graph, static)))

    options = {"dynamic": program.options["dynamic"]} if "dynamic" in program.options else {}
    compiled = aot_graphs.capture(moved, look, **options)
    try:
        with device.active():
            _run(compiled, device.call(program.calls[0]))
    except Exception as error:  # noqa: BLE001  (whatever the capture raises is the answer)
        return Prediction(program.name, seen, _why(error))
    finally:
        dynamo.reset()
    return Prediction(program.name, seen)


def _run(compiled: Any, call: Call) -> None:
    output = compiled(*call.args, **call.kwargs)
    if torch.is_grad_enabled():
        results = [tensor for _, tensor in tensors_in(output, "") if tensor.requires_grad]
        if results:
            torch.autograd.backward([result.sum() for result in results])


def _apart(found: Iterable[Obstacle]) -> tuple[Obstacle, ...]:
    """One for each kind and line: an operation of the user becomes several of ATen."""
    first: dict[tuple[str, str, int], Obstacle] = {}
    for each in found:
        first.setdefault((each.kind, each.file, each.line), each)
    return tuple(first.values())


def _closed_over(target: Any) -> bool:
    cells = getattr(target, "__closure__", None) or ()
    return any(isinstance(cell.cell_contents, torch.nn.Module) for cell in cells)


def _why(error: Exception) -> str:
    words = first_line(str(error))
    if "device mismatch" in words.lower():
        return f"a tensor on the CPU meets one on the GPU; eager fails there too: {_last_line(error)}"
    if dynamo.is_compiler_error(error) and "fake" not in words.lower():
        return f"the graph breaks; mend that first (onegraph fix): {words}"
    return f"it can't be followed without running it: {type(error).__name__}: {words}"


def _last_line(error: Exception) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip().startswith("File ")]
    return lines[-1] if lines else first_line(str(error))
