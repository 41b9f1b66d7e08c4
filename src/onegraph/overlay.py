"""Overlays: mended functions of an installed library, swapped in without touching its files.

An overlay is a Python file made by ``onegraph fix TARGET --overlay FILE``. Importing it installs it; or
give its path to :func:`install`.
"""

from onegraph.deliver.overlay_file import OverlayRefused
from onegraph.deliver.overlay_install import install, uninstall

__all__ = ["OverlayRefused", "install", "uninstall"]
