"""The calls at the entry points of torch.compile become programs."""

from __future__ import annotations

import torch
from torch import nn

from onegraph.targets import recorded


def double(x: torch.Tensor, scale: float = 2.0) -> torch.Tensor:
    return x * scale


def test_each_signature_is_kept_once_as_it_was_at_the_call() -> None:
    with recorded() as recording:
        compiled = torch.compile(double, backend="eager", dynamic=False)
        x = torch.ones(2)
        for value in range(3):
            compiled(x.fill_(value))
        compiled(torch.ones(3), scale=3.0)
        x.fill_(9)
    (entry,) = recording.entries()
    program = entry.program
    assert program.target is double
    assert program.options == {"backend": "eager", "dynamic": False}
    assert [call.args[0].tolist() for call in program.calls] == [[0, 0], [1, 1, 1]]
    assert program.calls[1].kwargs == {"scale": 3.0}


def test_results_are_those_of_torch_compile() -> None:
    x = torch.ones(2, requires_grad=True)
    with recorded():
        compiled = torch.compile(double, backend="eager")
        y = compiled(x)
    y.sum().backward()
    assert x.grad is not None
    assert x.grad.tolist() == [2, 2]
    assert torch._dynamo.eval_frame.innermost_fn(compiled) is double  # Dynamo still sees through it


def test_modules_in_all_three_forms() -> None:
    with recorded() as recording:
        wrapped = nn.Linear(2, 2)
        torch.compile(wrapped, backend="eager")(torch.ones(1, 2))
        in_place = nn.Linear(2, 2)
        in_place.compile(backend="eager")
        in_place(torch.ones(1, 2))

        @torch.compile(backend="eager")
        def decorated(x: torch.Tensor) -> torch.Tensor:
            return x + 1

        decorated(torch.ones(2))
    targets = [entry.target for entry in recording.entries()]
    assert targets[:2] == [wrapped, in_place]
    assert targets[2].__name__ == "decorated"


def test_grad_mode_and_training_mode_are_kept_apart_and_come_back() -> None:
    model = nn.Sequential(nn.Linear(2, 2), nn.Dropout())
    with recorded() as recording:
        compiled = torch.compile(model, backend="eager")
        compiled(torch.ones(1, 2))
        model.eval()
        with torch.no_grad():
            compiled(torch.ones(1, 2))
    training, evaluating = recording.entries()
    with training.mode():
        assert model.training and model[1].training and torch.is_grad_enabled()
    with evaluating.mode():
        assert not model.training and not torch.is_grad_enabled()
    assert not model.training


def test_a_compiled_function_called_by_another_one_is_part_of_it() -> None:
    with recorded() as recording:
        inner = torch.compile(double, backend="eager")

        def outer(x: torch.Tensor) -> torch.Tensor:
            return inner(x) + 1

        compiled = torch.compile(outer, backend="eager", fullgraph=True)
        assert compiled(torch.ones(2)).tolist() == [3, 3]
    assert [entry.target.__name__ for entry in recording.entries()] == ["outer"]


def test_torch_compile_is_itself_again_afterwards() -> None:
    before = torch.compile
    with recorded():
        assert torch.compile is not before
    assert torch.compile is before
