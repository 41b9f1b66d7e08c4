"""The baseline file: what it holds, and that it changes only where told."""

from __future__ import annotations

from pathlib import Path

import pytest

from onegraph.gate.baseline import Baseline, BaselineError, torch_minor
from onegraph.model import Key

ONE = Key("item_call", "model.py", "f", "x.item()", 0)
TWO = Key("print_call", "model.py", "f", "print(x)", 1)


def test_it_reads_what_it_wrote(tmp_path: Path) -> None:
    path = tmp_path / "b.json"
    baseline = Baseline().with_keys("2.13", "train.py", [TWO, ONE]).with_keys("2.14", "train.py", [ONE])
    baseline.write(path)
    again = Baseline.read(path)
    assert again.accepted("2.13", "train.py") == (TWO, ONE)  # sorted by place and statement
    assert again.accepted("2.14", "train.py") == (ONE,)
    assert again.accepted("2.13", "eval.py") == ()
    assert again.text() == path.read_text()
    assert "line" not in path.read_text()


def test_a_target_keeps_its_entries_when_another_is_changed() -> None:
    baseline = Baseline().with_keys("2.13", "a.py", [ONE]).with_keys("2.13", "b.py", [ONE, TWO])
    less = baseline.without("2.13", "b.py", [ONE])
    assert less.accepted("2.13", "a.py") == (ONE,)
    assert less.accepted("2.13", "b.py") == (TWO,)


def test_an_empty_list_goes() -> None:
    assert Baseline().with_keys("2.13", "a.py", [ONE]).without("2.13", "a.py", [ONE]).sections == {}


def test_no_file_is_an_empty_baseline(tmp_path: Path) -> None:
    assert Baseline.read(tmp_path / "none.json").sections == {}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("{", "can't be read as a baseline"),
        ("[]", "is no baseline of version 1"),
        ('{"version": 2}', "is no baseline of version 1"),
        ('{"version": 1}', "KeyError: 'torch'"),
        ('{"version": 1, "torch": {"2.13": {"t": [{"kind": "a"}]}}}', "an entry that can't be understood"),
        ('{"version": 1, "torch": {"2.13": []}}', "an entry that can't be understood"),
    ],
)
def test_what_is_no_baseline_is_refused(tmp_path: Path, text: str, said: str) -> None:
    path = tmp_path / "b.json"
    path.write_text(text)
    with pytest.raises(BaselineError, match=r"b\.json") as caught:
        Baseline.read(path)
    assert said in str(caught.value)


def test_the_minor_version_has_no_local_part() -> None:
    major, minor = torch_minor().split(".")
    assert major.isdigit() and minor.isdigit()
