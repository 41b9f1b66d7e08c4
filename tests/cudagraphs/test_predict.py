"""What CUDA graphs can't hold, predicted without a GPU, at the user's line.

A prediction registers its device for the whole process, so they are made in a process of their own.
"""

from __future__ import annotations

import multiprocessing
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from types import ModuleType

import pytest
import torch
import torch.nn.functional as F
from torch import nn

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


def prediction_of(model: nn.Module, **options: bool) -> Prediction:
    return predict(Program("model", model, (Call((torch.randn(4, 8),), {}),), options))


def left_as_it_was(model: nn.Module) -> bool:
    before = {name: value.clone() for name, value in model.state_dict().items()}
    prediction_of(model)
    same = all(torch.equal(before[name], value) for name, value in model.state_dict().items())
    return same and all(parameter.grad is None for parameter in model.parameters())


@pytest.fixture(scope="module")
def elsewhere() -> Iterator[ProcessPoolExecutor]:
    with pytest.MonkeyPatch.context() as patched:
        patched.setitem(
            sys.modules, "__main__", ModuleType("__main__")
        )  # the new process is to run no main program
        with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as pool:
            yield pool


@pytest.mark.parametrize("model", [Clean, Dropout, Attention, Counter, Number, Constant])
def test_a_program_that_stays_on_the_device_is_captured_whole(
    elsewhere: ProcessPoolExecutor, model: type[nn.Module]
) -> None:
    prediction = elsewhere.submit(prediction_of, model()).result()
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
def test_what_splits_the_graph_is_named_at_its_line(
    elsewhere: ProcessPoolExecutor, model: type[nn.Module], kind: str, code: str
) -> None:
    prediction = elsewhere.submit(prediction_of, model()).result()
    assert prediction.captured and not prediction.whole
    found = {each.kind: each for each in prediction.obstacles["forward"]}
    assert found[kind].code == code and found[kind].file == __file__


def test_an_input_changed_in_place_keeps_everything_from_capture(elsewhere: ProcessPoolExecutor) -> None:
    model = InPlace().requires_grad_(False)
    prediction = elsewhere.submit(prediction_of, model).result()
    (obstacle,) = prediction.obstacles["forward"]
    assert obstacle.kind == "mutated input" and obstacle.code == "x.add_(1)"
    assert not prediction.captured


def test_sizes_that_vary_are_recorded_again(elsewhere: ProcessPoolExecutor) -> None:
    prediction = elsewhere.submit(prediction_of, Clean(), dynamic=True).result()
    assert {each.kind for each in prediction.obstacles["forward"]} == {"dynamic shape"}


def test_a_graph_break_is_said_first(elsewhere: ProcessPoolExecutor) -> None:
    prediction = elsewhere.submit(prediction_of, Breaks()).result()
    assert "onegraph fix" in prediction.missing and not prediction.whole


def test_the_original_is_untouched(elsewhere: ProcessPoolExecutor) -> None:
    assert elsewhere.submit(left_as_it_was, Counter()).result()


def test_the_command_names_the_line_and_says_that_it_is_a_prediction(tmp_path: Path) -> None:
    file = tmp_path / "masked.py"
    file.write_text(
        "import torch\n\nclass M(torch.nn.Module):\n    def forward(self, x):\n        y = x * 2\n"
        "        y[y > 0] = 0\n        return y\n\ndef build():\n    return M(), (torch.rand(4, 8),)\n"
    )
    command = [sys.executable, "-m", "onegraph", "cudagraphs", f"{file}:build"]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    assert result.returncode == 1, result.stdout + result.stderr
    assert "y[y > 0] = 0" in result.stdout and "torch.where(mask, y, x)" in result.stdout
    assert "not checked against hardware" in result.stdout
