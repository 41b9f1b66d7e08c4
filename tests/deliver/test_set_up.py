"""What only the first call does, under a lock or otherwise unfit for a graph, is done in eager mode."""

from __future__ import annotations

from typing import Any

import pytest
import torch

import onegraph
from imported import imported

HOOKED = """\
import threading
import torch

lock = threading.Lock()


def double(module, args, output):
    return output * 2


class Hooked(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(3, 3)

    def forward(self, x):
        if not getattr(self, "installed", False):
            with lock:
                self.linear.register_forward_hook(double)
                self.installed = True
        {then}


class Alternating(torch.nn.Module):
    def forward(self, x):
        if getattr(self, "odd", False):
            del self.odd
            return x * 2
        with lock:
            self.odd = True
        return x
"""


class Counting:
    def __init__(self) -> None:
        self.graphs = 0

    def __call__(self, graph: Any, inputs: Any) -> Any:
        self.graphs += 1
        return graph.forward


def test_the_first_call_sets_up_and_later_ones_are_one_graph(tmp_path: Any) -> None:
    module = imported(tmp_path, HOOKED.format(then="return self.linear(x)"))
    model, backend = module.Hooked(), Counting()
    compiled, x = onegraph.compile(model, backend=backend), torch.rand(2, 3)
    results = [compiled(x) for _ in range(3)]
    assert backend.graphs == 1
    assert len(model.linear._forward_hooks) == 1
    assert all(torch.equal(result, model(x)) for result in results)


def test_other_breaks_are_mended_behind_the_set_up(tmp_path: Any) -> None:
    then = "y = self.linear(x)\n        if y.sum() > 0:\n            return y.relu()\n        return y.sin()"
    module = imported(tmp_path, HOOKED.format(then=then))
    model, backend = module.Hooked(), Counting()
    compiled = onegraph.compile(model, backend=backend)
    for x in (torch.ones(2, 3), -torch.ones(2, 3), torch.ones(2, 3)):
        torch.testing.assert_close(compiled(x), model(x))
    assert backend.graphs == 1
    assert len(model.linear._forward_hooks) == 1


def test_a_break_of_every_other_call_is_no_set_up(tmp_path: Any) -> None:
    compiled = onegraph.compile(imported(tmp_path, HOOKED).Alternating(), backend="eager")
    x = torch.rand(3)
    with pytest.raises(onegraph.GraphBreaksLeft):
        for _ in range(4):
            compiled(x)
