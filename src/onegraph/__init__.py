"""onegraph: give torch.compile one graph, with proof that nothing else changed.

    report = onegraph.explain(model)(x)          where the graph breaks, and why
    fix = onegraph.fix(model)(x)                 mended and verified; print(fix.diff), fix.apply()
    model = onegraph.compile(model)              torch.compile, with one graph
    with onegraph.watch() as report: train()     everything compiled inside

Importing onegraph is cheap: torch is imported by the first call.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from onegraph.deliver import GraphBreaksLeft, GraphBreaksLeftWarning, compile
    from onegraph.facade import explain, fix, watch

__version__ = "0.1.0"
__all__ = [
    "GraphBreaksLeft",
    "GraphBreaksLeftWarning",
    "__version__",
    "compile",
    "explain",
    "fix",
    "overlay",
    "watch",
]

_HOMES = {
    "GraphBreaksLeft": "onegraph.deliver",
    "GraphBreaksLeftWarning": "onegraph.deliver",
    "compile": "onegraph.deliver",
    "explain": "onegraph.facade",
    "fix": "onegraph.facade",
    "watch": "onegraph.facade",
}


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(importlib.import_module(_HOMES[name]), name)
    if name == "overlay":
        return importlib.import_module("onegraph.overlay")
    raise AttributeError(f"module 'onegraph' has no attribute {name!r}")


def load_ipython_extension(shell: Any) -> None:
    """``%load_ext onegraph`` in a notebook."""
    from onegraph.apps.notebook import register

    register(shell)


def __dir__() -> list[str]:
    return sorted(__all__)
