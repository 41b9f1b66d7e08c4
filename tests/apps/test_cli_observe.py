"""``onegraph run`` and ``check``: what is shown, what goes where, and the exit code."""

from __future__ import annotations

import json
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import Result

Command = Callable[..., Result]


@pytest.mark.parametrize("verb", ["run", "check"])
def test_findings(onegraph: Command, verb: str) -> None:
    result = onegraph(verb, "targets.py:breaks")
    assert result.exit_code == 1, result.output
    assert f"onegraph {verb} · targets.py:breaks" in result.stdout
    assert "targets.py:6:8  branch" in result.stdout
    assert "x.sum() > 0" in result.stdout
    assert "next: onegraph fix targets.py:breaks" in result.stdout


def test_clean(onegraph: Command) -> None:
    result = onegraph("run", "targets.py:clean")
    assert result.exit_code == 0, result.output
    assert "1 graph · no break" in result.stdout


def test_intended_breaks_are_listed_and_pass(onegraph: Command) -> None:
    result = onegraph("check", "targets.py:intended")
    assert result.exit_code == 0, result.output
    assert "breaks on purpose" in result.stdout


def test_a_script_runs_unmodified_with_its_arguments(onegraph: Command) -> None:
    result = onegraph("run", "train.py", "--", "--lr", "1")
    assert result.exit_code == 1, result.output
    assert result.stdout.startswith("hidden (2, 3)\narguments ['--lr', '1']\nonegraph run")
    assert "train.py:12:9  Net.forward" in result.stdout
    assert "next: onegraph fix train.py -- --lr 1" in result.stdout


def test_a_module_runs_as_a_script(onegraph: Command) -> None:
    result = onegraph("run", "-m", "train", "--", "--lr", "1")
    assert result.exit_code == 1, result.output
    assert "arguments ['--lr', '1']" in result.stdout
    assert "onegraph run · -m train -- --lr 1" in result.stdout


def test_code_inside_a_zip(onegraph: Command, folder: Path) -> None:
    with zipfile.ZipFile("app.zip", "w") as archive:
        archive.write("train.py", "__main__.py")
    result = onegraph("run", "app.zip")
    assert result.exit_code == 1, result.output
    assert "app.zip/__main__.py:12:9  Net.forward" in result.stdout


def test_json_has_stdout_for_itself(onegraph: Command) -> None:
    result = onegraph("run", "targets.py:clean", "--output-format", "json")
    report = json.loads(result.stdout)
    assert (report["command"], report["graphs"], report["sites"]) == ("run", 1, [])
    assert "the factory prints" in result.stderr


def test_json_of_findings(onegraph: Command) -> None:
    result = onegraph("check", "targets.py:breaks", "--output-format", "json")
    assert result.exit_code == 1
    (site,) = json.loads(result.stdout)["sites"]
    assert (site["line"], site["column"], site["function"]) == (6, 8, "branch")


def test_the_report_goes_to_a_file(onegraph: Command) -> None:
    result = onegraph("run", "targets.py:breaks", "-o", "report.txt")
    assert result.exit_code == 1
    assert result.stdout == ""
    assert "x.sum() > 0" in Path("report.txt").read_text()


def test_a_file_that_can_not_be_written(onegraph: Command) -> None:
    result = onegraph("run", "targets.py:breaks", "-o", "missing/report.txt")
    assert result.exit_code not in (0, 101)
    assert "missing/report.txt" in result.stderr


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ((), "give a TARGET"),
        (("missing.py",), "no such file: missing.py"),
        (("targets.py:missing",), "no 'missing' in targets.py"),
        (("targets.py:branch",), "needs arguments: x"),
        (("targets.py:breaks", "--", "--lr"), "takes no arguments"),
        (("--nonsense", "targets.py:breaks"), "No such option"),
    ],
)
def test_usage(onegraph: Command, words: tuple[str, ...], said: str) -> None:
    result = onegraph("run", *words)
    assert result.exit_code == 2
    assert said in result.stderr
    assert result.stdout == ""


@pytest.mark.parametrize(
    ("name", "said"), [("raising", "ValueError: no data"), ("always_failing", "RuntimeError: bad model")]
)
def test_a_failing_target_shows_its_own_traceback(onegraph: Command, name: str, said: str) -> None:
    result = onegraph("run", f"targets.py:{name}")
    assert result.exit_code == 3
    assert said in result.stderr
    assert 'targets.py", line' in result.stderr
    assert "onegraph/" not in result.stderr


def test_a_failing_script(onegraph: Command) -> None:
    Path("broken.py").write_text("def main():\n    raise ValueError('no data')\n\nmain()\n")
    result = onegraph("run", "broken.py")
    assert result.exit_code == 3
    shown = f'Traceback (most recent call last):\n  File "{Path.cwd()}/broken.py", line 4'
    assert result.stderr.startswith(shown)


def test_raising_on_some_inputs_is_behaviour(onegraph: Command) -> None:
    result = onegraph("run", "targets.py:sometimes_failing")
    assert result.exit_code != 3
    assert "an error was raised\n  ValueError: strict" in result.stdout


def test_a_compiler_error_in_a_script_is_a_finding(onegraph: Command) -> None:
    Path("strict.py").write_text(
        "import torch\n"
        "def f(x):\n    print(x.shape)\n    return x + 1\n"
        "torch.compile(f, backend='eager', fullgraph=True)(torch.ones(2))\n"
    )
    result = onegraph("run", "strict.py")
    assert result.exit_code == 1, result.output
    assert "strict.py:3:5  f" in result.stdout


@pytest.mark.parametrize(
    ("target", "said"),
    [
        ("targets.py:no_tensors", "No argument of no_tensors.<lambda> holds a tensor"),
        ("targets.py", "went through torch.compile"),
    ],
)
def test_nothing_compiled_is_no_pass(onegraph: Command, target: str, said: str) -> None:
    result = onegraph("check", target)
    assert result.exit_code == 5
    assert "nothing was compiled" in result.stdout
    assert said in result.stdout


def test_source_that_is_not_available_is_said(onegraph: Command) -> None:
    result = onegraph("run", "targets.py:no_source")
    assert result.exit_code == 1
    assert "(source not available)" in result.stdout


def test_a_decorated_function_shows_the_users_line(onegraph: Command) -> None:
    assert "targets.py:6:8  branch" in onegraph("run", "targets.py:decorated").stdout


def test_an_unsupported_torch(onegraph: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("onegraph.torch_private.version.installed", lambda: "2.9.1")
    result = onegraph("run", "targets.py:clean")
    assert result.exit_code == 2
    assert "torch 2.9.1 is too old" in result.stderr
    assert "pip install" in result.stderr


def test_a_fault_of_ours(onegraph: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> None:
        raise AssertionError("unexpected")

    monkeypatch.setattr("onegraph.pipeline.run", broken)
    result = onegraph("run", "targets.py:clean")
    assert result.exit_code == 101
    assert "AssertionError: unexpected" in result.stderr
    assert "Please send" in result.stderr
