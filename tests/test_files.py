"""A report is written as a whole or not at all."""

from __future__ import annotations

from pathlib import Path

import pytest

from onegraph.files import write_atomically


def test_a_new_file_has_the_usual_permissions(tmp_path: Path) -> None:
    plain, ours = tmp_path / "plain", tmp_path / "ours"
    plain.write_text("x")
    write_atomically(ours, "x")
    assert ours.stat().st_mode == plain.stat().st_mode
    assert sorted(each.name for each in tmp_path.iterdir()) == ["ours", "plain"]


def test_an_old_file_keeps_its_permissions_and_links(tmp_path: Path) -> None:
    target, link = tmp_path / "target", tmp_path / "link"
    target.write_text("old")
    target.chmod(0o640)
    link.symlink_to(target)
    write_atomically(link, "new\r\n")
    assert link.is_symlink()
    assert target.read_bytes() == b"new\r\n"
    assert target.stat().st_mode & 0o777 == 0o640


def test_what_is_no_file_is_written_into() -> None:
    write_atomically("/dev/null", "text")
    assert not Path("/dev/null").is_file()


def test_a_failure_leaves_the_old_file(tmp_path: Path) -> None:
    path = tmp_path / "report"
    path.write_text("old")
    with pytest.raises(UnicodeEncodeError):
        write_atomically(path, "\ud800")
    assert path.read_text() == "old"
    assert [each.name for each in tmp_path.iterdir()] == ["report"]
