"""``onegraph check`` and ``baseline``: what is accepted passes, what is new fails, and the file shrinks."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import jsonschema
import pytest
from click.testing import Result

Command = Callable[..., Result]


def test_a_baseline_accepts_what_is_there_and_shrinks_by_itself(onegraph: Command, folder: Path) -> None:
    file = folder / "onegraph-baseline.json"
    assert onegraph("check", "targets.py:breaks").exit_code == 1
    assert not file.exists()
    written = onegraph("baseline", "write", "targets.py:breaks")
    assert written.exit_code == 0, written.output
    assert "1 added, 0 removed, 1 in all" in written.stdout

    result = onegraph("check", "targets.py:breaks")
    assert result.exit_code == 0, result.output
    assert "in the baseline: 1 break\n  targets.py:6:8  branch_on_tensor" in result.stdout
    assert "passed: 1 break accepted" in result.stdout
    assert onegraph("check", "targets.py:breaks", "--no-baseline").exit_code == 1

    shown = onegraph("baseline", "show").stdout
    assert "targets.py:breaks · 1\n  targets.py  branch  branch_on_tensor\n      if x.sum() > 0:" in shown

    targets = folder / "targets.py"
    targets.write_text("# moved\n" + targets.read_text().replace("if x.sum() > 0:", "if True:"))
    result = onegraph("check", "targets.py:breaks")
    assert result.exit_code == 0, result.output
    assert "fixed: 1 entry of the baseline (taken out of onegraph-baseline.json: commit it)" in result.stdout
    assert json.loads(file.read_text())["torch"] == {}
    assert "no entry" in onegraph("baseline", "show").stdout


def test_prune_only_takes_out(onegraph: Command, folder: Path) -> None:
    onegraph("baseline", "write", "targets.py:breaks")
    targets = folder / "targets.py"
    targets.write_text(targets.read_text().replace("if x.sum() > 0:", "if x.mean() > 0:"))
    result = onegraph("baseline", "prune", "targets.py:breaks")
    assert result.exit_code == 0, result.output
    assert "1 removed, 0 kept" in result.stdout
    assert onegraph("check", "targets.py:breaks").exit_code == 1


def test_a_suppression_with_its_reason(onegraph: Command, folder: Path) -> None:
    targets = folder / "targets.py"
    line = "    if x.sum() > 0:"
    targets.write_text(
        targets.read_text().replace(line, f"    # onegraph: ignore[branch_on_tensor] two sizes\n{line}", 1)
    )
    result = onegraph("check", "targets.py:breaks")
    assert result.exit_code == 0, result.output
    assert "suppressed: 1 break\n  targets.py:7:8  branch_on_tensor  two sizes" in result.stdout


def test_settings_name_the_target_and_the_limits(onegraph: Command, folder: Path) -> None:
    (folder / "pyproject.toml").write_text(
        '[tool.onegraph]\ntarget = "targets.py:breaks"\nlimits = { breaks = 1 }\n'
    )
    assert onegraph("check").exit_code == 0
    assert onegraph("check", "--max-breaks", "0").exit_code == 1
    assert onegraph("run").exit_code == 2


def test_json_tells_the_standing_of_each_break(onegraph: Command) -> None:
    onegraph("baseline", "write", "targets.py:breaks")
    result = onegraph("check", "targets.py:breaks", "--format", "json")
    assert result.exit_code == 0, result.output
    report = json.loads(result.stdout)
    jsonschema.validate(report, json.loads(onegraph("schema").stdout))
    assert report["command"] == "check"
    assert report["gate"]["passed"] is True
    assert [site["standing"] for site in report["sites"]] == ["baselined"]
    (call, *_) = report["calls"]
    assert call["function"] == "branch"
    assert "break" in [segment["what"] for segment in call["segments"]]


@pytest.mark.parametrize("words", [("check",), ("baseline", "write"), ("baseline", "prune")])
def test_nothing_compiled_is_a_failure(onegraph: Command, folder: Path, words: tuple[str, ...]) -> None:
    assert onegraph(*words, "targets.py:no_tensors").exit_code == 5
    assert not (folder / "onegraph-baseline.json").exists()


def test_recompiles(onegraph: Command, folder: Path) -> None:
    (folder / "sizes.py").write_text(
        "import torch\n"
        "def f(x, n):\n    return x * n\n"
        "def make():\n    return f, [(torch.ones(3), 'a' and n) for n in (1.5, 2, True)]\n"
    )
    assert onegraph("check", "sizes.py:make").exit_code == 0
    result = onegraph("check", "sizes.py:make", "--max-recompiles", "0")
    assert result.exit_code == 1, result.output
    assert "recompiles (limit 0)" in result.stdout


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("check",), "give a TARGET"),
        (("check", "targets.py:breaks", "--baseline", "b", "--no-baseline"), "exclude each other"),
        (("check", "targets.py:breaks", "--max-breaks", "-1"), "-1 is not in the range"),
    ],
)
def test_usage(onegraph: Command, words: tuple[str, ...], said: str) -> None:
    result = onegraph(*words)
    assert result.exit_code == 2
    assert said in result.stderr


def test_a_faulty_file_is_a_usage_error(onegraph: Command, folder: Path) -> None:
    (folder / "onegraph-baseline.json").write_text("{}")
    result = onegraph("check", "targets.py:breaks")
    assert result.exit_code == 2
    assert "is no baseline of version 1" in result.stderr
    (folder / "pyproject.toml").write_text("[tool.onegraph]\ntargets = 'x'\n")
    result = onegraph("baseline", "show")
    assert result.exit_code == 2
    assert "did you mean target?" in result.stderr
