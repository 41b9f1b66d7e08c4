"""Variations are few, always the same, and sizes change consistently."""

from __future__ import annotations

import torch

from onegraph.model import Call, Program
from onegraph.state import World
from onegraph.verify.variations import LIMIT, other_size, recorded, variations


def varied(*args, target=lambda *a: a):
    program = Program("p", target, (Call(args),))
    world = World(program)
    world.snapshot()
    return {v.name: v for v in variations(program, world)}


def test_they_are_few_and_the_same_every_time():
    x, mask = torch.randn(2, 5), torch.ones(2, 5, dtype=torch.bool)
    first, second = varied(x, mask, target=torch.nn.Identity()), varied(x, mask, target=torch.nn.Identity())
    assert 0 < len(first) <= LIMIT and list(first) == list(second)
    for name, variation in first.items():
        assert torch.equal(variation.call.args[0], second[name].call.args[0].nan_to_num()) or "NaN" in name


def test_sizes_change_alike_in_every_argument_and_stay_apart():
    x, mask, weight = torch.randn(4, 5), torch.ones(4, dtype=torch.bool), torch.randn(5, 6)
    names = varied(x, mask, weight)
    batch = names["batch of 7 for 4"].call.args
    assert [tuple(t.shape) for t in batch] == [(7, 5), (7,), (5, 6)]
    second = names["second dimension of 7 for 5"].call.args
    assert [tuple(t.shape) for t in second] == [(4, 7), (4,), (5, 6)]


def test_a_batch_of_one_is_never_the_only_size():
    assert next(
        iter(other_size(Program("p", lambda x: x, (Call((torch.ones(1, 2),)),))).call.args)
    ).shape == (3, 2)


def test_float_inputs_get_gradients_where_gradients_are_on():
    assert varied(torch.ones(2))["floats require gradients"].call.args[0].requires_grad
    with torch.no_grad():
        assert "floats require gradients" not in varied(torch.ones(2))


def test_modules_run_in_the_other_mode_and_come_back():
    module = torch.nn.Dropout(0.5)
    program = Program("p", module, (Call((torch.ones(100),)),))
    world = World(program)
    world.snapshot()
    (other,) = (v for v in variations(program, world) if v.training is False)
    assert other.run(module, world).output.tolist() == [1.0] * 100
    assert module.training


def test_recorded_calls_are_left_as_they_are():
    x = torch.ones(2)
    (only,) = recorded(Program("p", torch.relu, (Call((x,)),)))
    assert only.call.args[0] is x
