"""A program in a real file, and its text after a repair."""

from __future__ import annotations

import importlib.util
import itertools
import textwrap

import pytest

from onegraph.model import Call, Program
from onegraph.rewrite.workspace import Workspace

_numbers = itertools.count()


class Pair:
    """``before`` and ``after`` are module texts with ``program`` and ``inputs()`` in them."""

    def __init__(self, folder, before, after, functions=("program",)):
        path = folder / f"mended_{next(_numbers)}.py"
        path.write_text(textwrap.dedent(before))
        spec = importlib.util.spec_from_file_location(path.stem, path)
        self.module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(self.module)
        self.original = Workspace()
        self.mended = Workspace().with_text(str(path), textwrap.dedent(after), tuple(functions))
        calls = [Call(args) for args in self.module.inputs()]
        self.program = Program(path.stem, self.module.program, tuple(calls))


@pytest.fixture
def pair(tmp_path):
    return lambda before, after, functions=("program",): Pair(tmp_path, before, after, functions)
