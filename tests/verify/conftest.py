"""A program in a real file, and its text after a repair."""

from __future__ import annotations

import textwrap

import pytest

from imported import imported
from onegraph.model import Call, Program
from onegraph.rewrite.workspace import Workspace


class Pair:
    """``before`` and ``after`` are module texts with ``program`` and ``inputs()`` in them."""

    def __init__(self, folder, before, after, functions=("program",)):
        self.module = imported(folder, textwrap.dedent(before))
        path = self.module.__file__
        self.original = Workspace()
        self.mended = Workspace().with_text(path, textwrap.dedent(after), tuple(functions))
        calls = [Call(args) for args in self.module.inputs()]
        self.program = Program(self.module.__name__, self.module.program, tuple(calls))


@pytest.fixture
def pair(tmp_path):
    return lambda before, after, functions=("program",): Pair(tmp_path, before, after, functions)
