"""A script runs as Python would run it, and its ``__main__`` stays."""

from __future__ import annotations

import sys
import zipfile
from pathlib import Path
from typing import Any

import pytest

from onegraph.targets import Script, TargetError, TargetFailed
from onegraph.targets.traceback import text

TELL = """\
import sys, __main__; main = __main__.__dict__
seen = dict(name=__name__, file=__file__, argv=sys.argv[:], path0=sys.path[0], same=main is globals(),
            package=__package__, spec=getattr(__spec__, "name", None), line=__doc__)
"""


def seen() -> dict[str, Any]:
    found: dict[str, Any] = sys.modules["__main__"].seen  # type: ignore[attr-defined]
    return found


def test_a_script_sees_itself_as_main() -> None:
    Path("sub").mkdir()
    Path("sub/train.py").write_text(TELL)
    Script("sub/train.py", ("--lr", "1")).run()
    assert seen() == {
        "name": "__main__",
        "file": str(Path.cwd() / "sub/train.py"),
        "argv": ["sub/train.py", "--lr", "1"],
        "path0": str(Path.cwd() / "sub"),
        "same": True,
        "package": None,
        "spec": None,
        "line": None,
    }


def test_a_module_sees_itself_as_main() -> None:
    Path("pkg").mkdir()
    Path("pkg/__init__.py").write_text("")
    Path("pkg/train.py").write_text("from . import __name__ as parent\n" + TELL)
    Script("pkg.train", ("x",), module=True).run()
    here = str(Path.cwd())
    told = seen()
    assert (told["name"], told["package"], told["spec"]) == ("__main__", "pkg", "pkg.train")
    assert told["argv"] == [str(Path(here, "pkg/train.py")), "x"]
    assert told["path0"] == here


def test_folders_and_zips_run_their_main() -> None:
    with zipfile.ZipFile("app.zip", "w") as archive:
        archive.writestr("__main__.py", "import helper\n" + TELL)
        archive.writestr("helper.py", "")
    Script("app.zip").run()
    assert seen()["path0"] == str(Path.cwd() / "app.zip")
    assert seen()["name"] == "__main__"


@pytest.mark.parametrize("leave", ["sys.exit()", "sys.exit(0)", "raise SystemExit"])
def test_a_clean_exit_is_a_good_end(leave: str) -> None:
    Path("train.py").write_text(f"import sys\n{leave}\n")
    Script("train.py").run()


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ("sys.exit(3)", "the target called sys.exit(3)"),
        ("sys.exit('no data')", "the target called sys.exit('no data')"),
        ("1 / 0", "ZeroDivisionError: division by zero"),
        ("def broken(:", "SyntaxError"),
    ],
)
def test_a_failing_script_shows_its_own_traceback(body: str, said: str) -> None:
    Path("train.py").write_text(f"import sys\n{body}\n")
    with pytest.raises(TargetFailed) as caught:
        Script("train.py").run()
    shown = text(caught.value.error)
    assert said in shown
    assert "onegraph" not in shown


def test_frames_of_ours_between_the_targets_are_left_out() -> None:
    Path("train.py").write_text(
        "import torch\n"
        "def f(x): raise ValueError('inside')\n"
        "g = torch.compile(f, backend='eager')\n"
        "g(torch.ones(2))\n"
    )
    from onegraph.targets import recorded

    with recorded(), pytest.raises(TargetFailed) as caught:
        Script("train.py").run()
    shown = text(caught.value.error)
    assert "in f" in shown
    assert "entries.py" not in shown


def test_no_such_module() -> None:
    with pytest.raises(TargetError, match="no module named nowhere_to_be_found"):
        Script("nowhere_to_be_found.train", module=True).run()
