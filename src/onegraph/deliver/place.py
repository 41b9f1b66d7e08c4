"""Where a file lies: in the user's tree, or in what is installed."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from onegraph.diagnose.owner import display_path, owner_of
from onegraph.model import Owner


@dataclass(frozen=True, slots=True)
class Place:
    """The home of one file. ``relative`` is the path inside the folder for installed packages, else ""."""

    path: str
    owner: Owner
    relative: str
    distribution: str
    version: str

    @property
    def whose(self) -> str:
        """For people: "transformers 4.52.4", "the standard library"."""
        if self.owner is Owner.STDLIB:
            return "the standard library"
        return f"{self.distribution} {self.version}".strip() or "an installed package"


def place(path: str) -> Place:
    """Say whose file ``path`` is. An editable install lies in the user's tree and is the user's."""
    owner, versioned = owner_of(path)
    shown = Path(display_path(path))
    relative = (
        shown.as_posix() if owner in (Owner.DEPENDENCY, Owner.TORCH) and not shown.is_absolute() else ""
    )
    distribution, _, version = versioned.partition(" ")
    return Place(path, owner, relative, distribution, version)


def absolute(path: str | os.PathLike[str]) -> Path:
    """The absolute path, ``..`` removed, symbolic links kept (``Path.resolve`` would follow them)."""
    return Path(os.path.abspath(path))  # noqa: PTH100
