"""The changes of a fix as replacements of whole lines: what a reviewer can accept with one click."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

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
    for tag, first, last, start, end in opcodes(before, after):
        if tag == "equal":
            continue
        new = after[start:end]
        if first == last and first < len(before):
            last, new = last + 1, [*new, before[first]]
        elif first == last and before:
            first, new = first - 1, [*_ended(before[first - 1]), *new]
        yield Hunk(change.file, first + 1, last, "".join(new))


def _ended(line: str) -> Sequence[str]:
    return [line if line.endswith("\n") else line + "\n"]
