"""The cells of a notebook, executed one after the other in IPython's shell."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

MODEL = "def forward(x):\n    if x.sum() > 0:\n        x = x * 2\n    return x\n"
NOTEBOOK = Path(__file__).with_name("onegraph.ipynb")


@pytest.fixture(scope="module")
def executed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Any, list[Any]]]:
    """The shell, and for each code cell its output and what it displayed."""
    pytest.importorskip("IPython", reason="IPython is not installed")
    from IPython.core.interactiveshell import InteractiveShell
    from IPython.utils.capture import capture_output

    from onegraph.torch_private import dynamo

    patch = pytest.MonkeyPatch()
    folder = tmp_path_factory.mktemp("ipython")
    patch.setenv("IPYTHONDIR", str(folder))
    patch.syspath_prepend(folder)
    (folder / "notebook_model.py").write_text(MODEL)
    hooks = sys.displayhook, sys.excepthook
    shell = InteractiveShell.instance()
    cells = [cell for cell in json.loads(NOTEBOOK.read_text())["cells"] if cell["cell_type"] == "code"]
    done = []
    try:
        for cell in cells:
            with capture_output() as output:
                result = shell.run_cell("".join(cell["source"]), store_history=True)
            assert result.success, output.stdout + output.stderr
            done.append((result, output))
        yield shell, done
    finally:
        shell.reset()
        dynamo.reset()  # what was compiled in cells must go before the shell's names do
        InteractiveShell.clear_instance()
        sys.displayhook, sys.excepthook = hooks
        patch.undo()


def test_a_watched_cell_shows_cell_and_line(executed: tuple[Any, list[Any]]) -> None:
    shell, done = executed
    _, output = done[1]
    (shown,) = output.outputs
    assert "In[2]:3:8" in shown.data["text/html"]
    assert "<mark>x.sum() &gt; 0</mark>" in shown.data["text/html"]
    assert "1 break" in shown.data["text/plain"]
    (site,) = shell.user_ns["seen"].sites
    assert (site.kind, site.span.line) == ("branch_on_tensor", 3)
    assert "In[2]:3:8  f" in str(shell.user_ns["seen"])
    assert shell.user_ns["y"].tolist() == [2, 2, 2]


def test_a_fix_is_shown_with_its_diff(executed: tuple[Any, list[Any]]) -> None:
    shell, done = executed
    result, _ = done[2]
    assert result.result is shell.user_ns["fix"]
    page = shell.user_ns["fix"]._repr_html_()
    assert "torch.where" in page
    assert 'class="sides"' in page


def test_the_code_of_a_cell_is_not_mended_and_the_way_out_is_named(executed: tuple[Any, list[Any]]) -> None:
    page = executed[0].user_ns["declined"]._repr_html_()
    assert "Move the function into a .py file and import it" in page


def test_a_cell_that_compiles_nothing_says_so(executed: tuple[Any, list[Any]]) -> None:
    _, output = executed[1][4]
    assert any("nothing was compiled" in shown.data.get("text/html", "") for shown in output.outputs)


def test_a_wrong_name_is_refused(executed: tuple[Any, list[Any]]) -> None:
    from IPython.core.error import UsageError

    with pytest.raises(UsageError, match="takes a name"):
        executed[0].run_cell_magic("onegraph", "not a name", "1")
