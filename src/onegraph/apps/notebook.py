"""In a notebook: ``%load_ext onegraph``, then ``%%onegraph`` over a cell shows where its graphs break."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


def register(shell: Any) -> None:
    """Make the cell magic known to this shell."""

    def onegraph(line: str, cell: str) -> None:
        """%%onegraph [NAME]: run the cell, and show what torch.compile made of it.

        The report is kept as NAME. What was compiled before is forgotten first, so that running the cell
        again shows the same.
        """
        watched(shell, line.strip(), cell)

    shell.register_magic_function(onegraph, magic_kind="cell", magic_name="onegraph")


def watched(shell: Any, name: str, cell: str) -> None:
    """Run a cell under ``watch()``; its own output and errors come first, then the report."""
    from IPython.core.error import UsageError
    from IPython.display import display

    if name and not name.isidentifier():
        raise UsageError(f"%%onegraph takes a name for the report, not {name!r}")
    from onegraph.facade import watch
    from onegraph.torch_private import dynamo

    dynamo.reset()
    with watch() as report, _numbered_as_outer(shell):
        shell.run_cell(_with_its_lines(cell))
    if name:
        shell.user_ns[name] = report
    display(report)  # type: ignore[no-untyped-call]


def _with_its_lines(cell: str) -> str:
    """The line of our magic counts: lines are those that the user sees. A second magic must stay first."""
    return cell if cell.lstrip().startswith("%%") else f"# %%onegraph\n{cell}"


@contextmanager
def _numbered_as_outer(shell: Any) -> Iterator[None]:
    """IPython counts a cell before it runs; what runs inside it would have the number of the next one."""
    now = shell.execution_count
    frame = sys._getframe(1)
    while frame is not None:
        named = shell.compile.format_code_name(frame.f_code.co_filename)
        if named is not None and (number := re.fullmatch(r"In\[(\d+)\]", named[1])):
            shell.execution_count = int(number[1])
            break
        frame = frame.f_back  # type: ignore[assignment]
    try:
        yield
    finally:
        shell.execution_count = now
