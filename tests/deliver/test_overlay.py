"""An overlay swaps mended functions into an installed library, and only into the very one it was made for."""

from __future__ import annotations

import importlib
import subprocess
import sys
import textwrap
import traceback
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest
import torch

import onegraph.overlay
from onegraph.deliver.overlay_file import OverlayRefused, read_overlay, write_overlay
from onegraph.model import FileChange

LIBRARY = '''"""A library."""

import functools
from torch import nn


def logged(function):
    @functools.wraps(function)
    def wrapper(*args, **kwargs):
        return function(*args, **kwargs)

    return wrapper


def clip(x):
    """Says '\'\'\'' and "quotes" \\\\ backslash."""
    if x.max() > 10:
        x = x * 0
    return x


@logged
def decorated(x):
    if x.sum() > 0:
        x = x + 1
    return x


def make(k):
    def inner(x):
        if x.sum() > 0:
            x = x * k
        return x

    return inner


ready = make(5)


class Base(nn.Module):
    def forward(self, x):
        if x.sum() > 0:
            x = x + 100
        return x


class Net(Base):
    __private = 7

    def forward(self, x):
        x = super().forward(x)
        if x.sum() > 0:
            x = x + self.__private
        return x

    @property
    def size(self):
        return 1

    @size.setter
    def size(self, value):
        if value < 0:
            raise ValueError(f"negative size {value}")
        self.kept = value


class Other(nn.Module):
    def forward(self, x):
        return x
'''

MENDED = (
    LIBRARY.replace("    if x.max() > 10:\n        x = x * 0\n", "    x = _choose(x.max() > 10, x * 0, x)\n")
    .replace("    if x.sum() > 0:\n        x = x + 1\n", "    x = torch.where(x.sum() > 0, x + 1, x)\n")
    .replace(
        "        if x.sum() > 0:\n            x = x * k\n", "        x = torch.where(x.sum() > 0, x * k, x)\n"
    )
    .replace(
        "        if x.sum() > 0:\n            x = x + 100\n",
        "        x = torch.where(x.sum() > 0, x + 100, x)\n",
    )
    .replace(
        "        if x.sum() > 0:\n            x = x + self.__private\n",
        "        # one graph\n        x = _choose(x.sum() > 0, x + self.__private, x)\n",
    )
    .replace("        self.kept = value", "        self.kept = value * 1")
    .replace("from torch import nn\n", "import torch\nfrom torch import nn\n")
    .replace("def clip", "def _choose(pred, a, b):\n    return torch.where(pred, a, b)\n\n\ndef clip", 1)
)
FUNCTIONS = ("clip", "decorated", "make.<locals>.inner", "Base.forward", "Net.forward", "Net.size")


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder of installed packages with the distribution "overlaid 1.0"."""
    folder = tmp_path / "site-packages"
    (folder / "overlaid").mkdir(parents=True)
    (folder / "overlaid" / "__init__.py").write_text("")
    (folder / "overlaid" / "net.py").write_text(LIBRARY)
    info = folder / "overlaid-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: overlaid\nVersion: 1.0\n")
    (info / "RECORD").write_text("overlaid/__init__.py,,\noverlaid/net.py,,\n")
    (info / "top_level.txt").write_text("overlaid\n")
    monkeypatch.syspath_prepend(str(folder))
    from onegraph.diagnose import owner

    for cached in (owner.owner_of, owner._distributions):
        cached.cache_clear()
    yield folder
    for name in [name for name in sys.modules if name.partition(".")[0] in ("overlaid", "mended")]:
        del sys.modules[name]
    owner.owner_of.cache_clear()
    owner._distributions.cache_clear()


@pytest.fixture
def overlay(site: Path, tmp_path: Path) -> Iterator[Path]:
    path = tmp_path / "mended.py"
    change = FileChange(str(site / "overlaid" / "net.py"), LIBRARY, MENDED, FUNCTIONS)
    yield write_overlay([change], path)
    onegraph.overlay.uninstall(path)


def library() -> ModuleType:
    return importlib.import_module("overlaid.net")


def one_graph(f: object, *args: object) -> bool:
    torch._dynamo.reset()
    try:
        torch.compile(f, backend="eager", fullgraph=True)(*args)  # type: ignore[call-overload]
    except torch._dynamo.exc.Unsupported:
        return False
    return True


X = torch.ones(3)


def test_the_file_is_small_readable_python(overlay: Path) -> None:
    content = overlay.read_text()
    assert content.startswith('"""onegraph overlay: 6 functions of overlaid 1.0, mended for torch.compile.\n')
    assert "    # one graph\n        x = _choose(x.sum() > 0, x + self.__private, x)\n" in content
    assert "def _choose(pred, a, b):\n    return torch.where(pred, a, b)\n" in content
    assert "class Other" not in content
    assert content.endswith("onegraph.overlay.install(__file__)\n")
    (file,) = read_overlay(overlay)
    assert (file.distribution, file.version, file.path) == ("overlaid", "1.0", "overlaid/net.py")
    assert [(f.name, f.number) for f in file.functions][-1] == ("Net.size", 1)


def test_functions_methods_closures_and_decorated_ones_become_one_graph(overlay: Path) -> None:
    lib = library()
    functions = [lib.clip, lib.decorated, lib.ready, lib.Net()]
    want = [f(X) for f in functions]
    assert not any(one_graph(f, X) for f in functions)
    onegraph.overlay.install(overlay)
    assert all(one_graph(f, X) for f in functions)
    torch.testing.assert_close([f(X) for f in functions], want)


def test_names_imported_before_see_it(overlay: Path) -> None:
    from overlaid.net import clip  # type: ignore[import-not-found]

    onegraph.overlay.install(overlay)
    assert one_graph(clip, X)


def test_a_module_imported_later_is_swapped_after_its_import(overlay: Path) -> None:
    onegraph.overlay.install(overlay)
    lib = library()
    assert one_graph(lib.Net(), X)
    assert lib.__loader__.get_source("overlaid.net") == LIBRARY


def test_a_reload_gets_the_mended_functions_too(overlay: Path) -> None:
    lib = library()
    onegraph.overlay.install(overlay)
    old = lib.clip
    importlib.reload(lib)
    assert lib.clip is not old
    assert one_graph(lib.clip, X) and one_graph(old, X)
    onegraph.overlay.uninstall(overlay)
    assert not one_graph(lib.clip, X) and not one_graph(old, X)


def test_one_import_line_installs(overlay: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(overlay.parent))
    lib = library()
    importlib.import_module("mended")
    assert one_graph(lib.clip, X)


def test_installing_twice_is_installing_once(overlay: Path) -> None:
    lib = library()
    before = lib.clip.__code__
    onegraph.overlay.install(overlay)
    code = lib.clip.__code__
    onegraph.overlay.install(overlay)
    assert lib.clip.__code__ is code
    onegraph.overlay.uninstall(overlay)
    assert lib.clip.__code__ is before
    onegraph.overlay.uninstall(overlay)


def test_uninstalling_leaves_no_trace(overlay: Path) -> None:
    lib = library()
    names = set(vars(lib))
    cache = "__import_torch"  # Dynamo leaves names of its own
    onegraph.overlay.install(overlay)
    assert any(name.startswith("_choose_") for name in vars(lib))
    late = lib.make(3)
    assert one_graph(late, X)
    onegraph.overlay.uninstall(overlay)
    assert {name for name in vars(lib) if not name.startswith(cache)} == names
    assert not any(one_graph(f, X) for f in (lib.clip, lib.Net(), lib.ready, late))
    onegraph.overlay.install(overlay)
    assert one_graph(lib.clip, X)


def test_tracebacks_show_the_file_and_lines_of_the_library(overlay: Path) -> None:
    onegraph.overlay.install(overlay)
    lib = library()
    with pytest.raises(ValueError, match="negative size -1") as raised:
        lib.Net().size = -1
    last = traceback.extract_tb(raised.value.__traceback__)[-1]
    assert last.filename == lib.__file__
    assert last.line == 'raise ValueError(f"negative size {value}")'


def test_refuses_another_version(overlay: Path, site: Path) -> None:
    (site / "overlaid-1.0.dist-info" / "METADATA").write_text("Name: overlaid\nVersion: 2.0\n")
    lib = library()
    code = lib.clip.__code__
    message = (
        r"clip, .*Net\.forward, .* of overlaid 1\.0, and 2\.0 is installed.*fix TARGET --overlay .*mended"
    )
    with pytest.raises(OverlayRefused, match=message):
        onegraph.overlay.install(overlay)
    assert lib.clip.__code__ is code


def test_refuses_a_function_whose_text_differs_and_changes_nothing(overlay: Path, site: Path) -> None:
    path = site / "overlaid" / "net.py"
    path.write_text(LIBRARY.replace("x = x + self.__private", "x = x - self.__private"))
    lib = library()
    codes = [lib.clip.__code__, lib.Net.forward.__code__]
    with pytest.raises(OverlayRefused, match=r"Net\.forward differs in .*net\.py.*--overlay"):
        onegraph.overlay.install(overlay)
    assert [lib.clip.__code__, lib.Net.forward.__code__] == codes


def test_a_change_elsewhere_in_the_file_does_not_matter(overlay: Path, site: Path) -> None:
    path = site / "overlaid" / "net.py"
    path.write_text(
        LIBRARY.replace("class Other", "unrelated = 1\n\n\nclass Other").replace("A library", "\n\nThe")
    )
    onegraph.overlay.install(overlay)
    assert one_graph(library().Net(), X)


def test_refuses_when_the_library_is_missing(overlay: Path, site: Path) -> None:
    for file in (site / "overlaid-1.0.dist-info").iterdir():
        file.unlink()
    (site / "overlaid-1.0.dist-info").rmdir()
    with pytest.raises(OverlayRefused, match=r"overlaid 1\.0, which is not installed"):
        onegraph.overlay.install(overlay)


def test_refuses_a_second_overlay_of_the_same_function(overlay: Path, tmp_path: Path, site: Path) -> None:
    change = FileChange(str(site / "overlaid" / "net.py"), LIBRARY, MENDED, FUNCTIONS)
    second = write_overlay([change], tmp_path / "second.py")
    onegraph.overlay.install(overlay)
    with pytest.raises(OverlayRefused, match=r"already mended by .*mended\.py"):
        onegraph.overlay.install(second)


@pytest.mark.parametrize("content", ["", "x = 1\n", "FILES = [{}]\n", "FILES = open('x')\n", "def\n"])
def test_refuses_a_file_that_is_no_overlay(tmp_path: Path, content: str) -> None:
    path = tmp_path / "other.py"
    path.write_text(content)
    with pytest.raises(OverlayRefused, match=r"is not an overlay of onegraph"):
        onegraph.overlay.install(path)


def test_writes_no_overlay_for_more_than_functions(site: Path, tmp_path: Path) -> None:
    changed = LIBRARY.replace("ready = make(5)", "ready = make(6)")
    change = FileChange(str(site / "overlaid" / "net.py"), LIBRARY, changed, ("clip",))
    with pytest.raises(OverlayRefused, match="more than functions"):
        write_overlay([change], tmp_path / "mended.py")
    assert not (tmp_path / "mended.py").exists()


@pytest.mark.parametrize("name", ["mended.txt", "not-a-name.py", "missing/folder/mended.py"])
def test_says_what_is_wrong_with_the_path(site: Path, tmp_path: Path, name: str) -> None:
    change = FileChange(str(site / "overlaid" / "net.py"), LIBRARY, MENDED, FUNCTIONS)
    with pytest.raises(OverlayRefused, match=r"name the overlay like|can't be written"):
        write_overlay([change], tmp_path / name)


def test_works_for_files_of_the_user_in_a_fresh_process(tmp_path: Path) -> None:
    (tmp_path / "model.py").write_text(LIBRARY)
    write_overlay(
        [FileChange(str(tmp_path / "model.py"), LIBRARY, MENDED, FUNCTIONS)], tmp_path / "mended.py"
    )
    script = tmp_path / "train.py"
    script.write_text(
        textwrap.dedent(
            """
            import mended
            import model, torch
            net = torch.compile(model.Net(), backend="eager", fullgraph=True)
            print(net(torch.ones(3)).tolist())
            """
        )
    )
    done = subprocess.run([sys.executable, script], capture_output=True, text=True)
    assert done.stdout == "[108.0, 108.0, 108.0]\n", done.stderr
