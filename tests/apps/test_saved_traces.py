"""`onegraph run --from DIR`: what torch wrote with TORCH_TRACE tells the same as watching the program."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result

Command = Callable[..., Result]

PROGRAM = """\
import logging

import torch

log = logging.getLogger("train")


def told(x):
    log.warning("told")
    return x + 1


class Model(torch.nn.Module):
    def forward(self, x):
        if x.sum() > 0:
            x = x * 2
        x = told(x)
        for _ in range(2):
            n = int(x.max())
        return x + n


if __name__ == "__main__":
    model = torch.compile(Model(), backend="eager")
    for size in (2, 3):
        model(torch.ones(size))
"""


@pytest.fixture(scope="module")
def traced(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the program, and what torch wrote about a run of it in ``traces``."""
    folder = tmp_path_factory.mktemp("job")
    (folder / "prog.py").write_text(PROGRAM)
    env = os.environ | {"TORCH_TRACE": str(folder / "traces")}
    subprocess.run(
        [sys.executable, "prog.py"], cwd=folder, env=env, check=True, capture_output=True, timeout=300
    )
    return folder


def sites(report: dict[str, Any]) -> list[tuple[Any, ...]]:
    names = ("kind", "line", "column", "end_column", "source", "function", "outcome", "count")
    return sorted(tuple(site[name] for name in names) for site in report["sites"])


def of(result: Result) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(result.stdout)
    return found


def test_breaks_graphs_and_recompiles_are_those_of_the_run(
    onegraph: Command, traced: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(traced)
    told = onegraph("run", "--from", "traces", "--format", "json")
    watched = of(onegraph("run", "prog.py", "--format", "json"))
    assert told.exit_code == 1, told.stderr
    seen = of(told)
    assert sites(seen) == sites(watched)
    assert len(seen["graph_list"]) == len(watched["graph_list"])
    assert [r["reasons"] for r in seen["recompiles"]] == [r["reasons"] for r in watched["recompiles"]]
    assert seen["frames_given_up"] == watched["frames_given_up"]


def test_the_source_may_stand_elsewhere(
    onegraph: Command, traced: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Read on a laptop: the path of the job's machine ends in a file below the current folder."""
    [log] = (traced / "traces").glob("*.log")
    moved = log.read_text().replace(str(traced), "/job/code")
    (tmp_path / "job.log").write_text(moved)
    (tmp_path / "code").mkdir()
    (tmp_path / "code" / "prog.py").write_text(PROGRAM)
    monkeypatch.chdir(tmp_path)
    found = of(onegraph("run", "--from", "job.log", "--format", "json"))
    assert {site["file"] for site in found["sites"]} == {str(tmp_path / "code" / "prog.py")}
    assert sites(found) == sites(of(onegraph("run", "--from", str(traced / "traces"), "--format", "json")))


def test_without_the_source_kinds_and_lines_stay(
    onegraph: Command, traced: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    [log] = (traced / "traces").glob("*.log")
    (tmp_path / "job.log").write_text(log.read_text().replace(str(traced), "/elsewhere"))
    monkeypatch.chdir(tmp_path)
    result = onegraph("run", "--from", "job.log")
    assert result.exit_code == 1
    for place in ("/elsewhere/prog.py:15", "/elsewhere/prog.py:9", "/elsewhere/prog.py:19"):
        assert place in result.stdout.replace("\n", "")
    assert "next: onegraph fix TARGET" in result.stdout


def test_ranks_that_break_differently_are_pointed_out(
    onegraph: Command, traced: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    [log] = (traced / "traces").glob("*.log")
    text = log.read_text()
    folder = tmp_path / "traces"
    folder.mkdir()
    (folder / "dedicated_log_torch_trace_rank_0_abc.log").write_text(text)
    (folder / "dedicated_log_torch_trace_rank_1_def.log").write_text("\n".join(_without(text, "log.warning")))
    monkeypatch.chdir(traced)
    result = onegraph("run", "--from", str(folder))
    assert "rank 0" in result.stdout
    assert "rank 1" in result.stdout
    assert "in some: 1 break" in result.stdout
    assert "Ranks that break differently run different graphs" in result.stdout


def _without(text: str, code: str) -> list[str]:
    """The trace without the records of breaks whose text holds ``code``."""
    kept: list[str] = []
    block: list[str] = []
    for line in [*text.splitlines(), "V"]:
        if not line.startswith("\t"):
            if not (
                block and "dynamo_graph_break_reason" in block[0] and any(code in each for each in block)
            ):
                kept += block
            block = []
        block.append(line)
    return kept


def test_a_line_that_was_cut_off_is_left_out(
    onegraph: Command, traced: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    [log] = (traced / "traces").glob("*.log")
    (tmp_path / "killed.log").write_text(
        log.read_text() + 'V1130 13:19:08.893 14 torch/x.py:1] {"artifact": {"na'
    )
    monkeypatch.chdir(traced)
    whole = of(onegraph("run", "--from", "traces", "--format", "json"))
    cut = of(onegraph("run", "--from", str(tmp_path / "killed.log"), "--format", "json"))
    assert sites(cut) == sites(whole)


def test_a_folder_without_traces_says_how_to_make_them(onegraph: Command, folder: Path) -> None:
    (folder / "traces").mkdir()
    result = onegraph("run", "--from", "traces")
    assert result.exit_code == 2
    words = " ".join(result.stderr.split())
    assert "holds no trace of torch" in words
    assert "TORCH_TRACE=traces python train.py" in words


def test_a_target_and_traces_are_two_questions(onegraph: Command, folder: Path) -> None:
    (folder / "traces").mkdir()
    result = onegraph("run", "train.py", "--from", "traces")
    assert result.exit_code == 2
    assert "not both" in result.stderr
