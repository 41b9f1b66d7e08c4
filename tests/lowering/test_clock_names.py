"""Times that are measured in the compiled function, kept and shown."""

from __future__ import annotations

from pathlib import Path

import pytest

from imported import fixed

MODEL = """\
import time
import torch


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = torch.nn.ModuleList(torch.nn.Linear(3, 3) for _ in range(2))
        self.times, self.last, self.total = {{}}, 0.0, 0.0

    def forward(self, x):
{body}


program = Model()


def inputs():
    return [(torch.linspace(-1, 2, 6).view(2, 3),)]
"""
BY_LAYER = """\
for i, layer in enumerate(self.layers):
    start = time.perf_counter()
    x = layer(x).relu()
    self.times[i] = time.perf_counter() - start
return x
"""
WHOLE = """\
start = time.time()
for layer in self.layers:
    x = layer(x).relu()
took = time.time() - start
{shown}
return x
"""


def model(body: str) -> str:
    return MODEL.format(body="\n".join(f"        {line}" for line in body.splitlines()))


@pytest.mark.parametrize(
    "body",
    [
        pytest.param(BY_LAYER, id="kept by layer"),
        pytest.param(WHOLE.format(shown="self.total += took"), id="added to a total"),
        pytest.param(WHOLE.format(shown='print(f"took {took:.3f} s")'), id="printed"),
        pytest.param(
            WHOLE.format(shown="self.last = round(took * 1000, 3)\nprint(took)"), id="rounded and printed"
        ),
    ],
)
def test_times_are_read_in_order_in_one_graph(tmp_path: Path, body: str) -> None:
    result = fixed(tmp_path, model(body))
    assert result.evidence.verified, result.evidence.checks
    assert not result.after.sites, [site.source for site in result.after.sites]
    moved = (
        [note for repair in result.repairs for note in repair.moved]
        if hasattr(result.repairs[0], "moved")
        else []
    )
    assert not moved or any("no longer that of the lines" in note for note in moved)
