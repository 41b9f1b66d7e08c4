"""Program texts, written to files of their own and imported for real."""

from __future__ import annotations

import importlib.util
import itertools
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

from onegraph import pipeline
from onegraph.model import Call, FixResult, Program

_count = itertools.count()


def imported(folder: Path, text: str, name: str = "") -> ModuleType:
    """The module of a text, which its file has byte for byte; under a name that no other one has, if none is given."""
    number = next(_count)
    name = name or f"program_{number}"
    path = folder / f"{name}_{number}.py"
    path.write_bytes(text.encode())
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None and spec.loader is not None
    module = sys.modules[name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def fixed(folder: Path, text: str, **options: Any) -> FixResult:
    """``program`` of a text, mended for the calls that ``inputs()`` of it lists."""
    module = imported(folder, text)
    calls = tuple(Call(arguments) for arguments in module.inputs())
    return pipeline.fix(Program("program", module.program, calls, {"backend": "aot_eager", **options}))
