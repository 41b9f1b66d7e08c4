"""The graphs that Inductor would get, forward and backward, with its own rules on what CUDA graphs can hold."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch._dynamo.backends.common import aot_autograd
from torch._functorch._aot_autograd.utils import make_boxed_func
from torch._guards import TracingContext
from torch._inductor.utils import is_cudagraph_unsafe_fx_node
from torch.fx import GraphModule, Node
from torch.fx.experimental.symbolic_shapes import free_symbols, free_unbacked_symbols
from torch.utils import _pytree as pytree

Seen = Callable[[str, GraphModule], None]


def capture(target: Callable[..., Any], seen: Seen, **options: Any) -> Callable[..., Any]:
    """``target`` under torch.compile as one graph; ``seen("forward" | "backward", graph)`` is told of each."""

    def compiler(name: str) -> Callable[[GraphModule, Any], Any]:
        def compile_(gm: GraphModule, example_inputs: Any) -> Any:
            seen(name, gm)
            return make_boxed_func(gm.forward)

        return compile_

    backend = aot_autograd(
        fw_compiler=compiler("forward"),
        bw_compiler=compiler("backward"),
        keep_inference_input_mutations=True,
    )
    return torch.compile(target, backend=backend, fullgraph=True, **options)


def is_unsafe(node: Node) -> bool:
    """Inductor's own list: host reads, random state, tagged and sparse operations, index_put with a bool mask."""
    return bool(is_cudagraph_unsafe_fx_node(node))


def has_unbacked_size(node: Node) -> bool:
    value = node.meta.get("val")
    return value is not None and bool(free_unbacked_symbols(value))


def has_symbolic_size(node: Node) -> bool:
    value = node.meta.get("val")
    return value is not None and bool(free_symbols(value))


def tensors_of(node: Node) -> list[torch.Tensor]:
    """The (fake) tensors that a node makes."""
    return [leaf for leaf in pytree.tree_leaves(node.meta.get("val")) if isinstance(leaf, torch.Tensor)]


def is_control_flow(node: Node) -> bool:
    return isinstance(node.target, torch._ops.HigherOrderOperator)


def static_inputs(gm: GraphModule) -> frozenset[str]:
    """The inputs of a forward graph whose memory stays from call to call: parameters and buffers. Asked while the
    graph is compiled."""
    context = TracingContext.try_get()
    facts = context.fw_metadata if context is not None else None
    inputs = [node.name for node in gm.graph.nodes if node.op == "placeholder"]
    return frozenset(inputs[number] for number in (facts.static_input_indices if facts is not None else ()))


def is_aten(node: Node) -> bool:
    return isinstance(node.target, torch._ops.OpOverload)
