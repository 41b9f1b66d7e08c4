"""Whose code is it: may its globals hold state of the user's program?"""

from __future__ import annotations

import functools
import sys
from pathlib import Path
from typing import Any

from onegraph.installed import package_folders

# These keep their own books (caches, registries, compiled code); a run must not be undone there.
_MACHINERY = frozenset({"torch", "torchgen", "functorch", "numpy", "onegraph", "triton", "pytest", "_pytest"})


def is_user_module(name: Any) -> bool:
    """Whether a module's globals may be state of a program: neither torch, the standard library, nor
    onegraph.
    """
    if not isinstance(name, str):
        return False
    root = name.partition(".")[0]
    if root == "__main__":
        return True
    return root not in _MACHINERY and root not in sys.stdlib_module_names


def root_of(name: Any) -> str:
    """The top-level package of a module's name."""
    return name.partition(".")[0] if isinstance(name, str) else ""


@functools.lru_cache(1024)
def is_installed(root: str) -> bool:
    """Whether a top-level package stands in site-packages, so that it is a dependency."""
    module = sys.modules.get(root)
    places = [*getattr(module, "__path__", ()), getattr(module, "__file__", None)]
    return any(package_folders(Path(place)) for place in places if place)
