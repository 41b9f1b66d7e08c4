"""[tool.onegraph]: found from below, checked key by key."""

from __future__ import annotations

from pathlib import Path

import pytest

from onegraph.gate.settings import Settings, SettingsError, load_settings
from onegraph.model import Limits

KINDS = ("item_call", "print_call")


def project(folder: Path, table: str) -> Path:
    (folder / "pyproject.toml").write_text(table)
    below = folder / "src" / "pkg"
    below.mkdir(parents=True)
    return below


def test_everything(tmp_path: Path) -> None:
    below = project(
        tmp_path,
        """
        [tool.onegraph]
        target = "bench.py:make"
        baseline = "ci/baseline.json"
        dependencies = false
        ignore = ["print_call"]
        [tool.onegraph.per-file-ignores]
        "src/debug/*" = ["all"]
        [tool.onegraph.limits]
        breaks = 2
        recompiles = 1
        """,
    )
    found = load_settings(below, KINDS)
    assert found == Settings(
        root=tmp_path,
        target="bench.py:make",
        baseline=tmp_path / "ci/baseline.json",
        dependencies=False,
        ignore=("print_call",),
        per_file_ignores={"src/debug/*": ("all",)},
        limits=Limits(2, 1),
    )
    assert found.ignored("print_call", "src/a.py")
    assert found.ignored("item_call", "src/debug/deep/a.py")
    assert not found.ignored("item_call", "src/a.py")


def test_without_a_table_the_project_is_the_nearest_pyproject(tmp_path: Path) -> None:
    below = project(tmp_path, "[project]\nname = 'x'\n")
    found = load_settings(below)
    assert found == Settings(root=tmp_path, baseline=tmp_path / "onegraph-baseline.json")


def test_without_a_project_it_is_the_folder(tmp_path: Path) -> None:
    assert load_settings(tmp_path).root == tmp_path


@pytest.mark.parametrize(
    ("table", "said"),
    [
        ("[tool.onegraph]\nignroe = []", "has no 'ignroe'; did you mean ignore?"),
        ("[tool.onegraph]\nignore = 'a'", "ignore is a list, not 'a'"),
        ("[tool.onegraph]\nignore = ['item']", "no kind 'item'"),
        ("[tool.onegraph]\ndependencies = 1", "dependencies is a bool, not 1"),
        ("[tool.onegraph.limits]\nbreak = 1", "limits has no 'break'"),
        ("[tool.onegraph.limits]\nbreaks = -1", "limits.breaks is a number from 0"),
        ("[tool.onegraph.limits]\nbreaks = true", "limits.breaks is a number from 0"),
        ("[tool.onegraph.per-file-ignores]\n'a' = 'b'", "per-file-ignores of a is a list of kinds"),
        ("[tool]\nonegraph = 1", "is a table, not 1"),
        ("[tool.onegraph", "can't be read"),
    ],
)
def test_what_is_wrong_is_named(tmp_path: Path, table: str, said: str) -> None:
    with pytest.raises(SettingsError, match=r"pyproject\.toml") as caught:
        load_settings(project(tmp_path, table), KINDS)
    assert said in str(caught.value)
