"""The helper of a step that a drawn number skips."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from onegraph.lowering import host_op_text, layer_skip
from onegraph.torch_private import dynamo

from .lowered import load

HELPERS = host_op_text.helper_text(host_op_text.HELPER, "torch") + "\n\n" + layer_skip.helper_text("torch")
PROGRAM = """

def f(x, draw, wide):
    def step(x):
        return (x * 2).double() if wide else x * 2

    return _unless(draw < 0.5, step, x)
"""


@pytest.mark.parametrize("wide", [False, True])
@pytest.mark.parametrize("draw", [0.1, 0.9])
def test_a_step_that_gives_another_dtype_is_chosen_by_python(tmp_path: Path, wide: bool, draw: float) -> None:
    f = load(tmp_path, HELPERS + PROGRAM, [()]).program.target
    dynamo.reset()
    x = torch.ones(3)
    compiled = torch.compile(f, backend="eager", fullgraph=not wide)
    expected = f(x, torch.tensor(draw), wide)
    torch.testing.assert_close(compiled(x, torch.tensor(draw), wide), expected)
