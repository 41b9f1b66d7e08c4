"""The public functions in Python."""

from __future__ import annotations

import functools
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

import onegraph
from onegraph import pipeline
from onegraph.facade import Report
from onegraph.model import Call, Program
from onegraph.targets import TargetError, TargetFailed


def positive(x: torch.Tensor, *, scale: float = 2.0) -> torch.Tensor:
    if x.sum() > 0:
        return x * scale
    return x - 1


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(3, 3)
        self.register_buffer("calls", torch.zeros(()))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.calls += 1
        print("shape", tuple(x.shape))
        result: torch.Tensor = self.layer(x)
        return result


def test_explain_has_the_call_shape_of_dynamos() -> None:
    report = onegraph.explain(positive)(torch.ones(3), scale=3.0)
    assert report.graphs == 2
    (site,) = report.sites
    assert (site.function, site.source) == ("positive", "x.sum() > 0")
    assert "x.sum() > 0" in str(report)
    assert repr(report).startswith("<onegraph report: 2 graphs")
    assert json.loads(report.to_json())["graphs"] == 2


def test_explaining_leaves_the_model_and_the_inputs_alone(capsys: pytest.CaptureFixture[str]) -> None:
    model, x = Net(), torch.ones(2, 3)
    report = onegraph.explain(model)(x)
    assert [site.function for site in report.sites] == ["Net.forward"]
    assert model.calls.item() == 0
    assert capsys.readouterr().out == ""


def test_what_torch_compile_returned_is_looked_through() -> None:
    report = onegraph.explain(torch.compile(positive, backend="eager"))(torch.ones(3))
    assert report.graphs == 2


def test_options_are_those_of_torch_compile() -> None:
    report = onegraph.explain(lambda x: x * x.shape[0], dynamic=True)(torch.ones(3))
    assert report.graphs == 1
    with pytest.raises(TypeError):
        onegraph.explain(positive, no_such_option=1)(torch.ones(3))


def test_nothing_compiled_is_said() -> None:
    assert "nothing was compiled" in str(onegraph.explain(lambda n: n + 1)(3))


def test_a_target_that_can_not_be_compiled() -> None:
    with pytest.raises(TargetError, match="written in C"):
        onegraph.explain(len)([1])


def test_a_target_that_raises() -> None:
    def broken(x: torch.Tensor) -> torch.Tensor:
        raise ValueError("no data")

    with pytest.raises(TargetFailed, match="ValueError: no data"):
        onegraph.explain(broken)(torch.ones(1))


def test_watch_sees_everything_compiled_inside() -> None:
    with onegraph.watch() as report:
        compiled = torch.compile(positive, backend="eager")
        compiled(torch.ones(3))
        assert report.graphs == 2
        compiled(-torch.ones(3))
    assert report.graphs == 3
    assert len(report.sites) == 1
    torch.compile(positive, backend="eager", dynamic=False)(torch.ones(5))
    assert report.graphs == 3


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], Callable[..., torch.Tensor]]:
    def load(text: str) -> Callable[..., torch.Tensor]:
        (tmp_path / "given_model.py").write_text("import torch\n\n\n" + text)
        monkeypatch.syspath_prepend(str(tmp_path))
        monkeypatch.chdir(tmp_path)
        monkeypatch.delitem(__import__("sys").modules, "given_model", raising=False)
        import given_model  # type: ignore[import-not-found]

        program: Callable[..., torch.Tensor] = given_model.program
        return program

    return load


PRINTS = "def program(x):\n    h = x.sin()\n    print('shape', tuple(h.shape))\n    return h * 2\n"


def test_fix_mends_shows_and_applies(
    module: Callable[[str], Callable[..., torch.Tensor]], tmp_path: Path
) -> None:
    fix = onegraph.fix(module(PRINTS))(torch.ones(3))
    assert fix.verified, fix.evidence
    assert [repair.kind for repair in fix.repairs] == ["print_call"]
    assert fix.diff.startswith("--- a/given_model.py\n+++ b/given_model.py\n")
    assert "2 graphs → 1" in str(fix)
    assert (tmp_path / "given_model.py").read_text().endswith(PRINTS)  # nothing written yet
    assert fix.apply() == (str(tmp_path / "given_model.py"),)
    mended = module((tmp_path / "given_model.py").read_text().removeprefix("import torch\n\n\n"))
    assert onegraph.explain(mended)(torch.ones(3)).sites == ()


def test_fix_takes_level_select_and_ignore(module: Callable[[str], Callable[..., torch.Tensor]]) -> None:
    program = module(PRINTS)
    for narrowed in (
        onegraph.fix(program, level="exact"),
        onegraph.fix(program, ignore=["print_call"]),
        onegraph.fix(program, select=["item_call"]),
    ):
        fix = narrowed(torch.ones(3))
        assert fix.diff == ""
        assert fix.repairs[0].reason
        assert fix.apply() == ()


def test_fix_of_code_without_source_says_so() -> None:
    names: dict[str, Callable[..., torch.Tensor]] = {}
    exec("def f(x):\n    if x.sum() > 0:\n        return x * 2\n    return x + 1\n", names)
    fix = onegraph.fix(names["f"])(torch.ones(3))
    assert fix.diff == ""
    assert "has no file" in fix.repairs[0].reason


def test_the_package_lists_its_public_names() -> None:
    assert {"compile", "explain", "fix", "overlay", "watch"} <= set(dir(onegraph))
    for name in dir(onegraph):
        assert getattr(onegraph, name) is not None
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        onegraph.nothing  # noqa: B018


def steps(x: torch.Tensor) -> Any:
    for i in range(2):
        print("step", i)
        yield x + i


def test_where_the_probe_stopped_early_is_told() -> None:
    program = Program("steps", steps, (Call((torch.ones(2),)),))
    report = Report("steps", functools.partial(pipeline.run, program))
    (sentence,) = report.findings.trace.unseen
    assert sentence.startswith("probe of call 1 stopped at")
    assert "not looked at further" in str(report) and json.loads(report.to_json())["unseen"] == [sentence]
