"""The line on stderr that says what a long command is at."""

from __future__ import annotations

import io
from pathlib import Path

import pytest
from click.testing import CliRunner

from onegraph.apps.cli import main
from onegraph.apps.progress import line
from onegraph.progress import say, told


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


class Clock:
    def __init__(self) -> None:
        self.time = 100.0

    def __call__(self) -> float:
        return self.time


def test_a_terminal_has_one_line_that_goes_away() -> None:
    stream, clock = Terminal(), Clock()
    with line(stream, clock):
        say("observing f")
        clock.time += 83
        say("mending, 1 of 7 breaks")
    clear = "\r\x1b[2K"
    assert (
        stream.getvalue()
        == f"{clear}onegraph: observing f, 0:00{clear}onegraph: mending, 1 of 7 breaks, 1:23{clear}"
    )


def test_elsewhere_there_is_a_line_now_and_then() -> None:
    stream, clock = io.StringIO(), Clock()
    with line(stream, clock):
        for number in range(100):
            say(f"step {number}")
            clock.time += 1
    assert stream.getvalue() == "".join(f"onegraph: step {n}, {n // 60}:{n % 60:02}\n" for n in (30, 60, 90))


def test_nobody_is_told_afterwards() -> None:
    heard: list[str] = []
    with told(heard.append):
        say("inside")
    say("outside")
    assert heard == ["inside"]


PROGRAM = """
import torch


def f(x):
    if x.sum() > 0:
        x = x * 2
    return x


def factory():
    return f, (torch.ones(3),)
"""


@pytest.mark.parametrize("quiet", [False, True])
def test_a_short_run_says_nothing_where_no_terminal_is(tmp_path: Path, quiet: bool) -> None:
    (tmp_path / "said.py").write_text(PROGRAM)
    heard: list[str] = []
    with told(heard.append):
        words = ["run", f"{tmp_path / 'said.py'}:factory", *(["--quiet"] if quiet else [])]
        result = CliRunner().invoke(main, words)
    assert result.exit_code == 1
    assert "onegraph:" not in result.stderr
    assert heard == ["observing f", "looking behind the breaks"]
