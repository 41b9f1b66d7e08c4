"""What a CUDA graph can't hold, one rule each, read off one node of an ATen graph.

The rules follow torch 2.13: `torch/_inductor/scheduler.py` (should_partition), `cudagraph_utils.py`, `utils.py`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch.fx import Graph, Node

from onegraph.torch_private import aot_graphs as graphs
from onegraph.tracebacks import frames


@dataclass(frozen=True, slots=True)
class Obstacle:
    """One operation that splits the CUDA graph, or keeps the whole from being captured (``whole``)."""

    kind: str
    operation: str
    sentence: str
    step: str
    whole: bool = False
    file: str = ""
    line: int = 0
    function: str = ""
    code: str = ""


def obstacles(graph: Graph, static: frozenset[str]) -> Iterator[Obstacle]:
    """Every obstacle in program order; ``static`` are the inputs whose memory stays (parameters, buffers)."""
    for node in graph.nodes:
        found = _of(node, static)
        if found is not None:
            yield found


def _of(node: Node, static: frozenset[str]) -> Obstacle | None:
    devices = {tensor.device.type for tensor in graphs.tensors_of(node)}
    before = {tensor.device.type for each in node.all_input_nodes for tensor in graphs.tensors_of(each)}
    operation = str(node.target)
    if node.op == "placeholder":
        if graphs.has_symbolic_size(node) and not graphs.has_unbacked_size(node):
            return _at(
                node,
                "dynamic shape",
                "the graph is recorded again for every size that comes",
                "pad to a few sizes, or capture each size that you serve",
            )
        return None
    if node.op != "call_function":
        return None
    if graphs.is_control_flow(node):
        return _at(
            node,
            "control flow",
            f"{operation} chooses on the host, so the CUDA graph is split there",
            "torch.where, where both sides are cheap and have no effects",
        )
    if "cpu" in devices | before and len({"cpu"} | devices | before) > 1:
        return _copy(node)
    if "cpu" in devices and node.users and not _is_number(node):
        return _at(
            node,
            "CPU tensor",
            "a tensor on the CPU is computed in the graph; it runs outside of the CUDA graph",
            "create it with device=x.device, or keep it in a buffer",
        )
    if node.target is torch.ops.aten.copy_.default:
        written = node.args[0]
        if isinstance(written, Node) and written.op == "placeholder" and written.name not in static:
            return _at(
                node,
                "mutated input",
                "an input is changed in place; its memory must not move between calls",
                "return the new value, or copy into a tensor of your own that stays",
                whole=True,
            )
        return None
    if graphs.has_unbacked_size(node) and graphs.is_aten(node):
        return _at(
            node,
            "size from data",
            f"the size of what {operation} makes depends on values",
            "a masked form of fixed size (torch.where), or leave it outside",
        )
    if graphs.is_unsafe(node):
        mask = "index_put" in operation
        return _at(
            node,
            "index_put with a mask" if mask else "unsafe operation",
            "x[mask] = y asks the host how many elements there are"
            if mask
            else f"torch excludes {operation}",
            "torch.where(mask, y, x)" if mask else "leave it outside of the compiled function",
        )
    return None


def _is_number(node: Node) -> bool:
    """A constant without dimensions, which Inductor writes into the kernel."""
    return all(tensor.dim() == 0 for tensor in graphs.tensors_of(node)) and "lift_fresh" in str(node.target)


def _copy(node: Node) -> Obstacle | None:
    """Between devices. A CPU number (no dimensions) that meets a GPU tensor is inlined by Inductor."""
    cpu = [
        t for each in (node, *node.all_input_nodes) for t in graphs.tensors_of(each) if t.device.type == "cpu"
    ]
    if all(tensor.dim() == 0 for tensor in cpu) and "copy" not in str(node.target):
        return None
    return _at(
        node,
        "device copy",
        "a tensor moves between CPU and GPU inside the graph",
        "move it once, before the compiled function, or keep it in a buffer",
    )


def _at(node: Node, kind: str, sentence: str, step: str, *, whole: bool = False) -> Obstacle:
    at = frames(node.meta.get("stack_trace") or "")[-1:]
    return Obstacle(kind, str(node.target), sentence, step, whole, *(at[0] if at else ()))
