"""The overlay file: mended functions of a library as plain source text, pinned to what they replace.

The file is Python, so that one import line installs it; it is read with ``ast``, never executed to be read.
"""

from __future__ import annotations

import ast
import hashlib
import json
import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Any

from onegraph.deliver.place import absolute, place
from onegraph.model import FileChange, Owner
from onegraph.rewrite import source, text
from onegraph.words import counted

AGAIN = "onegraph fix TARGET --overlay"


class OverlayRefused(Exception):
    """An overlay can't be made or installed. Nothing was changed; the message says why and what to do."""


@dataclass(frozen=True, slots=True)
class Function:
    """One outermost function with all that is inside it. ``number`` counts functions of one name from 0."""

    name: str
    number: int
    sha256: str  # of the source text that it replaces, lines ended by "\n"
    source: str


@dataclass(frozen=True, slots=True)
class File:
    """The mended functions of one file.

    ``path`` is relative to the folder for packages; for a file of the user, whose ``distribution`` is "",
    it is relative to the folder of the overlay.
    """

    distribution: str
    version: str
    path: str
    helpers: tuple[str, ...]  # new top-level statements
    functions: tuple[Function, ...]


def write_overlay(changes: Iterable[FileChange], path: str | os.PathLike[str]) -> Path:
    """Write an overlay for all changes to ``path`` and return it. An existing file is replaced.

    Raises ``OverlayRefused`` for a change that is more than functions and new top-level statements, or a path
    that is not a Python file or can't be written.
    """
    target = absolute(path)
    if target.suffix != ".py" or not target.stem.isidentifier():
        raise OverlayRefused(f"{path}: name the overlay like a Python module, for example library_mended.py")
    files = tuple(_file(change, target.parent) for change in changes if change.original != change.mended)
    if not files:
        raise OverlayRefused(f"nothing is mended, so there is no overlay to write to {path}")
    content = _render(files, target.name)
    if read_text(content, target.name) != files:
        raise OverlayRefused(f"{path}: the mended text does not survive being written; please report this")
    try:
        target.write_text(content, encoding="utf-8", newline="\n")
    except OSError as error:
        raise OverlayRefused(f"{path} can't be written ({error.strerror})") from error
    return target


def read_overlay(path: str | os.PathLike[str]) -> tuple[File, ...]:
    """The files of an overlay. Raises ``OverlayRefused`` where it is missing or none."""
    try:
        return read_text(Path(path).read_text(encoding="utf-8"), str(path))
    except (OSError, UnicodeDecodeError) as error:
        raise OverlayRefused(f"{path} can't be read ({error})") from error


def read_text(content: str, name: str) -> tuple[File, ...]:
    """The files in the text of an overlay. Raises ``OverlayRefused`` where it is none."""
    try:
        found = next(
            ast.literal_eval(statement.value)
            for statement in ast.parse(content).body
            if isinstance(statement, ast.Assign) and ast.unparse(statement.targets[0]) == "FILES"
        )
        return tuple(_loaded(entry) for entry in found)
    except (SyntaxError, StopIteration, ValueError, KeyError, TypeError) as error:
        raise OverlayRefused(f"{name} is not an overlay of onegraph; make one with {AGAIN} {name}") from error


def change_of(file: File, overlay: str | os.PathLike[str]) -> FileChange:
    """The change that an overlay makes to the file as it is installed now.

    Raises ``OverlayRefused`` when the version or the text of a function is not the one it was made for.
    """
    path = _located(file, overlay)
    original = source.read(str(path)).text
    found = dict(_functions(original))
    edits: list[text.Edit] = []
    for function in file.functions:
        span = found.get((function.name, function.number))
        if span is None or _sha256(_cut(original, span)) != function.sha256:
            state = "is gone from" if span is None else "differs in"
            raise OverlayRefused(
                f"{overlay} does not fit: {function.name} {state} {path}, {_versions(file)}. "
                f"Make a new one: {AGAIN} {overlay}"
            )
        edits.append((*span, function.source))
    mended = text.replace_spans(original, edits)
    if file.helpers:  # their place does not matter: they are executed by themselves
        mended = mended.rstrip("\r\n") + text.newline(original) * 3
        mended += "\n\n\n".join(file.helpers).replace("\n", text.newline(original)) + text.newline(original)
    return FileChange(str(path), original, mended, tuple(dict.fromkeys(f.name for f in file.functions)))


# --- what is in it --------------------------------------------------------------------------------------


def _file(change: FileChange, folder: Path) -> File:
    home = place(change.path)
    if home.owner is Owner.STDLIB:
        raise OverlayRefused(f"{change.path} belongs to the standard library, which onegraph does not change")
    relative = home.relative or os.path.relpath(change.path, folder).replace(os.sep, "/")
    before, after = dict(_functions(change.original)), dict(_functions(change.mended))
    functions = []
    for key, span in before.items():
        old, new = _cut(change.original, span), _cut(change.mended, after[key]) if key in after else None
        if new is not None and _newlines(old) != _newlines(new):
            functions.append(Function(*key, sha256=_sha256(old), source=_newlines(new)))
    helpers = tuple(_helpers(change))
    library = home.owner is not Owner.USER
    made = File(
        home.distribution if library else "",
        home.version if library else "",
        relative,
        helpers,
        tuple(functions),
    )
    _check_complete(change, made)
    return made


def _functions(content: str) -> Iterator[tuple[tuple[str, int], tuple[int, int, int, int]]]:
    """((qualified name, number), span) of every outermost function: whole lines, decorators included."""
    seen: dict[str, int] = {}
    for name, node in text.functions(text.parse(content)):
        if ".<locals>." in name:
            continue
        number = seen[name] = seen.get(name, -1) + 1
        line, column, end_line, end_column = text.position(node)
        lambda_ = isinstance(node, ast.Lambda)
        span = (
            (line, column, end_line, end_column) if lambda_ else (text.first_line(node), 0, end_line + 1, 0)
        )
        yield (name, number), span


def _helpers(change: FileChange) -> Iterator[str]:
    """New top-level statements, in order: those that bind new names, and expressions about such names."""
    known = {name for s in text.toplevel(text.parse(change.original)) for name in text.bound_names(s)}
    before = {ast.dump(statement) for statement in text.parse(change.original).body}
    added: set[str] = set()
    for statement in text.parse(change.mended).body:
        new = text.bound_names(statement) - known
        if ast.dump(statement) in before or not (new or text.names(statement) & added):
            continue
        if not new and not isinstance(statement, ast.Expr):
            continue  # a function of the user that calls a helper: it is among the functions
        added |= new
        first, last = text.first_line(statement), text.position(statement)[2]
        yield _newlines("".join(text.lines(change.mended)[first - 1 : last])).rstrip("\n")


def _check_complete(change: FileChange, made: File) -> None:
    """The overlay must give the mended program again, or it would change less than was verified."""
    rebuilt = _applied(change.original, made)
    if sorted(_dumps(rebuilt)) != sorted(_dumps(change.mended)):
        raise OverlayRefused(
            f"{change.path}: the mended text changes more than functions, which an overlay can't do; "
            "apply it to a copy of the file instead"
        )


def _applied(original: str, file: File) -> str:
    found = dict(_functions(original))
    edited = text.replace_spans(original, [(*found[f.name, f.number], f.source) for f in file.functions])
    return _newlines(edited).rstrip("\n") + "\n" + "\n".join(file.helpers) + "\n"


def _dumps(content: str) -> Iterator[str]:
    for statement in ast.parse(_newlines(content)).body:
        yield ast.dump(statement)


# --- how it is written ----------------------------------------------------------------------------------


def _render(files: Sequence[File], name: str) -> str:
    count = sum(len(file.functions) for file in files)
    owners = dict.fromkeys(f"{f.distribution} {f.version}" if f.distribution else f.path for f in files)
    entries = "".join(_entry(file) for file in files)
    what = f"{counted(count, 'function')} of {', '.join(owners)}"
    return f'''"""onegraph overlay: {what}, mended for torch.compile.

`import {Path(name).stem}` swaps the functions below into the library, in memory, whether it is imported
already or later. It refuses when the library is not the one that this file was made for. Made by onegraph
{metadata.version("onegraph")} with torch {metadata.version("torch")}; to make a new one: {AGAIN} {name}
"""

import onegraph.overlay

FILES = [
{entries}]

onegraph.overlay.install(__file__)
'''


def _entry(file: File) -> str:
    helpers = "".join(f"            {_literal(helper)},\n" for helper in file.helpers)
    functions = "".join(
        f'''            {{
                "name": {json.dumps(function.name)},
                "number": {function.number},
                "sha256": "{function.sha256}",
                "source": {_literal(function.source)},
            }},
'''
        for function in file.functions
    )
    return f"""    {{
        "distribution": {json.dumps(file.distribution)},
        "version": {json.dumps(file.version)},
        "path": {json.dumps(file.path, ensure_ascii=False)},
        "helpers": [
{helpers}        ],
        "functions": [
{functions}        ],
    }},
"""


def _literal(code: str) -> str:
    """Source as a string that reads like source. The first and the last line end are not part of it."""
    for quotes in ("'''", '"""'):
        if quotes not in code and "\r" not in code and "\0" not in code:
            return f"r{quotes}\n{code}\n{quotes}"
    return repr(f"\n{code}\n")


def _loaded(entry: Mapping[str, Any]) -> File:
    return File(
        str(entry["distribution"]),
        str(entry["version"]),
        str(entry["path"]),
        tuple(_unframed(helper) for helper in entry["helpers"]),
        tuple(
            Function(str(f["name"]), int(f["number"]), str(f["sha256"]), _unframed(f["source"]))
            for f in entry["functions"]
        ),
    )


def _unframed(literal: str) -> str:
    if literal[:1] != "\n" or literal[-1:] != "\n":
        raise ValueError("not the source of an overlay")
    return literal[1:-1]


# --- is it the same library? ----------------------------------------------------------------------------


def _located(file: File, overlay: str | os.PathLike[str]) -> Path:
    """Where the file lies here. Raises ``OverlayRefused`` for another version of the library."""
    names = ", ".join(function.name for function in file.functions)
    if not file.distribution:
        path = absolute(absolute(overlay).parent / file.path)
    else:
        try:
            found = metadata.distribution(file.distribution)
        except metadata.PackageNotFoundError as error:
            raise OverlayRefused(
                f"{overlay} is for {file.distribution} {file.version}, which is not installed here"
            ) from error
        if found.version != file.version:
            raise OverlayRefused(
                f"{overlay} does not fit: it was made for {names} of {file.distribution} {file.version}, "
                f"and {found.version} is installed. Make a new one: {AGAIN} {overlay}"
            )
        path = absolute(str(found.locate_file(file.path)))
    if not path.is_file():
        raise OverlayRefused(
            f"{overlay} does not fit: there is no {path}, where {names} should be. "
            f"Make a new one: {AGAIN} {overlay}"
        )
    return path


def _versions(file: File) -> str:
    if not file.distribution:
        return "which changed since the overlay was made"
    return f"though it is {file.distribution} {file.version} as the overlay was made for (a local edit?)"


def _cut(content: str, span: tuple[int, int, int, int]) -> str:
    return content[text.offset(content, *span[:2]) : text.offset(content, *span[2:])]


def _newlines(content: str) -> str:
    return re.sub(r"\r\n|\r", "\n", content)


def _sha256(content: str) -> str:
    return hashlib.sha256(_newlines(content).encode()).hexdigest()
