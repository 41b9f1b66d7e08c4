"""Frames in the text of a traceback, as Python and torch write it."""

from __future__ import annotations

import re
from typing import NamedTuple

_FRAME = re.compile(
    r'\bFile "(?P<file>[^"]+)", line (?P<line>\d+), in (?P<function>\S+)'
    r'(?:[ \t]*\n[ \t]*(?!File ")(?P<code>\S[^\n]*))?'
)


class TextFrame(NamedTuple):
    """One frame; ``code`` is "" where the text lacks the line."""

    file: str
    line: int
    function: str
    code: str

    @property
    def place(self) -> str:
        return f"{self.file}:{self.line}"


def frames(text: str) -> list[TextFrame]:
    """The frames in a text, outermost first."""
    return [
        TextFrame(found["file"], int(found["line"]), found["function"], (found["code"] or "").strip())
        for found in _FRAME.finditer(text)
    ]
