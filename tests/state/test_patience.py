"""A block that goes on for too long is ended, in whichever thread it runs."""

from __future__ import annotations

import threading

import pytest

from onegraph.state import Overrun, deadline


def endless() -> None:
    n = 0
    while n >= 0:
        n += 1


def test_a_block_without_an_end_is_ended() -> None:
    with pytest.raises(Overrun), deadline(0.1):
        endless()


def test_no_handler_of_the_program_catches_it() -> None:
    def stubborn() -> None:
        while True:
            try:
                endless()
            except Exception:  # noqa: BLE001
                continue

    with pytest.raises(Overrun), deadline(0.1):
        stubborn()


def test_in_another_thread() -> None:
    ended: list[bool] = []

    def work() -> None:
        try:
            with deadline(0.1):
                endless()
        except Overrun:
            ended.append(True)

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert ended == [True]


def test_a_block_that_ends_is_left_alone_and_so_is_what_comes_after() -> None:
    before = threading.active_count()
    with deadline(600):
        pass
    with deadline(None):
        pass
    assert threading.active_count() <= before + 1
