"""How the mended text gets to where it runs: a patch, the user's files, an overlay, ``onegraph.compile``."""

from onegraph.deliver.apply import CannotApply, apply
from onegraph.deliver.compiled import compile
from onegraph.deliver.diff import diff
from onegraph.deliver.left import GraphBreaksLeft, GraphBreaksLeftWarning
from onegraph.deliver.overlay_file import OverlayRefused, write_overlay

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
