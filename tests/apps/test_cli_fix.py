"""``onegraph fix``: the change is shown, or written, only when it is proven; and the exit code tells."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result

from onegraph.model import Check, Evidence, FixResult

Command = Callable[..., Result]

PRINTS = """\
import torch


def program(x):
    h = x.sin()
    print("shape", tuple(h.shape))
    return h * 2


def partly(x):
    h = program(x)
    return h * torch.nonzero(x).shape[0]


def make():
    return program, [(torch.ones(3),)]


def make_partly():
    return partly, [(torch.ones(3),)]
"""


@pytest.fixture
def prints(folder: Path) -> Path:
    path = folder / "printing.py"
    path.write_text(PRINTS)
    return path


def test_a_fix_is_shown_and_nothing_written(onegraph: Command, prints: Path) -> None:
    result = onegraph("fix", "printing.py:make")
    assert result.exit_code == 0, result.output
    assert "printing.py:6:5  program" in result.stdout
    assert '-    print("shape", tuple(h.shape))' in result.stdout
    assert "2 graphs → 1 · 1 break → 0 · verified" in result.stdout
    assert "next: onegraph fix printing.py:make --apply" in result.stdout
    assert prints.read_text() == PRINTS
    subprocess.run(["git", "apply", "-"], input=result.stdout, text=True, check=True)
    assert onegraph("check", "printing.py:make").exit_code == 0


def test_apply(onegraph: Command, prints: Path) -> None:
    result = onegraph("fix", "printing.py:make", "--apply")
    assert result.exit_code == 0, result.output
    assert f"wrote {prints}" in result.stdout
    assert "next: git diff, and onegraph check printing.py:make" in result.stdout
    assert prints.read_text() != PRINTS
    again = onegraph("fix", "printing.py:make")
    assert again.exit_code == 0
    assert "nothing to mend" in again.stdout


def test_json(onegraph: Command, prints: Path) -> None:
    result = onegraph("fix", "printing.py:make", "--output-format", "json")
    report = json.loads(result.stdout)
    assert report["verified"] is True
    assert (report["before"]["graphs"], report["after"]["graphs"]) == (2, 1)
    (repair,) = report["repairs"]
    assert (repair["kind"], repair["line"], repair["column"]) == ("print_call", 6, 5)
    assert repair["level"] == "relaxed"
    assert report["diff"].startswith("--- a/printing.py")
    assert report["evidence"]["checks"]


def test_a_script_is_mended_with_the_inputs_that_it_used(onegraph: Command, folder: Path) -> None:
    result = onegraph("fix", "train.py", "--apply")
    assert result.exit_code == 0, result.output
    assert "train.py:12:9  Net.forward" in result.stdout
    assert onegraph("check", "train.py").exit_code == 0


def test_a_level_that_forbids_the_repair(onegraph: Command, prints: Path) -> None:
    result = onegraph("fix", "printing.py:make", "--level", "exact", "--apply")
    assert result.exit_code == 1
    assert "nothing changed" in result.stdout
    assert prints.read_text() == PRINTS


@pytest.mark.parametrize("words", [("--ignore", "print_call"), ("--select", "item_call,logging_call")])
def test_select_and_ignore(onegraph: Command, prints: Path, words: tuple[str, ...]) -> None:
    result = onegraph("fix", "printing.py:make", *words)
    assert result.exit_code == 1, result.output
    assert "nothing changed" in result.stdout


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--select", "print"), "no kind 'print'"),
        (("--apply", "--overlay", "o.py"), "exclude each other"),
        (("--level", "wild"), "'wild' is not one of"),
    ],
)
def test_usage(onegraph: Command, prints: Path, words: tuple[str, ...], said: str) -> None:
    result = onegraph("fix", "printing.py:make", *words)
    assert result.exit_code == 2
    assert said in result.stderr


def test_an_overlay(onegraph: Command, prints: Path) -> None:
    result = onegraph("fix", "printing.py:make", "--overlay", "mended.py")
    assert result.exit_code == 0, result.output
    assert "wrote mended.py" in result.stdout
    assert "next: in the program" in result.stdout
    assert "onegraph.overlay.install('mended.py')" in result.stdout
    assert prints.read_text() == PRINTS
    assert Path("mended.py").is_file()


def fixed_otherwise(monkeypatch: pytest.MonkeyPatch, **other: Any) -> None:
    from onegraph import pipeline

    real = pipeline.fix

    def changed(*args: Any, **kwargs: Any) -> FixResult:
        return replace(real(*args, **kwargs), **other)

    monkeypatch.setattr(pipeline, "fix", changed)


def test_a_change_that_did_not_verify_is_not_written(
    onegraph: Command, prints: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fixed_otherwise(monkeypatch, evidence=Evidence((Check("inductor: outputs", False, "differ"),)))
    result = onegraph("fix", "printing.py:make", "--apply")
    assert result.exit_code == 4
    assert "NOT VERIFIED" in result.stdout
    assert "nothing was written" in result.stdout
    assert prints.read_text() == PRINTS


def test_a_file_that_changed_meanwhile_is_not_written(
    onegraph: Command, prints: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from onegraph import pipeline

    real = pipeline.fix

    def meanwhile(*args: Any, **kwargs: Any) -> FixResult:
        result = real(*args, **kwargs)
        prints.write_text("# edited\n" + PRINTS)
        return result

    monkeypatch.setattr(pipeline, "fix", meanwhile)
    result = onegraph("fix", "printing.py:make", "--apply")
    assert result.exit_code == 2
    assert "changed since it was observed" in result.stderr
    assert prints.read_text() == "# edited\n" + PRINTS


@pytest.mark.parametrize(
    ("target", "code", "said"),
    [
        ("targets.py:no_source", 1, "has no file"),
        ("targets.py:no_tensors", 5, "nothing was compiled"),
        ("targets.py:clean", 0, "nothing to mend"),
        ("targets.py:raising", 3, "no data"),
    ],
)
def test_nothing_to_do(onegraph: Command, target: str, code: int, said: str) -> None:
    result = onegraph("fix", target)
    assert result.exit_code == code, result.output
    assert said in result.stdout + result.stderr
