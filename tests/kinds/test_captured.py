"""Sizes and whole numbers that values decide, as symbols of the graph: one graph in the default mode."""

from __future__ import annotations

import pytest
import torch
from torch._dynamo.testing import CompileCounterWithBackend

from onegraph.model import Candidate, Level
from onegraph.state import World, run_call
from onegraph.verify.compare import compare

from .conftest import Load, Loaded

INPUTS = """\


def inputs():
    x = torch.linspace(-1, 2, 12).view(4, 3).requires_grad_()
    return [(x, torch.tensor(n)) for n in ([1, 0, 2, 1], [0, 0, 0, 0], [1, 0, 0, 3])]
"""


def module(body: str) -> str:
    lines = "".join(f"    {line}\n" for line in body.split("\n"))
    return f"import torch\nimport torch.nn.functional as F\n\n\ndef program(x, n):\n{lines}{INPUTS}"


def mended(load: Load, text: str) -> Loaded:
    """Every site by its first repair."""
    for _ in range(9):
        loaded = load(text)
        sites = loaded.findings().sites
        if not sites:
            return loaded
        proposed = loaded.repairs(sites[0].kind, Level.EXACT)
        text = next(each.text for each in proposed if isinstance(each, Candidate))
    raise AssertionError("it breaks again and again")


BODIES = [
    "return x[n > 0].sum(0)",
    "return x[n > 0, 1:]",
    "return x[x > 0].sum(), torch.masked_select(x, x > 0)",
    "rows = torch.where(n == 1)[0]\nreturn x[rows].relu(), rows",
    "return n.nonzero(), n.nonzero(as_tuple=True), torch.argwhere(x > 0)",
    "y = x.clone()\ny[n > 0] += 1\nreturn y",
    "y = x.clone()\ny[n > 0] = x[n > 0] * 2\nreturn y",
    "return x.repeat_interleave(n, dim=0), torch.repeat_interleave(n), x.repeat_interleave(n[:1] + 1)",
    "u, c = torch.unique(n, return_counts=True)\nreturn u * 2, c, torch.unique(n), n.unique(return_inverse=True)",
    "return torch.unique_consecutive(n, return_inverse=True, return_counts=True)",
    "return torch.bincount(n, minlength=2), torch.bincount(n), F.one_hot(n)",
    "k = int((n > 0).sum())\nreturn torch.cat([x[:k] * 2, x[k:]]), k",
    "k = (n > 0).sum().item()\nreturn torch.arange(k), torch.zeros(k, 2), x * k",
    "a, b = x.split([int(n[0] + 1), int(3 - n[0])])\nreturn a.sum(0) + b.sum(0)",
    "a, b = x.split(torch.stack([n[0] + 1, 3 - n[0]]).tolist())\nreturn a.sum(0) + b.sum(0)",
    "return x * 2, {'all': n.tolist(), 'most': int(n.max()), 'at': x.argmax().item()}",
    "return x * 2, n.any().item(), bool((x > 1).all())",
    "return x * int(x.sum())",
    "rows = [x[i].repeat(2).repeat_interleave(n[[i, i, i, 3, 2, 1]]) for i in range(3)]\n"
    "return torch.nn.utils.rnn.pad_sequence(rows), torch.nn.utils.rnn.pad_sequence(rows, True, -1.0)",
]


@pytest.mark.parametrize("body", BODIES)
def test_one_graph_and_the_same_results_and_gradients(load: Load, body: str) -> None:
    before = load(module(body))
    after = mended(load, before.text)
    counter = CompileCounterWithBackend("aot_eager")
    torch._dynamo.reset()
    compiled = torch.compile(after.program.target, backend=counter)
    world = World(before.program)
    world.snapshot()
    for mine, other in zip(before.program.calls, after.program.calls, strict=True):
        expected = run_call(before.program.target, mine, grad=True, world=world)
        for target in (after.program.target, compiled):
            assert not compare(expected, run_call(target, other, grad=True), exact=True).failures(Level.EXACT)
    assert counter.frame_count == 1


def test_a_tensor_of_another_dtype_is_read_by_python_as_before(load: Load) -> None:
    after = mended(load, module("return x * 2, n[0].item()"))
    assert after.program.target(torch.ones(2), torch.tensor([1.5]))[1] == 1.5
    torch._dynamo.reset()
    compiled = torch.compile(after.program.target, backend="eager")
    assert compiled(torch.ones(2), torch.tensor([1.5]))[1] == 1.5


def test_where_python_asks_for_the_size_an_op_is_tried_first(load: Load) -> None:
    body = "rows = n.nonzero()\ny = torch.zeros_like(x)\nfor row in rows:\n    y[row] = x[row]\nreturn y"
    loaded = load(module(body))
    (site, *_) = loaded.findings().sites
    proposed = [p for p in loaded.repairs(site.kind, Level.RELAXED) if isinstance(p, Candidate)]
    assert proposed
    assert not proposed[0].symbols
