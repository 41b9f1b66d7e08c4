"""Whose code is a file?"""

from __future__ import annotations

import json
import zipfile
from pathlib import Path

import msgspec
import pytest
import torch

from onegraph.diagnose import display_path, owner_of
from onegraph.diagnose.source import snippet
from onegraph.model import Owner, Span


@pytest.mark.parametrize(
    ("file", "owner", "package"),
    [
        (__file__, Owner.USER, ""),
        ("<string>", Owner.USER, ""),
        ("<ipython-input-3-abc>", Owner.USER, ""),
        ("<frozen importlib._bootstrap>", Owner.STDLIB, ""),
        (json.__file__, Owner.STDLIB, ""),
        (str(torch.__file__), Owner.TORCH, f"torch {torch.__version__}"),
        (str(msgspec.__file__), Owner.DEPENDENCY, f"msgspec {msgspec.__version__}"),
        ("/elsewhere/lib/python3.12/site-packages/nobody/x.py", Owner.DEPENDENCY, "nobody"),
        ("/elsewhere/lib/python3.12/site-packages/torch/nn/modules/module.py", Owner.TORCH, "torch"),
        ("/elsewhere/lib/python3.12/logging/__init__.py", Owner.STDLIB, ""),
    ],
)
def test_owner(file: str, owner: Owner, package: str) -> None:
    assert owner_of(file) == (owner, package)


def test_paths_for_people(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    assert display_path(str(tmp_path / "sub/model.py")) == "sub/model.py"
    assert display_path("/somewhere/else.py") == "/somewhere/else.py"
    assert display_path(str(msgspec.__file__)) == "msgspec/__init__.py"
    assert display_path("<string>") == "<string>"


def test_source_inside_a_zip(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "lib.zip", "w") as archive:
        archive.writestr("zipped_model.py", "def f(x):\n    return x.item()\n")
    monkeypatch.syspath_prepend(str(tmp_path / "lib.zip"))
    import zipped_model  # type: ignore[import-not-found]

    assert snippet(Span(zipped_model.__file__, 2, 11, 2, 19)) == "x.item()"
