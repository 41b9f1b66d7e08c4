"""Reading the text of a function, and the reasons why that can fail."""

from __future__ import annotations

import functools
import zipfile
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest

from onegraph.rewrite import source
from onegraph.rewrite.source import SourceUnavailable
from onegraph.rewrite.workspace import Workspace

Load = Callable[..., ModuleType]


@pytest.mark.parametrize(
    "raw",
    [
        b"x = 1\r\ny = 2\r\n",
        b"\xef\xbb\xbfx = 1\n",
        b"# -*- coding: latin-1 -*-\nx = '\xe9'\n",
        b"x = '\xc3\xa9'",
    ],
)
def test_the_text_gives_back_the_bytes_of_the_file(tmp_path: Path, raw: bytes) -> None:
    path = tmp_path / "m.py"
    path.write_bytes(raw)
    found = source.read(str(path))
    assert found.text.encode(found.encoding) == raw
    compile(found.text, "m", "exec")


def test_a_file_that_changed_is_read_again(tmp_path: Path) -> None:
    path = tmp_path / "m.py"
    path.write_text("x = 1\n")
    before = source.read(str(path))
    path.write_text("x = 100\n")
    assert source.read(str(path)).text == "x = 100\n" and source.read(str(path)).sha256 != before.sha256


def test_code_without_a_file_says_so_and_what_to_do(tmp_path: Path) -> None:
    scope: dict[str, object] = {}
    exec("def f(x): return x", scope)
    with pytest.raises(SourceUnavailable, match=r"typed in.*Move the function into a \.py file"):
        source.of(scope["f"])  # type: ignore[arg-type]
    with pytest.raises(SourceUnavailable, match="not written in Python"):
        source.of(len)
    with pytest.raises(SourceUnavailable, match="can't be read"):
        source.read(str(tmp_path / "none.py"))


def test_code_inside_a_zip_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with zipfile.ZipFile(tmp_path / "lib.zip", "w") as archive:
        archive.writestr("zipped_module.py", "def f(x):\n    return x\n")
    monkeypatch.syspath_prepend(str(tmp_path / "lib.zip"))
    import zipped_module  # type: ignore[import-not-found]

    with pytest.raises(SourceUnavailable, match=r"inside the archive .*lib\.zip\. Unpack"):
        source.of(zipped_module.f)


def test_the_code_behind_wrappers_and_methods_is_found(load: Load) -> None:
    m = load("""
        import functools


        @functools.lru_cache
        def cached(x):
            return x


        class C:
            def method(self):
                return 1
        """)
    assert source.of(m.cached).path == m.__file__
    assert source.code_of(m.C().method).co_qualname == "C.method"
    assert functools.partial  # partials have no code of their own
    with pytest.raises(SourceUnavailable):
        source.code_of(functools.partial(m.cached))


def test_a_workspace_is_a_value(load: Load) -> None:
    m = load("def f(x):\n    return x\n", dedent=False)
    path = m.__file__ or ""
    empty = Workspace()
    one = empty.with_text(path, "def f(x):\n    return -x\n", ("f",))
    two = one.with_text(path, "def f(x):\n    return -x\n\n\ndef g():\n    pass\n", ("g", "f"))
    back = two.with_text(path, one.original(path), ())
    assert empty.changes() == () and empty.current(path) == one.original(path) == "def f(x):\n    return x\n"
    assert [change.functions for change in two.changes()] == [("f", "g")]
    assert back.changes() == (), "a text that is the original again is no change"
