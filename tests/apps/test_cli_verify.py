"""``onegraph verify`` on the command line."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from onegraph.apps.cli import main

PROGRAMS = """
import os
import torch

def switched(x):
    return x * 2 if os.environ.get("ONEGRAPH_TEST_SWITCH") else x + 1

def wrong():
    return torch.compile(switched, backend="aot_eager"), (torch.rand(3),)

def right():
    return torch.compile(torch.nn.Linear(3, 2), backend="aot_eager"), (torch.rand(4, 3),)

def nothing():
    return lambda n: n + 1, (1,)

if __name__ == "__main__":
    torch.compile(switched, backend="aot_eager")(torch.rand(3))
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    made = tmp_path / "programs.py"
    made.write_text(PROGRAMS)
    return made


def test_agreement_is_exit_code_0(file: Path) -> None:
    result = CliRunner().invoke(main, ["verify", f"{file}:right"])
    assert result.exit_code == 0, result.output
    assert "compiled calls do what eager does" in result.output


def test_a_difference_is_exit_code_1_with_the_variable_its_line_and_a_next_step(file: Path) -> None:
    result = CliRunner().invoke(main, ["verify", f"{file}:wrong"])
    assert result.exit_code == 1, result.output
    assert "ONEGRAPH_TEST_SWITCH=1: output differs" in result.output
    assert "programs.py:6  the compiled program does not read it again" in result.output
    assert "next: read the variable outside of the compiled function" in result.output


def test_every_callable_that_a_script_compiles_is_compared(file: Path) -> None:
    result = CliRunner().invoke(main, ["verify", str(file), "--format", "json"])
    assert result.exit_code == 1, result.output
    (program,) = json.loads(result.stdout)["programs"]
    assert not program["same"]
    assert program["divergences"][0]["layer"] == "Dynamo"


def test_nothing_compiled_is_exit_code_5(file: Path) -> None:
    result = CliRunner().invoke(main, ["verify", f"{file}:nothing"])
    assert result.exit_code == 5, result.output
