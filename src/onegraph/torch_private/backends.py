"""Several compiler backends behind one capture, and what inductor needs to run here."""

from __future__ import annotations

import copy
import shutil
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import Any

import torch
import torch._dynamo
from torch._inductor import config as inductor_config
from torch._inductor import utils as inductor_utils
from torch.fx import GraphModule

Compiled = Callable[..., Any]


class Switch:
    """A backend that compiles every graph with each of ``names`` and runs the one named by ``current``.

    One capture by Dynamo, which costs most, serves them all. ``options`` are for inductor alone.
    """

    def __init__(self, names: Sequence[str], options: dict[str, Any] | None = None) -> None:
        self.names = tuple(names)
        self.current = self.names[0]
        self.graphs = 0
        self._options = options or {}

    def __call__(self, gm: GraphModule, example_inputs: list[Any]) -> Compiled:
        self.graphs += 1
        compiled = {name: self._compile(name, gm, example_inputs) for name in self.names}

        def run(*args: Any) -> Any:
            return compiled[self.current](*args)

        return run

    def _compile(self, name: str, gm: GraphModule, example_inputs: list[Any]) -> Compiled:
        if name == "eager":
            return gm.forward
        own = gm if len(self.names) == 1 else _copied(gm)
        backend: Any = torch._dynamo.lookup_backend(name)
        keywords = {"config_patches": self._options} if name == "inductor" and self._options else {}
        return backend(own, example_inputs, **keywords)  # type: ignore[no-any-return]


def _copied(gm: GraphModule) -> GraphModule:
    """A graph of its own, for backends change it; parameters and constants are the same objects."""
    made = GraphModule(gm, copy.deepcopy(gm.graph))
    made.meta = dict(gm.meta)
    for name, child in gm.named_children():
        if isinstance(child, GraphModule):
            setattr(made, name, _copied(child))
    return made


def comparable_inductor() -> AbstractContextManager[Any]:
    """Inductor with eager's random numbers in eager's order, and eager's rounding between fused operations in half
    precision, so that dropout and low precision can be compared.
    """
    wanted = {"fallback_random": True, "reorder_for_peak_memory": False, "emulate_precision_casts": True}
    return inductor_config.patch({name: on for name, on in wanted.items() if hasattr(inductor_config, name)})  # type: ignore[no-any-return]


def inductor_missing() -> str:
    """Why inductor can't compile for the CPU here; "" when it can."""
    wanted = inductor_config.cpp.cxx
    names = [name for name in (wanted if isinstance(wanted, (tuple, list)) else (wanted,)) if name]
    if any(shutil.which(name) for name in names) or any(map(shutil.which, ("g++", "clang++", "c++"))):
        return ""
    return "no C++ compiler was found (install g++ or clang++, or set CXX)"


def fresh_compiler_cache() -> AbstractContextManager[Any]:
    """Inductor with an empty cache on disk and in memory: a first call as on a new machine."""
    made: AbstractContextManager[Any] = inductor_utils.fresh_cache()
    return made
