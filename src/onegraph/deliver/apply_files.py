"""Write changes into the user's files: all or nothing, atomically, and nowhere else."""

from __future__ import annotations

import contextlib
import os
import stat
import tempfile
import tokenize
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from onegraph.deliver.place import place
from onegraph.deliver.unified import changed_lines
from onegraph.model import FileChange, Owner


class CannotApply(Exception):
    """Nothing was written. The message names the file, the reason and the next step."""


def apply(changes: Iterable[FileChange]) -> tuple[str, ...]:
    """Write every change, or none, and return the paths written.

    Each file is replaced in one step by a finished copy that lies next to it; mode, owner (where the system
    allows), line endings, encoding and byte order mark stay; a symbolic link stays a link. Raises
    ``CannotApply`` before anything is written when a file is of an installed package, changed since it was
    observed, or can't be written; a failure half-way puts back what was written.
    """
    wanted = [change for change in changes if change.original != change.mended]
    edits = [_plan(change) for change in wanted]
    with contextlib.ExitStack() as leftovers:
        copies = []
        for edit in edits:
            copies.append(_copy(edit, edit.after))
            leftovers.callback(copies[-1].unlink, missing_ok=True)
        _replace_all(edits, copies)
    return tuple(edit.name for edit in edits)


@dataclass(frozen=True, slots=True)
class _Edit:
    name: str  # as the user knows it
    target: Path  # behind every symbolic link
    before: bytes
    after: bytes
    mode: int
    owner: tuple[int, int]


def _plan(change: FileChange) -> _Edit:
    name = change.path
    _refuse_libraries(name)
    target = Path(name).resolve()
    _refuse_libraries(str(target))
    try:
        status = target.stat()
        if not stat.S_ISREG(status.st_mode):
            raise CannotApply(f"{name} is not a regular file; nothing was written")
        before = target.read_bytes()
    except OSError as error:
        raise CannotApply(f"{name} can't be read ({error.strerror}); nothing was written") from error
    _refuse_unwritable(name, target, status.st_mode)
    after = _encoded(change, before)
    return _Edit(name, target, before, after, stat.S_IMODE(status.st_mode), (status.st_uid, status.st_gid))


def _refuse_libraries(path: str) -> None:
    home = place(path)
    if home.owner is not Owner.USER:
        raise CannotApply(
            f"{path} belongs to {home.whose}, which onegraph never edits on disk; "
            "write an overlay instead: onegraph fix TARGET --overlay FILE"
        )


def _refuse_unwritable(name: str, target: Path, mode: int) -> None:
    advice = "make it writable, or save the change: onegraph fix TARGET > fix.patch"
    if not mode & 0o222 or not os.access(target, os.W_OK):
        raise CannotApply(f"{name} is read-only; {advice}")
    if not os.access(target.parent, os.W_OK):
        raise CannotApply(f"the folder of {name} is read-only; {advice}")


def _encoded(change: FileChange, before: bytes) -> bytes:
    """The mended text in the bytes of its file: same encoding, byte order mark and line ends."""
    encoding, text = _decode(change.path, before)
    original, mended = change.original.removeprefix("\ufeff"), change.mended.removeprefix("\ufeff")
    if original != text:
        if "\r" in original or original != text.replace("\r\n", "\n"):
            raise CannotApply(_changed(change.path, original, text))
        if text.count("\n") != text.count("\r\n"):
            raise CannotApply(
                f"{change.path} mixes line endings; make them uniform and run onegraph fix again"
            )
        mended = mended.replace("\n", "\r\n")
    try:
        return mended.encode(encoding)
    except UnicodeEncodeError as error:
        held = error.object[error.start : error.end]
        raise CannotApply(f"{change.path} is written in {encoding}, which can't hold {held!r}") from error


def _decode(path: str, raw: bytes) -> tuple[str, str]:
    try:
        encoding, _ = tokenize.detect_encoding(iter(raw.splitlines(keepends=True)).__next__)
        return encoding, raw.decode(encoding)
    except (SyntaxError, UnicodeDecodeError, StopIteration) as error:
        raise CannotApply(f"{path} can't be decoded any more ({error}); run onegraph fix again") from error


def _changed(path: str, observed: str, found: str) -> str:
    ranges = [
        f"{a}-{b}" if b > a else str(a) for a, b in changed_lines(observed, found.replace("\r\n", "\n"))
    ]
    where = ", ".join(ranges[:5]) + (", ..." if len(ranges) > 5 else "")
    word = "line" if where.isdigit() else "lines"
    return (
        f"{path} changed since it was observed ({word} {where}); nothing was written: run onegraph fix again"
    )


def _copy(edit: _Edit, content: bytes) -> Path:
    """A finished file next to the target, on disk."""
    try:
        handle, name = tempfile.mkstemp(
            prefix=f".{edit.target.name}.", suffix=".onegraph", dir=edit.target.parent
        )
    except OSError as error:
        raise CannotApply(f"{edit.name} can't be written ({error.strerror}); nothing was written") from error
    path = Path(name)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
            file.flush()
            if hasattr(os, "fchown") and (os.getuid(), os.getgid()) != edit.owner:
                with contextlib.suppress(PermissionError):  # only the superuser may give a file away
                    os.fchown(file.fileno(), *edit.owner)
            path.chmod(edit.mode)
            os.fsync(file.fileno())
    except OSError as error:
        path.unlink(missing_ok=True)
        raise CannotApply(f"{edit.name} can't be written ({error.strerror}); nothing was written") from error
    return path


def _replace_all(edits: Sequence[_Edit], copies: Sequence[Path]) -> None:
    done: list[_Edit] = []
    try:
        for edit, copy in zip(edits, copies, strict=True):
            if edit.target.read_bytes() != edit.before:
                raise CannotApply(
                    f"{edit.name} changed just now; nothing was written: run onegraph fix again"
                )
            copy.replace(edit.target)
            done.append(edit)
    except (OSError, CannotApply) as error:
        for edit in reversed(done):
            _copy(edit, edit.before).replace(edit.target)
        if isinstance(error, OSError):
            raise CannotApply(
                f"{edit.name} can't be replaced ({error.strerror}); nothing was written"
            ) from error
        raise
    for folder in {edit.target.parent for edit in edits}:
        _sync_folder(folder)


def _sync_folder(folder: Path) -> None:
    if os.name != "posix":
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
