"""``shapes`` finds what recompiles, names the line, and proves that a range shares one artifact."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn

from onegraph.model import Call, Program
from onegraph.report.shapes_text import shapes_text
from onegraph.report.text import to_text
from onegraph.shapes import AxisError, ShapesResult, shapes


def program(target: Any, *calls: tuple[Any, ...]) -> Program:
    return Program(getattr(target, "__name__", "model"), target, tuple(Call(call, {}) for call in calls))


def axes(result: ShapesResult) -> list[str]:
    return [axis.name for axis in result.axes]


def kinds(result: ShapesResult, trial: int = 0) -> list[str]:
    return [step.causes[0].kind for step in result.trials[trial].recompiles]


def test_sizes_that_must_change_together_are_one_axis() -> None:
    def scores(query, key, mask):
        return torch.softmax(query @ key.transpose(-1, -2) + mask, -1)

    result = shapes(program(scores, (torch.rand(2, 4, 8), torch.rand(2, 4, 8), torch.rand(2, 4, 4))))
    assert axes(result) == ["query:0+key:0+mask:0", "query:1+key:1+mask:1+mask:2", "query:2+key:2"]


def test_sizes_that_are_equal_by_accident_are_axes_of_their_own() -> None:
    def product(x, y):
        return x @ y

    result = shapes(program(product, (torch.rand(4, 4), torch.rand(4, 4))))
    assert axes(result) == ["x:0", "x:1+y:0", "y:1"]
    assert result.best.shared


def test_a_size_that_the_weights_fix_is_no_axis() -> None:
    result = shapes(program(nn.Linear(6, 3), (torch.rand(4, 6),)))
    assert axes(result) == ["input:0"]


def test_a_free_size_needs_two_artifacts_as_it_is_and_one_when_it_is_marked() -> None:
    def double(x):
        return x * 2

    result = shapes(program(double, (torch.rand(4, 6),)), "x:0=2..64")
    assert [trial.artifacts for trial in result.trials] == [2, 1]
    assert kinds(result) == ["size"]
    assert result.best.name == "mark_dynamic" and result.best.shared
    assert result.best.code == ("torch._dynamo.mark_dynamic(x, 0)",)
    assert result.best.proof.checked == 63 and result.best.proof.exhaustive


def test_one_artifact_for_0_and_1_too() -> None:
    result = shapes(program(nn.Sequential(nn.Linear(6, 6), nn.ReLU()), (torch.rand(4, 6),)), "input:0=0..64")
    assert result.best.name == "mark_unbacked" and result.best.shared


def test_a_line_that_decides_on_a_size_is_named() -> None:
    def more(x):
        if x.shape[0] > 16:
            x = x + 1
        return x * 2

    result = shapes(program(more, (torch.rand(4, 6),)), "x:0=2..64")
    assert result.best.artifacts == 2 and not result.best.shared
    cause = result.best.recompiles[0].causes[0]
    assert cause.kind == "branch on a size" and cause.what == "x:0"
    assert cause.code == "if x.shape[0] > 16:" and cause.place.startswith(__file__)


def test_a_line_that_fixes_a_size_is_named() -> None:
    def eight(x):
        return x.sum(1) if x.shape[0] == 8 else x.mean(1)

    result = shapes(program(eight, (torch.rand(8, 3),)), "x:0=2..64")
    marked = next(trial for trial in result.trials if trial.name == "mark_dynamic")
    cause = marked.failed[0].causes[0]
    assert (cause.kind, cause.what) == ("fixed size", "x:0")
    assert "if x.shape[0] == 8" in cause.code and cause.place.startswith(__file__)
    assert result.best.artifacts == 2


def test_sizes_that_eager_refuses_are_no_counterexample() -> None:
    def pairs(x):
        return x.view(x.shape[0] // 2, 2, 3).sum(1)

    result = shapes(program(pairs, (torch.rand(8, 3),)), "x:0=2..9")
    assert result.best.shared and result.best.proof.refused_by_eager == 4
    assert result.refused and all(step.sizes["x:0"] % 2 for step in result.refused)


def test_the_smallest_size_that_needs_another_artifact_is_a_counterexample() -> None:
    def two(x):
        return x * 2 if x.shape[0] < 70 else x * 3

    result = shapes(program(two, (torch.rand(8, 3),)), "x:0=2..80")
    assert not result.best.shared  # 80 was run, so both artifacts are there
    assert result.best.artifacts == 2 and result.best.proof.holds


def test_a_counter_of_the_module_recompiles_at_every_call() -> None:
    class Counting(nn.Module):
        def __init__(self):
            super().__init__()
            self.steps = 0

        def forward(self, x):
            self.steps += 1
            return x * self.steps

    model = Counting()
    result = shapes(program(model, (torch.rand(4),)), "x:0=2..64")
    assert not result.best.shared and result.trials[0].limit_reached
    numbers = [step.causes[0] for step in result.trials[0].recompiles if step.causes[0].kind == "number"]
    assert {cause.what for cause in numbers} == {"self.steps"}
    assert "register_buffer" in numbers[0].step
    assert model.steps == 0  # everything as before


def test_a_python_number_that_changes_is_named() -> None:
    def scaled(x, factor):
        return x * factor

    x = torch.rand(3)
    result = shapes(program(scaled, (x, 0.5), (x, 0.25), (x, 0.125)), "x:0=3")
    causes = [step.causes[0] for step in result.trials[0].recompiles]
    assert causes[0].kind == "number" and causes[0].what == "factor"


def test_a_graph_break_is_said_first() -> None:
    def printing(x):
        print("hello")
        return x * 2

    result = shapes(program(printing, (torch.rand(4),)), "x:0=2..8")
    assert "breaks" in result.trials[0].proof.missing
    assert "onegraph fix m.py:make" in to_text(shapes_text(result, "m.py:make"))


def test_a_sample_stands_for_a_large_product_and_says_so() -> None:
    def both(x, y):
        return x.sum(1) * 2, y * 3

    result = shapes(program(both, (torch.rand(4, 6), torch.rand(7))), "x:0=2..200,y:0=2..200")
    assert result.best.shared and not result.best.proof.exhaustive
    assert result.best.proof.checked <= 4096 + 200


@pytest.mark.parametrize(
    ("vary", "says"),
    [
        ("z:0=1..4", "no tensor argument 'z'; there are: x"),
        ("x:5=1..4", "x has 2 dimensions"),
        ("x:0=9..4", "the range is empty"),
        ("x:0=many", "is no range of sizes"),
        ("x", "write NAME:DIM"),
    ],
)
def test_a_vary_that_does_not_fit_is_an_error_that_says_what_there_is(vary: str, says: str) -> None:
    with pytest.raises(AxisError, match=says):
        shapes(program(lambda x: x + 1, (torch.rand(2, 3),)), vary)


def test_the_report_names_the_setting_to_write() -> None:
    result = shapes(program(nn.Linear(6, 3), (torch.rand(4, 6),)), "input:0=2..32")
    text = to_text(shapes_text(result, "m.py:make"))
    assert "one artifact serves all these sizes, with mark_dynamic" in text
    assert "next: before the first call: torch._dynamo.mark_dynamic(input, 0)" in text
    assert "dimension 0 of `input` was 4 when it was compiled" in text


@pytest.mark.parametrize(
    "still",
    [
        lambda x: x + 1,
        lambda x: x.sum(0),
        lambda x: torch.cat([x, x]),
        lambda x: x.reshape(-1),
        lambda x: x.transpose(0, 1) @ x,
        lambda x: torch.arange(x.shape[0]),
        lambda x: x.new_zeros(x.shape[0], 3) + x,
        lambda x: x.unbind(1)[0],
        lambda x: x * x.shape[0],
        lambda x: x[: x.shape[0] // 2 + 1],
        lambda x: nn.functional.pad(x, (0, 1)),
        lambda x: x.cumsum(0),
        lambda x: torch.softmax(x, 0),
        lambda x: x.max(1).values,
        lambda x: x.expand(2, *x.shape),
        lambda x: torch.where(x > 0, x, -x),
        lambda x: x.std(1, unbiased=False),
        lambda x: x.flip(0),
        lambda x: nn.functional.layer_norm(x, (3,)),
        lambda x: torch.stack([x, x * 2]).mean(0),
    ],
)
def test_no_false_alarm_where_one_artifact_serves(still: Any) -> None:
    result = shapes(program(still, (torch.rand(5, 3),)), "x:0=2..64")
    assert result.best.shared and result.best.name == "mark_dynamic"
