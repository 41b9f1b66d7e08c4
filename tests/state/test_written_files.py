"""What a trial run writes to files is taken back; what it wrote is known."""

from __future__ import annotations

import torch

from onegraph.model import Call, Program
from onegraph.state import World, preserved, run_call


def written_by(target, *args):
    world = World(Program("program", target, (Call(args),)))
    world.snapshot()
    seen = run_call(target, Call(args), world=world)
    return {name: value for name, value in seen.state.items() if name.startswith("file ")}


def test_a_file_that_the_run_makes_is_gone_afterwards(tmp_path):
    made = tmp_path / "made.txt"

    def f(x):
        made.write_text("hello")
        return x

    assert written_by(f, torch.ones(1)) == {f"file {made}": b"hello"}
    assert not made.exists()


def test_lines_that_each_run_appends_are_there_once_for_the_user(tmp_path):
    log = tmp_path / "log.txt"
    log.write_text("before\n")

    def f(x):
        with log.open("a") as file:
            file.write(f"{x.sum():.1f}\n")
        return x

    with preserved(Program("program", f, (Call((torch.ones(1),)),))):
        f(torch.ones(1))
        run_call(f, Call((torch.ones(2),)))
        assert log.read_text() == "before\n1.0\n"
    f(torch.ones(3))
    assert log.read_text() == "before\n1.0\n3.0\n"


def test_a_run_of_the_program_through_onegraph_is_undone_in_nested_snapshots(tmp_path):
    log = tmp_path / "log.txt"

    def f(x):
        with log.open("a") as file:
            file.write("x")
        return x

    with preserved(Program("program", f, (Call((torch.ones(1),)),))):
        run_call(f, Call((torch.ones(1),)), restore=False)
        run_call(f, Call((torch.ones(1),)), restore=False)
        assert log.read_text() == "xx"
    assert not log.exists()


def test_files_that_are_only_read_are_no_change(tmp_path):
    table = tmp_path / "table.txt"
    table.write_text("2")

    def f(x):
        return x * int(table.read_text())

    assert written_by(f, torch.ones(1)) == {}
