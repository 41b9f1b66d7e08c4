"""Which torch is this, and do we support it? Imports no torch."""

from __future__ import annotations

import re
from importlib import metadata

OLDEST = (2, 11)


class UnsupportedTorch(Exception):
    """torch is missing or too old; the message says what to do."""


def installed() -> str | None:
    """The version of the installed torch, None without one."""
    try:
        return metadata.version("torch")
    except metadata.PackageNotFoundError:
        return None


def require() -> None:
    """Raises UnsupportedTorch unless the installed torch is at least ``OLDEST``."""
    oldest = ".".join(map(str, OLDEST))
    found = installed()
    if found is None:
        raise UnsupportedTorch(f"torch is not installed here\nnext: pip install 'torch>={oldest}'")
    if _numbers(found) < OLDEST:
        raise UnsupportedTorch(
            f"torch {found} is too old\n"
            f"onegraph reads Dynamo's own records, which exist since torch {oldest}.\n"
            f"next: pip install 'torch>={oldest}'"
        )


def _numbers(version: str) -> tuple[int, int]:
    match = re.match(r"(\d+)\.(\d+)", version)
    return (int(match[1]), int(match[2])) if match else (0, 0)
