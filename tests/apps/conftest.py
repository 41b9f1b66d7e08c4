"""Commands run in an empty folder with a few targets, in this process; the interpreter stays as it was."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from onegraph.apps.cli import main

TARGETS = """\
import functools
import torch


def branch(x):
    if x.sum() > 0:
        return x * 2
    return x - 1


def breaks():
    return branch, [(torch.ones(3),), (-torch.ones(3),)]


def clean():
    print("the factory prints")
    return lambda x: x * 2, (torch.ones(3),)


def intended():
    def f(x):
        torch._dynamo.graph_break()
        return x * 2

    return f, (torch.ones(3),)


def raising():
    raise ValueError("no data")


def always_failing():
    def f(x):
        raise RuntimeError("bad model")

    return f, (torch.ones(3),)


def sometimes_failing():
    def f(x, strict):
        if strict:
            raise ValueError("strict")
        return x * 2

    return f, [(torch.ones(3), False), (torch.ones(3), True)]


def no_tensors():
    return lambda n: n + 1, (3,)


def no_source():
    names = {}
    exec("def f(x):\\n    if x.sum() > 0:\\n        return x\\n    return x + 1\\n", names)
    return names["f"], (torch.ones(3),)


def decorated():
    @functools.wraps(branch)
    def wrapper(*args):
        return branch(*args)

    return wrapper, (torch.ones(3),)
"""

SCRIPT = """\
import sys
import torch


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(3, 3)

    def forward(self, x):
        h = self.layer(x)
        print("hidden", tuple(h.shape))
        return h.relu()


if __name__ == "__main__":
    model = torch.compile(Net(), backend="eager")
    model(torch.ones(2, 3))
    print("arguments", sys.argv[1:])
"""


@pytest.fixture(autouse=True)
def folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Path]:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.setattr(sys, "argv", list(sys.argv))
    monkeypatch.setitem(sys.modules, "__main__", sys.modules["__main__"])
    (tmp_path / "targets.py").write_text(TARGETS)
    (tmp_path / "train.py").write_text(SCRIPT)
    importlib.invalidate_caches()
    before = set(sys.modules)
    yield tmp_path
    for name in set(sys.modules) - before:
        if str(getattr(sys.modules[name], "__file__", None)).startswith(str(tmp_path)):
            del sys.modules[name]


@pytest.fixture
def onegraph() -> Callable[..., Result]:
    """Run a command; ``.stdout`` and ``.stderr`` are kept apart."""
    return lambda *words: CliRunner().invoke(main, words)
