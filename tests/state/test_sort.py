"""``sort_of``: what makes a call one of another sort, and what does not."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

from onegraph.state import sort_of

X = torch.ones(3, 4)
T = torch.tensor


def function(x: Any, y: Any = None) -> None: ...


def of(x: Any, y: Any = None) -> str:
    return sort_of(function, {"x": x, "y": y})


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ((X,), (X.double(),)),
        ((X,), (X[0],)),
        ((X,), (X[:1],)),
        ((X,), (X[:0],)),
        ((X,), (X.t(),)),
        ((X,), (X[:1].expand(3, 4),)),
        ((X,), (X.clone().requires_grad_(),)),
        ((X,), (torch.nn.Parameter(X, requires_grad=False),)),
        ((X,), ([X],)),
        (([X, X[0]],), ([X[0], X],)),
        (([X],), ((X,),)),
        (([X],), ([X, X + 1],)),
        (({"a": X},), ({"b": X},)),
        ((X, X.clone()), (X, X)),
        ((X, X.clone()), (X, X[1:])),
        ((X, None), (X, X + 1)),
        ((X, 2), (X, 2.0)),
        ((X, 2), (X, T(2))),
        ((X, 2), (X, 0)),
        ((X, 1), (X, True)),
        ((X, True), (X, False)),
        ((X, "sum"), (X, "mean")),
        ((X, torch.float32), (X, torch.float64)),
    ],
)
def test_another_sort(first: tuple[Any, ...], second: tuple[Any, ...]) -> None:
    assert of(*first) != of(*second)


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ((X,), (torch.zeros(7, 9),)),
        ((X, 2), (X + 1, 30)),
        ((X, 0.5), (X, -7.0)),
        (([X, X + 1],), ([X[1:], X + 2],)),
    ],
)
def test_other_values_and_sizes_are_the_same_sort(first: tuple[Any, ...], second: tuple[Any, ...]) -> None:
    assert of(*first) == of(*second)


@pytest.mark.parametrize(
    "mode", [torch.no_grad, torch.inference_mode, lambda: torch.autocast("cpu", torch.bfloat16)]
)
def test_the_modes_of_torch_count(mode: Callable[[], Any]) -> None:
    before = of(X)
    with mode():
        assert of(X) != before
    assert of(X) == before


class Net(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = torch.nn.Linear(4, 4)
        self.scale: Any = 2.0
        self.steps = 5
        self.seen: list[float] = [0.5]

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.linear(x)


@pytest.mark.parametrize(
    ("change", "another"),
    [
        (lambda net: net.eval(), True),
        (lambda net: net.linear.eval(), True),
        (lambda net: net.double(), True),
        (lambda net: net.linear.bias.requires_grad_(False), True),
        (lambda net: setattr(net, "scale", None), True),
        (lambda net: setattr(net, "scale", T(2.0)), True),
        (lambda net: setattr(net, "scale", 3.0), False),
        (lambda net: setattr(net, "steps", 6), False),
        (lambda net: net.seen.append(0.7), False),
        (lambda net: net(X).sum().backward(), False),
    ],
)
def test_the_state_of_a_module_counts(change: Callable[[Net], Any], another: bool) -> None:
    net = Net()
    before = sort_of(net, {"x": X})
    change(net)
    assert (sort_of(net, {"x": X}) != before) is another


def test_without_a_target_the_state_is_left_out() -> None:
    assert sort_of(None, {"x": X}) == sort_of(None, {"x": X + 1}) != sort_of(None, {"x": X.double()})
