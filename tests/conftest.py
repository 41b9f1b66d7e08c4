"""Tiny modules written to a temporary folder and imported for real."""

from __future__ import annotations

import gc
import sys
import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType

import pytest

from imported import imported

# A swap looks through all objects of the process for functions. Without those that torch brought, tests take half the
# time. What a test imports comes later, and is seen.
gc.collect()
gc.freeze()


@pytest.fixture
def load(tmp_path: Path) -> Iterator[Callable[..., ModuleType]]:
    """``load(text, name="m")`` writes a file (byte for byte) and imports it."""
    loaded: list[str] = []

    def load(text: str, name: str = "m", *, dedent: bool = True) -> ModuleType:
        text = textwrap.dedent(text).lstrip("\n") if dedent else text
        module = imported(tmp_path, text, f"{name}_{tmp_path.name}".replace("-", "_"))
        loaded.append(module.__name__)
        return module

    yield load
    for name in loaded:
        del sys.modules[name]
