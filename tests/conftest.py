"""Tiny modules written to a temporary folder and imported for real."""

from __future__ import annotations

import importlib.util
import sys
import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType

import pytest


@pytest.fixture
def load(tmp_path: Path) -> Iterator[Callable[..., ModuleType]]:
    """``load(text, name="m")`` writes ``name.py`` (byte for byte) and imports it."""
    loaded: list[str] = []

    def load(text: str, name: str = "m", *, dedent: bool = True) -> ModuleType:
        name = f"{name}_{tmp_path.name}".replace("-", "_")
        path = tmp_path / f"{name}.py"
        path.write_bytes((textwrap.dedent(text).lstrip("\n") if dedent else text).encode())
        spec = importlib.util.spec_from_file_location(name, path)
        assert spec is not None and spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        sys.modules[name] = module
        loaded.append(name)
        spec.loader.exec_module(module)
        return module

    yield load
    for name in loaded:
        del sys.modules[name]
