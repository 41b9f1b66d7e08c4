"""Files that a program writes are a part of its state: a trial run must not leave its lines in them.

Python tells of every file that is opened (``sys.addaudithook``). What the program opens for writing inside one of our
runs is read first, and written back when the state is restored. Not put back: what is written to a file that was open
before, and by other processes.
"""

from __future__ import annotations

import functools
import os
import sys
import weakref
from collections.abc import Iterator
from pathlib import Path
from types import FrameType
from typing import Any

MISSING_FILE = b"<no file>"
_LARGEST = 64 * 2**20  # bytes; a larger file is left as it is
_WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
_OWN = __name__.partition(".")[0] + "."
_COMPILERS = (
    "torch._dynamo.convert_frame",
    "torch._inductor.compile_fx",
    "torch._inductor.codecache",
    "torch._inductor.async_compile",
    "importlib._bootstrap",
    "triton",
)

_live: weakref.WeakSet[SavedFiles] = weakref.WeakSet()


class SavedFiles:
    """The files that were opened for writing since the snapshot, as they were before."""

    def __init__(self) -> None:
        _listen()
        self._before: dict[Path, bytes | None] = {}
        _live.add(self)

    def note(self, path: Path) -> None:
        """A file is about to be opened for writing."""
        if path not in self._before and _is_small(path):
            self._before[path] = _content(path)

    def changes(self) -> Iterator[tuple[str, Any]]:
        for path, before in self._before.items():
            now = _content(path)
            if now != before:
                yield f"file {path}", MISSING_FILE if now is None else now

    def restore(self) -> None:
        before, self._before = self._before, {}
        for path, content in before.items():
            if _content(path) != content:
                _put_back(path, content)


@functools.cache
def _listen() -> None:
    """For good: a hook can't be taken away. Without a snapshot it returns at once."""
    sys.addaudithook(_hook)


def _hook(event: str, arguments: tuple[Any, ...]) -> None:
    if event != "open" or not _live:
        return
    name, _, flags = arguments
    if flags & _WRITES and isinstance(name, str | bytes | os.PathLike) and _by_the_program(sys._getframe(1)):
        path = Path(os.fsdecode(name)).absolute()
        for saved in tuple(_live):
            saved.note(path)


def _by_the_program(frame: FrameType | None) -> bool:
    """Whether a program that we run opens it, and not the compiler that works for it, or an import."""
    while frame is not None:
        module = str(frame.f_globals.get("__name__", ""))
        if module.startswith(_COMPILERS):
            return False
        if module.startswith(_OWN):
            return module != __name__
        frame = frame.f_back
    return False


def _is_small(path: Path) -> bool:
    return not path.exists() or (path.is_file() and path.stat().st_size <= _LARGEST)


def _content(path: Path) -> bytes | None:
    try:
        return path.read_bytes()
    except OSError:
        return None


def _put_back(path: Path, content: bytes | None) -> None:
    try:
        if content is None:
            path.unlink(missing_ok=True)
        else:
            path.write_bytes(content)
    except OSError:
        return
