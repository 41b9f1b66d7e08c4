"""Write a text file in one step: a reader sees the old text or the whole new one, never a half."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path


def write_atomically(path: str | os.PathLike[str], text: str) -> None:
    """Replace ``path`` by a finished copy that lies next to it. A symbolic link stays one, permissions stay;
    what is no regular file (``/dev/stdout``, a pipe) is written into. Raises OSError, and then the file is
    as before."""
    target = Path(path).resolve()
    if target.exists() and not target.is_file():
        target.write_text(text, encoding="utf-8")
        return
    handle, name = tempfile.mkstemp(prefix=f".{target.name}.", suffix=".onegraph", dir=target.parent)
    copy = Path(name)
    try:
        with os.fdopen(handle, "w", encoding="utf-8", newline="") as file:
            file.write(text)
        copy.chmod(target.stat().st_mode & 0o777 if target.exists() else 0o666 & ~_umask())
        copy.replace(target)
    except BaseException:
        copy.unlink(missing_ok=True)
        raise


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
