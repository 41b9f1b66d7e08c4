"""Applying is all or nothing, keeps what a file is, and says why it refuses."""

import os
from pathlib import Path

import pytest

from onegraph.deliver.apply_files import CannotApply, apply
from onegraph.model import FileChange


def change(path: Path, before: str, after: str) -> FileChange:
    return FileChange(str(path), before, after, ())


def listing(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def write(path: Path, text: str, encoding: str = "utf-8") -> Path:
    path.write_bytes(text.encode(encoding))
    return path


def test_writes_the_mended_text_and_leaves_nothing_else(tmp_path: Path) -> None:
    path = write(tmp_path / "a.py", "x = 1\n")
    assert apply([change(path, "x = 1\n", "x = 2\n")]) == (str(path),)
    assert path.read_text() == "x = 2\n"
    assert listing(tmp_path) == ["a.py"]


def test_keeps_mode_and_symbolic_link(tmp_path: Path) -> None:
    path = write(tmp_path / "real.py", "x = 1\n")
    path.chmod(0o751)
    link = tmp_path / "link.py"
    link.symlink_to("real.py")
    apply([change(link, "x = 1\n", "x = 2\n")])
    assert link.is_symlink()
    assert path.read_text() == "x = 2\n"
    assert path.stat().st_mode & 0o777 == 0o751


@pytest.mark.parametrize(
    ("encoding", "text"),
    [
        ("utf-8-sig", "x = 'é'\n"),
        ("latin-1", "# -*- coding: latin-1 -*-\nx = 'é'\n"),
        ("utf-8", "x = 'é'\r\ny = 1\r\n"),
        ("utf-8", "x = 1\x0c\ny = 2"),
    ],
)
@pytest.mark.parametrize("newlines_read_as", ["as they are", "universal"])
def test_keeps_encoding_and_line_ends(
    tmp_path: Path, encoding: str, text: str, newlines_read_as: str
) -> None:
    path = write(tmp_path / "a.py", text, encoding)
    seen = text.replace("\r\n", "\n") if newlines_read_as == "universal" else text
    apply([change(path, seen, seen.replace("x = ", "z = "))])
    assert path.read_bytes() == text.replace("x = ", "z = ").encode(encoding)


def test_refuses_a_file_that_changed_and_says_which_lines(tmp_path: Path) -> None:
    observed = "".join(f"line{i} = 0\n" for i in range(1, 9))
    path = write(tmp_path / "a.py", observed.replace("line3 = 0", "line3 = 9").replace("line7", "seven"))
    found = path.read_bytes()
    with pytest.raises(CannotApply, match=r"a\.py changed since it was observed \(lines 3, 7\)"):
        apply([change(path, observed, "")])
    assert path.read_bytes() == found


def test_several_files_all_or_nothing_when_one_is_refused(tmp_path: Path) -> None:
    good, bad = write(tmp_path / "good.py", "a\n"), write(tmp_path / "bad.py", "changed\n")
    with pytest.raises(CannotApply):
        apply([change(good, "a\n", "b\n"), change(bad, "a\n", "b\n")])
    assert good.read_text() == "a\n"
    assert listing(tmp_path) == ["bad.py", "good.py"]


def test_several_files_are_put_back_when_the_system_fails_half_way(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    paths = [write(tmp_path / f"{name}.py", "a\n") for name in ("one", "two")]
    replace = Path.replace

    def failing(self: Path, target: Path) -> Path:
        if Path(target).name == "two.py":
            raise OSError(28, "No space left on device")
        return replace(self, target)

    monkeypatch.setattr(Path, "replace", failing)
    with pytest.raises(CannotApply, match="No space left"):
        apply([change(path, "a\n", "b\n") for path in paths])
    assert [path.read_text() for path in paths] == ["a\n", "a\n"]
    assert listing(tmp_path) == ["one.py", "two.py"]


def test_never_touches_an_installed_package(tmp_path: Path) -> None:
    before = Path(pytest.__file__).read_bytes()
    with pytest.raises(CannotApply, match=r"belongs to pytest .*--overlay"):
        apply([change(Path(pytest.__file__), before.decode(), "")])
    link = tmp_path / "mine.py"
    link.symlink_to(pytest.__file__)
    with pytest.raises(CannotApply, match=r"belongs to pytest .*--overlay"):
        apply([change(link, before.decode(), "")])
    assert Path(pytest.__file__).read_bytes() == before


def test_never_touches_the_standard_library() -> None:
    with pytest.raises(CannotApply, match="belongs to the standard library"):
        apply([change(Path(os.__file__), Path(os.__file__).read_text(), "")])


@pytest.mark.parametrize("what", ["missing", "folder", "read-only"])
def test_says_clearly_that_a_target_can_not_be_written(tmp_path: Path, what: str) -> None:
    path = tmp_path / "a.py"
    if what == "folder":
        path.mkdir()
    if what == "read-only":
        write(path, "a\n").chmod(0o444)
    with pytest.raises(CannotApply, match=r"a\.py (can't be read|is not a regular file|is read-only)"):
        apply([change(path, "a\n", "b\n")])


def test_refuses_text_that_the_encoding_of_the_file_can_not_hold(tmp_path: Path) -> None:
    text = "# coding: latin-1\nx = 1\n"
    path = write(tmp_path / "a.py", text, "latin-1")
    with pytest.raises(CannotApply, match="iso-8859-1"):
        apply([change(path, text, text + "y = '→'\n")])
    assert path.read_bytes() == text.encode("latin-1")
