"""Where installed packages stand on this machine. Imports no torch."""

from __future__ import annotations

import site
import sysconfig
from functools import cache
from pathlib import Path


def package_folders(path: Path) -> list[Path]:
    """The folder for installed packages around ``path``: none or one."""
    for parent in path.parents:
        if parent.name in ("site-packages", "dist-packages") or parent in _site_folders():
            return [parent]
    return []


@cache
def _site_folders() -> frozenset[Path]:
    own = [sysconfig.get_path("purelib"), sysconfig.get_path("platlib"), site.getusersitepackages()]
    return frozenset(Path(folder) for folder in own if folder)
