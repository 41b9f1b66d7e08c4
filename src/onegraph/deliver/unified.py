"""The unified diff of a set of file changes: what ``git apply`` and ``patch -p1`` accept."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from difflib import SequenceMatcher
from pathlib import Path

from onegraph.deliver.place import absolute, place
from onegraph.model import FileChange

CONTEXT = 3


def diff(changes: Iterable[FileChange], *, start: str | os.PathLike[str] = "") -> str:
    """One patch for all changes, "" when nothing changes.

    Paths are relative to ``start`` (the current folder): apply the patch there with ``git apply`` or
    ``patch -p1``. A file of an installed distribution is named relative to the folder it is installed in
    (``transformers/models/...``), any other file outside ``start`` by its full path.
    """
    return "".join(_file_diff(change, patch_name(change.path, start)) for change in changes)


def patch_name(path: str, start: str | os.PathLike[str] = "") -> str:
    """The name of a file in a patch, with forward slashes and no leading slash."""
    home = place(path)
    if home.relative:
        return home.relative
    full, base = absolute(path), absolute(start or Path.cwd())
    return full.relative_to(base if full.is_relative_to(base) else full.anchor).as_posix()


def changed_lines(before: str, after: str) -> list[tuple[int, int]]:
    """Line ranges (from 1, inclusive) of ``after`` that differ; a deletion counts as the line it precedes."""
    found = []
    for tag, _, _, start, end in opcodes(lines(before), lines(after)):
        if tag != "equal":
            found.append((start + 1, max(start + 1, end)))
    return found


def lines(text: str) -> list[str]:
    """Lines with their ends. Only "\\n" ends a line, as for git (``str.splitlines`` has more)."""
    parts = text.split("\n")
    return [part + "\n" for part in parts[:-1]] + ([parts[-1]] if parts[-1] else [])


def _file_diff(change: FileChange, name: str) -> str:
    if change.original == change.mended:
        return ""
    before, after = lines(change.original), lines(change.mended)
    hunks = "".join(_hunk(group, before, after) for group in _groups(opcodes(before, after)))
    return f"--- {_label('a/' + name)}\n+++ {_label('b/' + name)}\n{hunks}"


def _label(name: str) -> str:
    return name + "\t" if " " in name else name  # a tab ends a name that holds blanks


Opcode = tuple[str, int, int, int, int]


def opcodes(before: Sequence[str], after: Sequence[str]) -> list[Opcode]:
    """Minimal edits. Common ends are cut off first, which keeps the quadratic matcher fast on long files."""
    head = 0
    while head < min(len(before), len(after)) and before[head] == after[head]:
        head += 1
    tail = 0
    while tail < min(len(before), len(after)) - head and before[-1 - tail] == after[-1 - tail]:
        tail += 1
    middle = SequenceMatcher(
        None, before[head : len(before) - tail], after[head : len(after) - tail], autojunk=False
    ).get_opcodes()
    codes = [(tag, a + head, b + head, c + head, d + head) for tag, a, b, c, d in middle]
    ends: list[Opcode] = (
        [("equal", len(before) - tail, len(before), len(after) - tail, len(after))] if tail else []
    )
    return [*([("equal", 0, head, 0, head)] if head else []), *codes, *ends]


def _groups(opcodes: list[Opcode]) -> Iterator[list[Opcode]]:
    """Changes with ``CONTEXT`` equal lines around them; changes whose context touches share a group."""
    group: list[Opcode] = []
    for tag, a, b, c, d in opcodes:
        if tag != "equal":
            group.append((tag, a, b, c, d))
            continue
        if group:  # the context behind a change
            if b - a <= 2 * CONTEXT and b < opcodes[-1][2]:
                group.append((tag, a, b, c, d))
                continue
            keep = min(CONTEXT, b - a)
            yield [*group, (tag, a, a + keep, c, c + keep)]
        keep = min(CONTEXT, b - a)  # the context before the next one
        group = [(tag, b - keep, b, d - keep, d)]
    if any(tag != "equal" for tag, *_ in group):
        yield group


def _hunk(group: Sequence[Opcode], before: Sequence[str], after: Sequence[str]) -> str:
    first, last = group[0], group[-1]
    out = [f"@@ -{_range(first[1], last[2])} +{_range(first[3], last[4])} @@\n"]
    for tag, a, b, c, d in group:
        if tag == "equal":
            out += [_line(" ", text) for text in before[a:b]]
        else:
            out += [_line("-", text) for text in before[a:b]] + [_line("+", text) for text in after[c:d]]
    return "".join(out)


def _range(start: int, end: int) -> str:
    length = end - start
    if length == 1:
        return str(start + 1)
    return f"{start + 1 if length else start},{length}"


def _line(sign: str, text: str) -> str:
    return sign + text if text.endswith("\n") else f"{sign}{text}\n\\ No newline at end of file\n"
