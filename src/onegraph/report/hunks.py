"""The changes of a fix as replacements of whole lines: what a reviewer can accept with one click."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from onegraph.deliver.unified import lines, opcodes
from onegraph.report.rows import ChangeRow


class Hunk(msgspec.Struct, frozen=True):
    """Lines ``first`` to ``last`` (from 1, inclusive) of the original file become ``text``."""

    file: str
    first: int
    last: int
    text: str

    def covers(self, first: int, last: int) -> bool:
        return self.first <= last and first <= self.last


def hunks_of(change: ChangeRow) -> Iterator[Hunk]:
    """In order. A pure insertion takes the line below it (at the end of the file, above it) along: a
    replacement must have a line to replace."""
    before, after = lines(change.original), lines(change.mended)
    taken = 0  # lines of ``before`` that are part of a hunk, or lie before one
    pending: Hunk | None = None
    for tag, first, last, start, end in opcodes(before, after):
        if tag == "equal":
            continue
        new = "".join(after[start:end])
        if first == last < len(before):
            last, new = last + 1, new + before[first]
        elif first == last and pending is not None and taken == first:  # its line above is taken already
            pending = msgspec.structs.replace(pending, text=_ended(pending.text) + new)
            continue
        elif first == last and before:
            first, new = first - 1, _ended(before[first - 1]) + new
        if pending is not None:
            yield pending
        pending, taken = Hunk(change.file, first + 1, last, new), last
    if pending is not None:
        yield pending


def _ended(text: str) -> str:
    return text if text.endswith("\n") or not text else text + "\n"
