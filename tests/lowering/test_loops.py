"""Loops that a tensor ends: the same program uncompiled, forced, and in one graph with its gradients."""

from __future__ import annotations

import copy
from pathlib import Path

import pytest
import torch

from onegraph import verify
from onegraph.lowering import lower_loop
from onegraph.model import Candidate, Declined
from onegraph.rewrite.swap import swapped
from onegraph.rewrite.workspace import Workspace
from onegraph.state import preserved
from onegraph.torch_private import dynamo

from .loop_cases import DECLINED, LOOPS, Loop, Refusal
from .lowered import Loaded, load, lower


@pytest.mark.parametrize("loop", LOOPS, ids=lambda loop: loop.title)
def test_every_candidate_is_the_same_program(tmp_path: Path, loop: Loop) -> None:
    loaded = load(tmp_path, loop.before, loop.inputs)
    found = lower(loaded, loop.condition, lowering=lower_loop)
    candidates = [c for c in found if isinstance(c, Candidate)]
    assert candidates, found
    for candidate in candidates:
        for line in loop.has:
            assert line in candidate.text
        mended = loaded.mended(candidate)
        evidence = verify.uncompiled(loaded.program, loaded.workspace, mended, candidate.predicates)
        assert evidence.verified, (candidate.title, evidence.checks)
    for gradients in (False, True) if loop.gradients else (False,):
        expected = results(loaded, loaded.workspace, gradients, compiled=False)
        actual = results(loaded, loaded.mended(candidates[0]), gradients, compiled=True)
        torch.testing.assert_close(actual, expected)


def results(loaded: Loaded, text: Workspace, gradients: bool, *, compiled: bool) -> list[object]:
    """Outputs, gradients and buffers on every input; compiled in one graph, backend eager."""
    dynamo.reset()
    found: list[object] = []
    target = loaded.program.target
    parameters = list(target.parameters()) if isinstance(target, torch.nn.Module) else []
    buffers = list(target.buffers()) if isinstance(target, torch.nn.Module) else []
    with swapped(text):
        f = torch.compile(target, backend="eager", fullgraph=True) if compiled else target
        for call in loaded.program.calls:
            args = copy.deepcopy(call.args)
            leaves = [a.requires_grad_() for a in args if gradients and a.is_floating_point()]
            with preserved(loaded.program), torch.set_grad_enabled(gradients):
                torch.manual_seed(0)
                out = f(*args)
                outputs = list(out) if isinstance(out, tuple) else [out]
                needed = [t.sum() for t in outputs if isinstance(t, torch.Tensor) and t.requires_grad]
                wanted = [*leaves, *parameters]
                grads = torch.autograd.grad(sum(needed), wanted, allow_unused=True) if needed else ()
                found.append(
                    (
                        [t.detach().clone() if isinstance(t, torch.Tensor) else t for t in outputs],
                        [
                            torch.zeros_like(w) if g is None else g
                            for w, g in zip(wanted, grads, strict=False)
                        ],
                        [b.detach().clone() for b in buffers],
                    )
                )
    return found


@pytest.mark.parametrize("refusal", DECLINED, ids=lambda refusal: refusal.title)
def test_declined_with_its_reason(tmp_path: Path, refusal: Refusal) -> None:
    found = lower(load(tmp_path, refusal.before, refusal.inputs), refusal.condition, lowering=lower_loop)
    assert all(isinstance(each, Declined) for each in found), found
    assert refusal.reason in " | ".join(each.reason for each in found if isinstance(each, Declined))
    assert all(each.next_step for each in found if isinstance(each, Declined))


def test_a_limit_that_is_infinite_on_another_call(tmp_path: Path) -> None:
    """Python never comes to it: the tensor ends the loop, as in the program."""
    before = """\
def f(x, limit):
    n = 0
    while (x > 0.5).any() and n < limit:
        x = x * 0.5
        n += 1
    return x, n
"""
    x = torch.linspace(-1, 2, 12)
    loaded = load(tmp_path, before, ((x, 3), (x * 4, 3)))
    (candidate, *_) = lower(loaded, "(x > 0.5).any() and n < limit", lowering=lower_loop)
    assert isinstance(candidate, Candidate)
    with swapped(loaded.mended(candidate)):
        for f in (loaded.program.target, torch.compile(loaded.program.target, backend="eager")):
            out, trips = f(x, float("inf"))
            torch.testing.assert_close(out, x / 4)
            assert trips == 2


def test_a_trip_that_the_loop_does_not_make_is_not_run(tmp_path: Path) -> None:
    """Behind the last row there is none: a trip at its end is an IndexError."""
    before = """\
def f(i, table):
    total = table.sum()
    while i < 4:
        total = total + table.index_select(0, i.view(1)).sum()
        i = i + 1
    return total
"""
    table = torch.arange(4.0)
    loaded = load(tmp_path, before, ((torch.tensor(0), table), (torch.tensor(4), table)))
    (candidate, *_) = lower(loaded, "i < 4", lowering=lower_loop)
    assert isinstance(candidate, Candidate)
    with swapped(loaded.mended(candidate)):
        f = torch.compile(loaded.program.target, backend="eager", fullgraph=True)
        assert [f(*call.args).item() for call in loaded.program.calls] == [12.0, 6.0]
