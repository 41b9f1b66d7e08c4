"""A diff is what git and patch accept, byte for byte."""

import subprocess
from pathlib import Path

import pytest

from onegraph.deliver.unified import diff
from onegraph.model import FileChange

CASES = {
    "one line": ("a\nb\nc\n", "a\nB\nc\n"),
    "no newline at the end before": ("a\nb", "a\nb\nc\n"),
    "no newline at the end after": ("a\nb\n", "a\nc"),
    "no newline at either end": ("a\nb", "c\nb"),
    "windows line ends": ("a\r\nb\r\nc\r\n", "a\r\nif b:\r\n    pass\r\nc\r\n"),
    "form feed and unicode separators stay in their line": ("a\x0cb\nc\u2028d\ne\n", "a\x0cb\nc\u2028x\ne\n"),
    "two places far apart": (
        "".join(f"line {i}\n" for i in range(400)),
        "".join(f"line {i}\n" if i not in (3, 390) else f"mended {i}\nmore\n" for i in range(400)),
    ),
    "insertion at the top": ("x\n", "import torch\nx\n"),
    "from an empty file": ("", "a\n"),
}


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    subprocess.run(["git", "init", "-q", str(tmp_path)], check=True)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("tool", [["git", "apply"], ["patch", "-p1", "--binary", "-s"]], ids=lambda t: t[0])
def test_the_patch_applies_and_gives_the_mended_bytes(repository: Path, name: str, tool: list[str]) -> None:
    before, after = CASES[name]
    target = repository / "package" / "my file.py"
    target.parent.mkdir()
    target.write_bytes(before.encode())
    patch = diff([FileChange(str(target), before, after, ())])
    done = subprocess.run(tool, input=patch.encode(), capture_output=True)
    assert done.returncode == 0, done.stderr.decode()
    assert target.read_bytes() == after.encode()


def test_paths_are_relative_to_the_current_folder(repository: Path) -> None:
    patch = diff([FileChange(str(repository / "train.py"), "a\n", "b\n", ())])
    assert patch.splitlines() == ["--- a/train.py", "+++ b/train.py", "@@ -1 +1 @@", "-a", "+b"]


def test_a_file_of_an_installed_package_is_named_from_the_folder_it_is_installed_in() -> None:
    path = pytest.__file__
    patch = diff([FileChange(path, "a\n", "b\n", ())])
    assert patch.startswith("--- a/pytest/__init__.py\n+++ b/pytest/__init__.py\n")


def test_repeated_lines_in_a_long_file_do_not_blow_up_the_diff() -> None:
    """difflib's default ignores lines that occur often, and then rewrites whole blocks."""
    before = "    return x\n\n" * 300
    after = before[: 300 * 5] + "    y = 1\n" + before[300 * 5 :]
    patch = diff([FileChange("/tmp/long.py", before, after, ())])
    changed = [line for line in patch.splitlines()[2:] if line[0] in "+-"]
    assert changed == ["+    y = 1"] or len(changed) <= 3


def test_nothing_changed_is_an_empty_patch() -> None:
    assert diff([FileChange("/tmp/a.py", "a\n", "a\n", ())]) == ""


def test_several_files_make_one_patch(repository: Path) -> None:
    for name in ("one.py", "two.py"):
        (repository / name).write_text("a\n")
    patch = diff(
        [FileChange(str(repository / name), "a\n", f"{name}\n", ()) for name in ("one.py", "two.py")]
    )
    subprocess.run(["git", "apply"], input=patch.encode(), check=True)
    assert (repository / "one.py").read_text() == "one.py\n"
    assert (repository / "two.py").read_text() == "two.py\n"
