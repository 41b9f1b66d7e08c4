"""What CUDA graphs can't hold, predicted without a GPU, at the user's line."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from click.testing import CliRunner
from torch import nn

from onegraph.apps.cli import main
from onegraph.cudagraphs import Prediction, predict
from onegraph.model import Call, Program


class Base(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.mix = nn.Linear(8, 8)
        self.norm = nn.LayerNorm(8)
        self.register_buffer("count", torch.zeros(()))


class Clean(Base):
    def forward(self, x):
        return F.gelu(self.norm(self.mix(x)))


class Dropout(Base):
    def forward(self, x):
        return F.dropout(self.mix(x), 0.5, training=True)


class Attention(Base):
    def forward(self, x):
        q = self.mix(x)[None, None]
        return F.scaled_dot_product_attention(q, q, q)


class Counter(Base):
    def forward(self, x):
        self.count.add_(1)
        return self.mix(x) + self.count


class Number(Base):
    def forward(self, x):
        return self.mix(x) * x.sum().item()


class Constant(Base):
    def forward(self, x):
        return self.mix(x) * torch.tensor(2.0)


class Moved(Base):
    def forward(self, x):
        return self.mix(x) + torch.arange(8).to(x.device)


class OnCpu(Base):
    def forward(self, x):
        return self.mix(x).cpu()


class Rows(Base):
    def forward(self, x):
        return self.mix(x[x[:, 0] > 0]).sum()


class Cond(Base):
    def forward(self, x):
        return torch.cond(x.sum() > 0, lambda: self.mix(x), lambda: x * 2, ())


class Masked(Base):
    def forward(self, x):
        y = self.mix(x) * 1
        y[y > 0] = 0
        return y


class InPlace(Base):
    def forward(self, x):
        x.add_(1)
        return self.mix(x)


class Breaks(Base):
    def forward(self, x):
        print("here")
        return self.mix(x)


def predicted(model: nn.Module) -> Prediction:
    return predict(Program("model", model, (Call((torch.randn(4, 8),), {}),)))


@pytest.mark.parametrize("model", [Clean, Dropout, Attention, Counter, Number, Constant])
def test_a_program_that_stays_on_the_device_is_captured_whole(model: type[nn.Module]) -> None:
    prediction = predicted(model())
    assert prediction.whole, prediction
    assert set(prediction.obstacles) == {"forward", "backward"}


@pytest.mark.parametrize(
    ("model", "kind", "code"),
    [
        (Moved, "device copy", "return self.mix(x) + torch.arange(8).to(x.device)"),
        (OnCpu, "device copy", "return self.mix(x).cpu()"),
        (Rows, "size from data", "return self.mix(x[x[:, 0] > 0]).sum()"),
        (Cond, "control flow", "return torch.cond(x.sum() > 0, lambda: self.mix(x), lambda: x * 2, ())"),
        (Masked, "index_put with a mask", "y[y > 0] = 0"),
    ],
)
def test_what_splits_the_graph_is_named_at_its_line(model: type[nn.Module], kind: str, code: str) -> None:
    prediction = predicted(model())
    assert prediction.captured and not prediction.whole
    found = {each.kind: each for each in prediction.obstacles["forward"]}
    assert found[kind].code == code and found[kind].file == __file__


def test_an_input_changed_in_place_keeps_everything_from_capture() -> None:
    model = InPlace().requires_grad_(False)
    prediction = predicted(model)
    (obstacle,) = prediction.obstacles["forward"]
    assert obstacle.kind == "mutated input" and obstacle.code == "x.add_(1)"
    assert not prediction.captured


def test_sizes_that_vary_are_recorded_again() -> None:
    program = Program("model", Clean(), (Call((torch.randn(4, 8),), {}),), {"dynamic": True})
    assert {each.kind for each in predict(program).obstacles["forward"]} == {"dynamic shape"}


def test_a_graph_break_is_said_first() -> None:
    prediction = predicted(Breaks())
    assert "onegraph fix" in prediction.missing and not prediction.whole


def test_the_original_is_untouched() -> None:
    model = Counter()
    before = {name: value.clone() for name, value in model.state_dict().items()}
    predicted(model)
    assert all(torch.equal(before[name], value) for name, value in model.state_dict().items())
    assert all(parameter.grad is None for parameter in model.parameters())


def test_the_command_names_the_line_and_says_that_it_is_a_prediction(tmp_path: Path) -> None:
    file = tmp_path / "masked.py"
    file.write_text(
        "import torch\n\nclass M(torch.nn.Module):\n    def forward(self, x):\n        y = x * 2\n"
        "        y[y > 0] = 0\n        return y\n\ndef build():\n    return M(), (torch.rand(4, 8),)\n"
    )
    result = CliRunner().invoke(main, ["cudagraphs", f"{file}:build"])
    assert result.exit_code == 1, result.output
    assert "y[y > 0] = 0" in result.output and "torch.where(mask, y, x)" in result.output
    assert "not checked against hardware" in result.output
