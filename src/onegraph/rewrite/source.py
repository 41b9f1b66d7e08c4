"""The text of a file as Python loaded it, and the code objects of the functions in a module text."""

from __future__ import annotations

import hashlib
import io
import os
import tokenize
import zipfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache, lru_cache
from pathlib import Path
from types import CodeType
from typing import Any


class SourceUnavailable(Exception):
    """The text of a function can't be read. ``reason`` says why, ``next_step`` what the user can do."""

    def __init__(self, reason: str, next_step: str) -> None:
        super().__init__(f"{reason}. {next_step}")
        self.reason = reason
        self.next_step = next_step


@dataclass(frozen=True, slots=True)
class Source:
    """One file. ``text.encode(encoding)`` gives back its bytes; ``sha256`` is the hash of the bytes."""

    path: str
    text: str
    encoding: str
    sha256: str


def read(path: str) -> Source:
    """The text of a Python file, line endings kept. Raises SourceUnavailable."""
    if path.startswith("<") or "ipykernel_" in path:
        raise SourceUnavailable(
            f"the code named {path} was typed in or made by exec, it has no file",
            "Move the function into a .py file and import it",
        )
    try:
        status = os.stat(path)  # noqa: PTH116 (one system call; this is called for every frame of a break)
    except OSError as error:
        raise _unreadable(path, error) from error
    return _read(path, status.st_mtime_ns, status.st_size)


@lru_cache(maxsize=256)
def _read(path: str, _mtime: int, _size: int) -> Source:
    if not path.endswith((".py", ".pyw")) and path.endswith((".so", ".pyd", ".pyc")):
        raise SourceUnavailable(
            f"{path} is compiled, not Python source", "Keep this call outside of the region"
        )
    try:
        raw = Path(path).read_bytes()
        encoding = tokenize.detect_encoding(io.BytesIO(raw).readline)[0]
        text = raw.decode(encoding)
    except (OSError, SyntaxError, UnicodeDecodeError) as error:
        raise _unreadable(path, error) from error
    return Source(path, text, encoding, hashlib.sha256(raw).hexdigest())


def _unreadable(path: str, error: Exception) -> SourceUnavailable:
    for parent in Path(path).parents:
        if parent.is_file() and zipfile.is_zipfile(parent):
            return SourceUnavailable(
                f"{path} lies inside the archive {parent}", "Unpack or install the package as ordinary files"
            )
    return SourceUnavailable(
        f"{path} can't be read ({error})", "Give onegraph the file that the code was loaded from"
    )


def code_of(function: Callable[..., Any] | CodeType) -> CodeType:
    """The code object behind a function, method or decorated function. Raises SourceUnavailable."""
    while not isinstance(function, CodeType):
        code = getattr(function, "__code__", None)
        inner = getattr(function, "__wrapped__", None) or getattr(function, "__func__", None)
        if isinstance(code, CodeType):
            return code
        if inner is None:
            raise SourceUnavailable(
                f"{getattr(function, '__qualname__', repr(function))} is not written in Python",
                "Pass the Python function or nn.Module that calls it",
            )
        function = inner
    return function


def of(function: Callable[..., Any] | CodeType) -> Source:
    """The source of the file that a function was loaded from. Raises SourceUnavailable."""
    return read(absolute(code_of(function).co_filename))


@cache
def absolute(filename: str) -> str:
    """The absolute path of a code's file; links are not followed, names in brackets (``<string>``) stay."""
    return filename if filename.startswith("<") else os.path.abspath(filename)  # noqa: PTH100


def code_objects(module: CodeType) -> Iterator[CodeType]:
    """Every code object inside a module's code, outer ones before inner ones, in source order."""
    for constant in module.co_consts:
        if isinstance(constant, CodeType):
            yield constant
            yield from code_objects(constant)


@lru_cache(maxsize=32)
def original_code(text: str, path: str) -> CodeType:
    """The module's code as Python compiles it on import."""
    return compile(text, path, "exec", dont_inherit=True)


def is_function(code: CodeType) -> bool:
    """Whether a code object is that of a function, lambda or comprehension (not a class body)."""
    return bool(code.co_flags & 0x2)  # CO_NEWLOCALS


def column(code: CodeType) -> int:
    """Where the first instruction with a place stands in its line: tells lambdas of one line apart."""
    places = (
        (line, start) for line, _, start, _ in code.co_positions() if line is not None and start is not None
    )
    return min(places, default=(0, 0))[1]
