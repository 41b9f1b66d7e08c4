"""Ops made of code, and repairs of state: calls of another kind than those recorded give what eager mode gives."""

from __future__ import annotations

import copy
import random
import warnings
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import ops_programs
import pytest
import torch

import onegraph
from imported import fixed, imported


def tensors(value: Any) -> Iterator[torch.Tensor]:
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, tuple | list):
        for item in value:
            yield from tensors(item)


def observed(module: ModuleType, program: Any, arguments: tuple[Any, ...]) -> dict[str, Any]:
    """What one call gives and leaves behind; of an exception, that there was one."""
    arguments = copy.deepcopy(arguments)
    leaves = [t for t in tensors(arguments) if t.requires_grad]
    found: dict[str, Any] = {}
    try:
        results = list(tensors(program(*arguments)))
        found["outputs"] = [(r.detach().clone(), r.requires_grad) for r in results]
        loss = sum(r.float().square().sum() for r in results if r.requires_grad)
        if leaves and isinstance(loss, torch.Tensor):
            found["gradients"] = torch.autograd.grad(loss, leaves, allow_unused=True)
    except (AttributeError, IndexError, RuntimeError, TypeError, ValueError):
        found["raises"] = True
    found["arguments"] = list(tensors(arguments))
    found["flags"] = [t.requires_grad for t in tensors(arguments)]
    found["buffers"] = (
        dict(module.program.named_buffers()) if isinstance(module.program, torch.nn.Module) else {}
    )
    found["random"] = torch.get_rng_state(), random.getstate()[1], np.random.get_state()[2]
    return copy.deepcopy(found)


def run(module: ModuleType, backend: str | None) -> list[dict[str, Any]]:
    """All calls, in order, on one program."""
    torch._dynamo.reset()
    torch.manual_seed(3), np.random.seed(3), random.seed(3)
    program = module.program if backend is None else torch.compile(module.program, backend=backend)
    return [observed(module, program, call) for call in (*module.inputs(), *module.others())]


@pytest.mark.parametrize("name", ops_programs.MENDED)
def test_calls_of_another_kind(name: str, tmp_path: Path) -> None:
    text = ops_programs.MENDED[name]
    (change,) = fixed(tmp_path, text).changes
    expected = run(imported(tmp_path, text), None)
    assert any("outputs" in each for each in expected)
    for backend in (None, "eager", "aot_eager"):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found = run(imported(tmp_path, change.mended), backend)
        for number, (own, eager) in enumerate(zip(found, expected, strict=True)):
            where = f"{backend}, call {number}: "
            torch.testing.assert_close(own, eager, rtol=0, atol=0, msg=where.__add__)


@pytest.mark.parametrize("name", ops_programs.DECLINED)
def test_declined(name: str, tmp_path: Path) -> None:
    text, reason = ops_programs.DECLINED[name]
    result = fixed(tmp_path, text)
    assert not result.changes
    assert any(reason in repair.reason for repair in result.repairs), [r.reason for r in result.repairs]


@pytest.mark.parametrize("name", ["TOTAL", "LAYER_IN_PLACE"])
def test_a_model_that_is_converted_stays_one_graph(name: str, tmp_path: Path) -> None:
    (change,) = fixed(tmp_path, ops_programs.MENDED[name]).changes
    module = imported(tmp_path, change.mended)
    torch._dynamo.reset()
    first, *rest = module.inputs()[0]
    program = torch.compile(module.program, backend="eager", fullgraph=True)
    assert next(tensors(program(first.half(), *rest))).dtype == torch.float16


def test_compile_mends_a_loop_over_a_tensor_of_unknown_size(tmp_path: Path) -> None:
    """Torch raises here what it raises nowhere else, and it reached the user."""
    module = imported(tmp_path, ops_programs.OVERLAP)
    (call,) = module.inputs()
    mended = onegraph.compile(module.program, backend="eager")
    torch.testing.assert_close(mended(*call), module.program(*call))
