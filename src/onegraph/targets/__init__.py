"""What people give to onegraph: a script, a module, a factory, or a callable with inputs.

``resolve`` turns the words of a command line into a ``Program`` (from a factory) or a ``Script``;
``from_callable`` makes a ``Program`` in Python; ``recorded`` collects the programs that a script compiles.
"""

from onegraph.targets.errors import TargetError, TargetFailed
from onegraph.targets.factory import from_callable, from_factory, holds_tensor
from onegraph.targets.recording import Recorded, Recording, recorded
from onegraph.targets.script import Script
from onegraph.targets.spec import resolve

__all__ = [
    "Recorded",
    "Recording",
    "Script",
    "TargetError",
    "TargetFailed",
    "from_callable",
    "from_factory",
    "holds_tensor",
    "recorded",
    "resolve",
]
