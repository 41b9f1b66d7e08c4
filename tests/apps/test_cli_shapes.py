"""``onegraph shapes`` on the command line."""

from __future__ import annotations

import json
from pathlib import Path

from click.testing import CliRunner

from onegraph.apps.cli import main

FREE = """
import torch

def build():
    return torch.nn.Linear(6, 3), (torch.rand(4, 6),)
"""


def test_the_setting_is_named_and_the_exit_code_is_0(tmp_path: Path) -> None:
    file = tmp_path / "free.py"
    file.write_text(FREE)
    result = CliRunner().invoke(main, ["shapes", f"{file}:build", "--vary", "input:0=2..16"])
    assert result.exit_code == 0, result.output
    assert "torch._dynamo.mark_dynamic(input, 0)" in result.output


def test_a_wrong_vary_is_wrong_usage(tmp_path: Path) -> None:
    file = tmp_path / "wrong.py"
    file.write_text(FREE)
    result = CliRunner().invoke(main, ["shapes", f"{file}:build", "--vary", "ids:0=2..16"])
    assert result.exit_code == 2
    assert "no tensor argument 'ids'; there are: input" in result.output


def test_as_json(tmp_path: Path) -> None:
    file = tmp_path / "branch.py"
    file.write_text(
        "import torch\n\ndef f(x):\n    return x + 1 if x.shape[0] > 16 else x * 2\n\n"
        "def build():\n    return f, (torch.rand(4, 6),)\n"
    )
    out = tmp_path / "report.json"
    result = CliRunner().invoke(main, ["shapes", f"{file}:build", "--format", "json", "-o", str(out)])
    assert result.exit_code == 1, result.output
    (program,) = json.loads(out.read_text())["programs"]
    assert not program["one_artifact"]
    causes = [step["causes"][0] for step in program["trials"][1]["steps"] if step["causes"]]
    assert causes[0]["what"] == "x:0" and causes[0]["code"].startswith("return x + 1 if x.shape[0] > 16")
