"""Statements that draw random numbers become one op: the same numbers, in one graph."""

from __future__ import annotations

import random
from pathlib import Path

import numpy as np
import pytest
import torch

from imported import fixed, imported
from onegraph.model import Status
from onegraph.torch_private import backends

TEXT = """\
import random

import numpy as np
import torch


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.scale = torch.nn.Parameter(torch.ones(6))
        self.random, self.numpy = random.Random(3), np.random.default_rng(3)
        self.torch = torch.Generator().manual_seed(3)
        self.seed = 0

    def forward(self, x, count=3):
        x = x * self.scale
{body}


program = Model()


def inputs():
    return [(torch.arange(6.0),), (torch.linspace(-1, 1, 6), 4)]
"""


def text(body: str) -> str:
    return TEXT.format(body="\n".join(f"        {line}" for line in body.splitlines()))


BODIES = [
    pytest.param("order = list(range(len(x)))\nrandom.shuffle(order)\nreturn x[order]", id="a shuffled list"),
    pytest.param(
        "order = list(range(x.shape[0]))\nrandom.shuffle(order)\n"
        "picked = random.sample(order, count)\nreturn x[order].cumsum(0) + x[picked].sum()",
        id="a shuffled list and a sample of it",
    ),
    pytest.param("return x[random.sample(range(x.size(0)), 3)]", id="a sample as an index"),
    pytest.param(
        "keep = sorted(random.sample(range(6), 4))\nreturn x[keep][keep[:2]]",
        id="a sorted sample, and a part",
    ),
    pytest.param(
        "mask = torch.zeros_like(x, dtype=torch.bool)\nfor i in random.sample(range(len(x)), 2):\n"
        "    mask[i] = True\nreturn x.masked_fill(mask, 0.0)",
        id="places of a mask",
    ),
    pytest.param(
        "places = np.arange(6)\nnp.random.shuffle(places)\nreturn x[torch.from_numpy(places)]",
        id="a shuffled array",
    ),
    pytest.param(
        "stream = np.random.default_rng(7)\nnoise = stream.normal(size=(6,))\n"
        "return x + torch.from_numpy(noise).float()",
        id="a NumPy generator of its own",
    ),
    pytest.param(
        "return x + torch.from_numpy(self.numpy.normal(size=6))", id="a NumPy generator of the model"
    ),
    pytest.param("return x * self.random.uniform(0.5, 1.5)", id="a stream of the model"),
    pytest.param(
        "return x + torch.randn(x.shape, generator=self.torch)", id="a torch generator of the model"
    ),
    pytest.param(
        "stream = torch.Generator().manual_seed(count)\nreturn x + torch.rand(x.shape, generator=stream)",
        id="a torch generator with a seed",
    ),
    pytest.param(
        "with torch.random.fork_rng():\n    torch.manual_seed(3)\n    noise = torch.randn_like(x)\nreturn x + noise",
        id="a seed in a fork",
    ),
    pytest.param("random.seed(count)\nreturn x * random.random()", id="Python's stream seeded"),
    pytest.param(
        "torch.manual_seed(count)\nreturn torch.nn.functional.dropout(x, 0.5)", id="torch's stream seeded"
    ),
    pytest.param(
        "self.seed = int(torch.initial_seed() % 1000) + 1\ntorch.manual_seed(self.seed)\n"
        "return torch.nn.functional.dropout(x, 0.5)",
        id="a seed that is drawn and kept",
    ),
]

WITH_INDUCTOR = [BODIES[1].values[0], BODIES[-1].values[0]]


@pytest.mark.parametrize("body", BODIES)
def test_one_graph_with_the_numbers_of_eager_mode(
    tmp_path: Path, body: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if body not in WITH_INDUCTOR:
        monkeypatch.setattr(backends, "inductor_missing", lambda: "it takes its time")
    result = fixed(tmp_path, text(body))
    assert not result.after.sites
    assert all(check.passed for check in result.evidence.checks if check.name != "inductor"), result.evidence
    before, after = imported(tmp_path, text(body)), imported(tmp_path, result.changes[0].mended)
    compiled = torch.compile(after.program, backend="aot_eager", fullgraph=True)
    for arguments in [*before.inputs(), *before.inputs()]:
        assert torch.equal(_drawn(before.program, arguments), _drawn(compiled, arguments))
        assert torch.equal(before.program.scale.grad, after.program.scale.grad)
    assert before.program.seed == after.program.seed


def _drawn(program: torch.nn.Module, arguments: tuple[object, ...]) -> torch.Tensor:
    """The result, and what is drawn next."""
    torch.manual_seed(5)
    random.seed(5)
    np.random.seed(5)
    result = program(*arguments)
    result.sum().backward()
    following = torch.tensor([random.random(), np.random.rand(), float(torch.rand(()))])
    return torch.cat([result.detach().flatten(), following])


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        pytest.param(
            "order = self.random.sample(range(2), 2)\nfor i in order:\n    x = [torch.sin, torch.cos][i](x)\nreturn x",
            "needs in Python",
            id="a list that chooses functions",
        ),
        pytest.param(
            "torch.rand(3)\ntorch.manual_seed(3)\nreturn x + torch.rand(6)",
            "are drawn in front of line",
            id="a seed behind other numbers",
        ),
        pytest.param(
            "with torch.random.fork_rng():\n    noise = torch.rand(6)\nreturn x + noise - torch.rand(6)",
            "would not be the same numbers",
            id="numbers that are drawn twice",
        ),
    ],
)
def test_declined(tmp_path: Path, body: str, reason: str) -> None:
    result = fixed(tmp_path, text(body))
    assert not result.changes
    assert any(reason in repair.reason for repair in result.repairs if repair.status is not Status.APPLIED)
