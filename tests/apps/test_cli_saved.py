"""Saved reports: shown again, in other formats, and compared; nothing is run."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import Result

Command = Callable[..., Result]


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run, a check and a fix of one program, and a run of it when a break was added and one removed."""
    from click.testing import CliRunner

    from onegraph.apps.cli import main

    folder = tmp_path_factory.mktemp("saved")
    body = "    print(x.shape)\n    return x * 2\n"
    program = f"import torch\ndef f(x):\n{body}def make():\n    return f, (torch.ones(3),)\n"
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        patch.setattr(sys, "path", list(sys.path))
        Path("prog.py").write_text(program)
        for verb in ("run", "check", "fix"):
            words = [verb, "prog.py:make", "--format", "json", "-o", f"{verb}.json"]
            CliRunner().invoke(main, words)
            shown = CliRunner().invoke(main, [verb, "prog.py:make"]).stdout
            Path(f"{verb}.txt").write_text(shown)
        Path("later.py").write_text(
            program.replace("    print(x.shape)\n", "    x = x + 1\n    if x.sum() > 0:\n        x = -x\n")
        )
        CliRunner().invoke(main, ["run", "later.py:make", "--format", "json", "-o", "later.json"])
    return folder


def plain(text: str) -> list[str]:
    """Without the times, which differ from run to run."""
    return [
        line
        for line in text.splitlines()
        if " s" not in line or ("torch" not in line and "observe" not in line)
    ]


@pytest.mark.parametrize("verb", ["run", "check", "fix"])
def test_a_saved_report_reads_as_it_did(
    onegraph: Command, saved: Path, verb: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(saved)
    result = onegraph("report", f"{verb}.json")
    assert result.exit_code == 0, result.output
    assert plain(result.stdout) == plain((saved / f"{verb}.txt").read_text())


def test_other_formats(onegraph: Command, saved: Path, folder: Path) -> None:
    report = str(saved / "check.json")
    assert onegraph("report", report, "--format", "github").stdout.startswith("::error ")
    assert json.loads(onegraph("report", report, "--format", "sarif").stdout)["version"] == "2.1.0"
    assert onegraph("report", report, "--format", "html", "-o", "page.html").exit_code == 0
    assert (folder / "page.html").read_text().startswith("<!doctype html>")


def test_many_make_one_page(onegraph: Command, saved: Path) -> None:
    files = [str(saved / "run.json"), str(saved / "fix.json")]
    assert "2 reports" in onegraph("report", *files, "--format", "html").stdout
    assert onegraph("report", *files, "--format", "sarif").exit_code == 2
    shown = onegraph("report", *files).stdout
    assert "2 reports" in shown
    assert "in all: 1 break\n  prog.py:3:5  print_call  print(x.shape)" in shown


def test_compare(onegraph: Command, saved: Path) -> None:
    before, after = str(saved / "run.json"), str(saved / "later.json")
    result = onegraph("compare", before, after)
    assert result.exit_code == 1, result.output
    assert "came: 1 break\n  later.py:4:8  branch_on_tensor  x.sum() > 0" in result.stdout
    assert "went: 1 break\n  prog.py:3:5  print_call" in result.stdout
    assert "worse: 1 new break" in result.stdout
    same = onegraph("compare", before, before)
    assert same.exit_code == 0
    assert "not worse: 1 break stayed" in same.stdout
    assert json.loads(onegraph("compare", before, after, "--format", "json").stdout)["worse"] == [
        "1 new break"
    ]
    assert "- later.py:4:8" in onegraph("compare", before, after, "--format", "markdown").stdout


@pytest.mark.parametrize("text", ["", "{}", '{"command": "run"}', "[1]", '{"command": "run", "version": 99}'])
def test_what_is_no_report_is_refused(onegraph: Command, folder: Path, text: str) -> None:
    (folder / "x.json").write_text(text)
    result = onegraph("report", "x.json")
    assert result.exit_code == 2
    assert "not a JSON report of onegraph" in result.stderr
    assert onegraph("report", "missing.json").exit_code == 2


def test_no_torch_is_needed(saved: Path) -> None:
    code = (
        "import sys; sys.argv = ['onegraph', *{words!r}]\nfrom onegraph.apps.cli import main\n"
        "try: main()\nfinally: assert 'torch' not in sys.modules"
    )
    for words in (
        ["report", "fix.json", "--format", "html"],
        ["report", "check.json"],
        ["compare", "run.json", "run.json"],
    ):
        done = subprocess.run(
            [sys.executable, "-c", code.format(words=words)],
            cwd=saved,
            capture_output=True,
            text=True,
            timeout=60,
        )
        assert done.returncode == 0, done.stderr


def test_env_looks_at_this_torch_when_asked(onegraph: Command, folder: Path) -> None:
    assert "baseline      0 accepted for torch " in onegraph("env").stdout
    result = onegraph("env", "--check")
    assert result.exit_code == 0, result.output
    assert "compiles      a function became 1 graph with Inductor" in result.stdout
    (folder / "pyproject.toml").write_text("[tool.onegraph]\nx = 1\n")
    assert "settings      can't be used: " in onegraph("env").stdout
