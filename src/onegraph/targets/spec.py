"""The grammar of TARGET on a command line."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from onegraph.model import Program
from onegraph.targets.errors import TargetError
from onegraph.targets.factory import from_factory
from onegraph.targets.script import Script

FORMS = "train.py [-- ARGS] · -m pkg.mod [-- ARGS] · pkg.mod:factory · path/file.py:factory"
_DOTTED = re.compile(r"[^\W\d]\w*(\.[^\W\d]\w*)*")


def resolve(spec: str, argv: Sequence[str] = ()) -> Program | Script:
    """The program or the script that ``spec`` names.

    ``spec`` is one of ``train.py`` (also a folder or zip with a ``__main__.py``), ``-m pkg.mod``,
    ``pkg.mod:factory``, ``path/file.py:factory``. A factory is imported and called here; a script runs later.

    Raises TargetError where there is no such thing, TargetFailed where importing or calling the factory
    raised.
    """
    if spec.startswith("-m"):
        return _module(spec[2:].strip(), argv)
    where, colon, name = spec.rpartition(":")
    if colon and (where.endswith(".py") or _DOTTED.fullmatch(where)):
        if argv:
            raise TargetError(
                f"{spec} takes no arguments: {' '.join(argv)}",
                "A factory is called with nothing.",
                "read the arguments in the factory, or name a script: file.py -- ARGS",
            )
        return from_factory(where, name)
    return _script(spec, argv)


def _module(name: str, argv: Sequence[str]) -> Script:
    if not _DOTTED.fullmatch(name):
        raise TargetError(f"-m {name}: not the name of a module", next_step=f"TARGET is one of  {FORMS}")
    return Script(name, tuple(argv), module=True)


def _script(spec: str, argv: Sequence[str]) -> Script:
    path = Path(spec)
    if path.is_file() or (path / "__main__.py").is_file():
        return Script(spec, tuple(argv))
    if path.is_dir():
        raise TargetError(f"{spec} is a folder without a __main__.py", next_step="name the script in it")
    if spec.endswith(".py") or "/" in spec:
        raise TargetError(
            f"no such file: {spec}", f"Looked in {Path.cwd()}.", "check the path, or change the folder"
        )
    hint = (
        f"python modules are run with  -m {spec}" if _DOTTED.fullmatch(spec) else f"TARGET is one of  {FORMS}"
    )
    raise TargetError(f"no such file: {spec}", next_step=hint)
