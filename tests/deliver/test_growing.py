"""What torch captures with fullgraph=True alone, and compiles again for every call."""

from __future__ import annotations

from typing import Any

import torch

import onegraph
from imported import imported

HISTORY = """\
import torch


class Train(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.linear, self.history = torch.nn.Linear(3, 2), []

    def forward(self, x):
        loss = self.linear(x).mean()
        self.history.append(loss.item())
        return loss
"""


def test_a_list_that_grows_by_a_number_a_call_ends_up_as_one_graph(tmp_path: Any) -> None:
    graphs: list[object] = []

    def backend(graph: Any, inputs: Any) -> Any:
        graphs.append(graph)
        return graph.forward

    model = imported(tmp_path, HISTORY).Train()
    compiled = onegraph.compile(model, backend=backend)
    with torch._dynamo.config.patch(recompile_limit=2):
        losses = [compiled(torch.rand(2, 3)) for _ in range(6)]
    assert len(graphs) == 3  # two before the limit, and the mended one
    assert model.history == [loss.item() for loss in losses]
