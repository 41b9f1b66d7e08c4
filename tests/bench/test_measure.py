"""``bench`` runs eager, as it is and mended in turns; no test here looks at a time."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from torch import nn

from onegraph import pipeline
from onegraph.bench import Arm, Measured, Result, arms, measure
from onegraph.model import Call, Program
from onegraph.report.bench_text import bench_text, verdict
from onegraph.report.text import to_text


class Clamped(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.mix = nn.Linear(8, 8)
        self.calls = 0

    def forward(self, x):
        x = self.mix(x)
        if x.abs().max() > 100:
            x = x.clamp(-100, 100)
        return x * 2


def program() -> Program:
    return Program("Clamped", Clamped(), (Call((torch.rand(4, 8),), {}),), {"backend": "aot_eager"})


def test_three_arms_with_their_graphs_and_what_autograd_keeps() -> None:
    subject = program()
    result = measure(subject, arms(subject, pipeline.fix(subject)), rounds=4, seconds=0.001)
    eager, as_it_is, mended = result.arms
    assert (eager.graphs, eager.breaks) == (None, None)
    assert (as_it_is.graphs, as_it_is.breaks) == (2, 1)
    assert (mended.graphs, mended.breaks) == (1, 0)
    assert result.step == "training step" and all(arm.saved_bytes for arm in result.arms)
    assert all(len(arm.rounds) == 4 for arm in result.arms)


def test_without_gradients_only_the_forward_pass_is_run() -> None:
    subject = program()
    with torch.no_grad():
        result = measure(subject, [Arm("eager", subject.target, None)], rounds=4, seconds=0.001)
    assert result.step == "forward" and result.arms[0].saved_bytes is None


def test_everything_is_as_before_afterwards() -> None:
    subject = program()
    before = torch.random.get_rng_state()
    measure(subject, [Arm("eager", subject.target, None)], rounds=4, seconds=0.001)
    assert all(parameter.grad is None for parameter in subject.target.parameters())
    assert torch.equal(before, torch.random.get_rng_state())


def arm(name: str, *rounds: float) -> Measured:
    return Measured(name, 1.0, rounds[0], 0.0, None, None, None, None, rounds)


@pytest.mark.parametrize(
    ("mended", "says"),
    [
        ((1.0,) * 10, "mended is 2.00x as fast as it is compiled today"),
        ((1.9, 2.1) * 5, "no gain at this size"),
        ((4.0,) * 10, "mended is slower"),
    ],
)
def test_the_verdict_is_a_sentence(mended: tuple[float, ...], says: str) -> None:
    result = Result("p", "forward", "cpu", 1, 5, (arm("eager", *(3.0,) * 10), arm("as it is", *(2.0,) * 10)))
    assert "nothing was mended" in verdict(result)
    assert says in verdict(replace(result, arms=(*result.arms, arm("mended", *mended))))
    assert "onegraph run m.py:make" in to_text(bench_text(result, "m.py:make"))
