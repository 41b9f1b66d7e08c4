"""Run a script as ``python script.py`` or ``python -m module`` would, in this process, and keep what it made.

``runpy`` forgets ``__main__`` when the script ends; here it stays, so that functions of the script can be
mended.
"""

from __future__ import annotations

import builtins
import importlib.machinery
import importlib.util
import io
import pkgutil
import sys
import types
from dataclasses import dataclass
from pathlib import Path

from onegraph.targets.errors import TargetError, TargetFailed
from onegraph.targets.traceback import trimmed


@dataclass(frozen=True, slots=True)
class Script:
    """A script (``name`` is its path) or, with ``module``, a module (``name`` is dotted), and its
    arguments."""

    name: str
    argv: tuple[str, ...] = ()
    module: bool = False

    def __str__(self) -> str:
        return " ".join((("-m " if self.module else "") + self.name, *self.argv))

    def run(self) -> None:
        """Run to the end. ``sys.argv``, ``sys.path[0]`` and ``__main__`` are the script's, and stay so.

        A script that leaves with ``sys.exit(0)`` has ended well. Raises TargetError where nothing can be run,
        TargetFailed with whatever the script raised (a SystemExit with another code too).
        """
        code, main, path0 = self._module() if self.module else self._file()
        sys.argv[:] = [str(main.__file__ if self.module else self.name), *self.argv]
        sys.path[0:1] = [path0]
        sys.modules["__main__"] = main
        try:
            exec(code, main.__dict__)
        except SystemExit as stop:
            if stop.code not in (None, 0):
                raise TargetFailed(trimmed(stop)) from None
        except KeyboardInterrupt:
            raise
        except BaseException as error:  # noqa: BLE001 (whatever the target raises is its own)
            raise TargetFailed(trimmed(error)) from None

    def _file(self) -> tuple[types.CodeType, types.ModuleType, str]:
        path = Path(self.name).absolute()
        importer = None if path.suffix == ".py" else pkgutil.get_importer(str(path))
        if importer is not None and (spec := importer.find_spec("__main__")) is not None:
            return _code(spec, self.name), _main(str(path / "__main__.py"), spec), str(path)
        with io.open_code(str(path)) as file:
            source = file.read()
        try:
            code = compile(source, str(path), "exec", dont_inherit=True)
        except (SyntaxError, ValueError) as error:
            raise TargetFailed(trimmed(error)) from None
        return code, _main(str(path), None), str(path.resolve().parent)

    def _module(self) -> tuple[types.CodeType, types.ModuleType, str]:
        here = str(Path.cwd())
        sys.path.insert(0, here)
        try:
            spec = _find(self.name)
        finally:
            sys.path.remove(here)
        if spec is None or spec.loader is None:
            raise TargetError(
                f"no module named {self.name}",
                f"Looked in {here} and in the packages of {sys.executable}.",
                "check the name, or run from the folder that holds it",
            )
        return _code(spec, self.name), _main(spec.origin or self.name, spec), here


def _find(name: str) -> importlib.machinery.ModuleSpec | None:
    try:
        spec = importlib.util.find_spec(name)
        if spec is not None and spec.submodule_search_locations is not None:
            return importlib.util.find_spec(f"{name}.__main__")
        return spec
    except ModuleNotFoundError as error:
        if error.name is not None and (name == error.name or name.startswith(error.name + ".")):
            return None
        raise TargetFailed(trimmed(error)) from None
    except Exception as error:  # noqa: BLE001 (a parent package of the target is imported here)
        raise TargetFailed(trimmed(error)) from None


def _code(spec: importlib.machinery.ModuleSpec, name: str) -> types.CodeType:
    get_code = getattr(spec.loader, "get_code", None)
    try:
        code = get_code(spec.name) if get_code else None
    except SyntaxError as error:
        raise TargetFailed(trimmed(error)) from None
    if code is None:
        raise TargetError(f"{name} has no Python code to run", "It is a C extension or an empty namespace.")
    assert isinstance(code, types.CodeType)
    return code


def _main(file: str, spec: importlib.machinery.ModuleSpec | None) -> types.ModuleType:
    """An empty ``__main__``; ``spec`` is None for a plain script, as Python has it."""
    main = types.ModuleType("__main__")
    loader = spec.loader if spec is not None else importlib.machinery.SourceFileLoader("__main__", file)
    main.__dict__.update(
        __file__=file,
        __builtins__=builtins,
        __loader__=loader,
        __spec__=spec,
        __package__=spec.parent if spec is not None else None,
        __cached__=None,
        __annotations__={},
    )
    return main
