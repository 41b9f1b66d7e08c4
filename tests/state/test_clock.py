"""Clocks that the program reads: the same times in every run, and real ones for everybody else."""

from __future__ import annotations

import threading
import time
from typing import Any

import pytest
import torch

from imported import imported
from onegraph.model import Call
from onegraph.observe import watch
from onegraph.state import run_call

TIMED = """\
import time
from time import perf_counter_ns
import torch


def program(x):
    start, began = time.perf_counter(), perf_counter_ns()
    y = x * 2
    return y, time.perf_counter() - start, perf_counter_ns() - began, time.time()
"""


def test_two_runs_read_the_same_times_under_either_name_of_a_clock(tmp_path: Any) -> None:
    program = imported(tmp_path, TIMED).program
    first, second = (run_call(program, Call((torch.ones(2),))).output for _ in range(2))
    assert first[1:] == second[1:]
    assert first[1] > 0 and first[2] > 0
    assert isinstance(first[2], int)


def test_the_real_clocks_are_back_afterwards_also_behind_an_exception(tmp_path: Any) -> None:
    module = imported(tmp_path, TIMED)
    real = time.perf_counter, module.perf_counter_ns
    run_call(module.program, Call(("no tensor", "too many")))
    assert (time.perf_counter, module.perf_counter_ns) == real
    assert time.perf_counter() < 1_600_000_000


def test_a_clock_that_somebody_else_put_there_stays(tmp_path: Any, monkeypatch: Any) -> None:
    program = imported(tmp_path, TIMED).program

    def still() -> float:
        return 7.0

    monkeypatch.setattr(time, "perf_counter", still)
    assert run_call(program, Call((torch.ones(2),))).output[1] == 0.0
    assert time.perf_counter is still


def test_another_thread_reads_the_real_time(tmp_path: Any) -> None:
    module = imported(tmp_path, "import time\n\n\ndef now(seen):\n    seen.append(time.time())\n")

    def program() -> float:
        seen: list[float] = []
        other = threading.Thread(target=module.now, args=(seen,))
        other.start()
        other.join()
        return seen[0]

    before = time.time()
    assert run_call(program, Call(())).output == pytest.approx(before, abs=600)


def test_a_clock_still_ends_the_graph(tmp_path: Any) -> None:
    compiled = torch.compile(imported(tmp_path, TIMED).program, backend="eager")
    with watch() as watching:
        run_call(compiled, Call((torch.ones(2),)))
    assert len(watching.trace().breaks) > 1
