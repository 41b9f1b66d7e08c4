"""The GitHub action and the pre-commit hooks, as far as a machine without either can try them."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
yaml = pytest.importorskip("yaml")

PROGRAM = """\
import torch


def f(x):
    print(x.shape)
    return x * 2


def make():
    return f, (torch.ones(3),)
"""


def test_the_action_reads_only_inputs_that_it_has() -> None:
    text = (ROOT / "action.yml").read_text()
    action = yaml.safe_load(text)
    assert action["runs"]["using"] == "composite"
    assert set(re.findall(r"inputs\.([\w-]+)", text)) == set(action["inputs"])
    for step in action["runs"]["steps"]:
        assert step["shell"] == "bash"
        assert "${{" not in step["run"]  # what a pull request can choose is data, never a part of a script


def test_the_hooks_are_commands_that_exist() -> None:
    from onegraph.apps.cli import main

    for hook in yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text()):
        program, verb, *_ = hook["entry"].split()
        assert program == "onegraph" and verb in main.commands
        assert hook["language"] == "system" and hook["pass_filenames"] is False


@pytest.mark.skipif(sys.platform == "win32", reason="a shell script")
def test_the_step_of_the_action(tmp_path: Path) -> None:
    (tmp_path / "prog.py").write_text(PROGRAM)
    env = {
        **os.environ,
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        "TARGET": "prog.py:make",
        "OPTIONS": "--max-breaks 0",
        "FOLDER": "out",
        "GITHUB_OUTPUT": str(tmp_path / "output"),
        "GITHUB_STEP_SUMMARY": str(tmp_path / "summary.md"),
    }
    done = subprocess.run(
        ["bash", str(ROOT / "tools" / "github_action.sh")],
        cwd=tmp_path,
        env=env,
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 1, done.stderr
    assert "::error title=onegraph%3A print_call,file=prog.py,line=5" in done.stdout
    assert (tmp_path / "output").read_text() == "exit-code=1\n"
    assert "| print\\_call | prog.py:5" in (tmp_path / "summary.md").read_text()
    assert {each.name for each in (tmp_path / "out").iterdir()} == {
        "onegraph.json",
        "onegraph.sarif",
        "onegraph.html",
    }
