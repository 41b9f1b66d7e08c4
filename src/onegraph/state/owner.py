"""Whose code is it: may its globals hold state of the user's program?"""

from __future__ import annotations

import sys
from typing import Any

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
