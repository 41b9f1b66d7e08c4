"""One line on stderr that says what a long command is at: rewritten in place on a terminal; elsewhere (a log of CI) a
new line now and then."""

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import Callable, Iterator
from typing import TextIO

import click

from onegraph import progress

_EVERY = 30.0  # seconds between two lines that stay
_CLEAR = "\r\x1b[2K"
_KEY = "onegraph.quiet"


def _remember(ctx: click.Context, _: click.Parameter, value: bool) -> None:
    ctx.meta[_KEY] = value


quiet_option = click.option(
    "--quiet", is_flag=True, expose_value=False, callback=_remember, help="Don't say on stderr how far it is."
)


@contextlib.contextmanager
def shown(ctx: click.Context) -> Iterator[None]:
    """Show the progress of what is done inside, unless the user asked for quiet."""
    if ctx.meta.get(_KEY):
        yield
        return
    with line(sys.stderr):  # the real one: what the target writes is caught while it is run again and again
        yield


@contextlib.contextmanager
def line(stream: TextIO, now: Callable[[], float] = time.monotonic) -> Iterator[None]:
    """The progress of what is done inside, on a stream."""
    terminal = stream.isatty()
    began = last = now()

    def show(words: str) -> None:
        nonlocal last
        if not terminal and now() - last < _EVERY:
            return
        last = now()
        minutes, seconds = divmod(int(last - began), 60)
        text = f"onegraph: {words}, {minutes}:{seconds:02}"
        stream.write(f"{_CLEAR}{text}" if terminal else f"{text}\n")
        stream.flush()

    with progress.told(show):
        try:
            yield
        finally:
            if terminal:
                stream.write(_CLEAR)
                stream.flush()
