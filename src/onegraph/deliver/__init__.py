"""How the mended text gets to where it runs: a patch, the user's files, an overlay, ``onegraph.compile``.

Each is imported when it is asked for: an overlay in production needs nothing of the mending.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from onegraph.deliver.apply_files import CannotApply, apply
    from onegraph.deliver.compiled import compile
    from onegraph.deliver.left import GraphBreaksLeft, GraphBreaksLeftWarning
    from onegraph.deliver.overlay_file import OverlayRefused, write_overlay
    from onegraph.deliver.unified import diff

__all__ = [
    "CannotApply",
    "GraphBreaksLeft",
    "GraphBreaksLeftWarning",
    "OverlayRefused",
    "apply",
    "compile",
    "diff",
    "write_overlay",
]

_HOMES = {
    "CannotApply": "apply_files",
    "GraphBreaksLeft": "left",
    "GraphBreaksLeftWarning": "left",
    "OverlayRefused": "overlay_file",
    "apply": "apply_files",
    "compile": "compiled",
    "diff": "unified",
    "write_overlay": "overlay_file",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_HOMES[name]}"), name)
