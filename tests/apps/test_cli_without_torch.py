"""What needs no torch starts without it: ``import torch`` takes seconds."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable

import pytest
from click.testing import Result

WITHOUT = """\
import sys
class Refuse:
    def find_spec(self, name, path=None, target=None):
        if name == "torch" or name.startswith("torch."):
            raise AssertionError("torch was imported")
sys.meta_path.insert(0, Refuse())
"""


def python(code: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)


@pytest.mark.parametrize(
    "words",
    [
        ["--help"],
        ["--version"],
        ["run", "--help"],
        ["fix", "--help"],
        ["run", "missing.py"],
        ["explain", "print_call"],
        ["explain", "nothing_like_it"],
        ["schema"],
    ],
)
def test_commands(words: list[str]) -> None:
    done = python(f"{WITHOUT}sys.argv = ['onegraph', *{words!r}]\nfrom onegraph.apps.cli import main\nmain()")
    assert "torch was imported" not in done.stderr
    assert done.returncode == (2 if "missing.py" in words or "nothing_like_it" in words else 0), done.stderr
    assert done.stdout or done.stderr


@pytest.mark.parametrize("words", [["explain", "GB0170"], ["env"]])
def test_commands_that_look_at_torchs_files(words: list[str]) -> None:
    code = f"import sys\nsys.argv = ['onegraph', *{words!r}]\nfrom onegraph.apps.cli import main\n"
    done = python(code + "try: main()\nfinally: assert 'torch' not in sys.modules")
    assert done.returncode == 0, done.stderr


def test_help_imports_little_else() -> None:
    """Each of these costs as much as click itself."""
    code = "import sys\nsys.argv = ['onegraph', '--help']\nfrom onegraph.apps.cli import main\ntry: main()\n"
    heavy = ("rich", "msgspec", "dataclasses", "tempfile", "onegraph.model", "onegraph.kinds")
    done = python(code + f"finally: assert not {set(heavy)!r} & set(sys.modules)")
    assert done.returncode == 0, done.stderr


def test_importing_onegraph_is_cheap() -> None:
    done = python(f"{WITHOUT}import onegraph, onegraph.model\nprint(onegraph.__version__)")
    assert done.returncode == 0, done.stderr


def test_python_m_is_the_same_program() -> None:
    words = [sys.executable, "-m", "onegraph", "--help"]
    done = subprocess.run(words, capture_output=True, text=True, timeout=60)
    assert done.stdout.startswith("Usage: ")
    assert "Exit codes:" in done.stdout


def test_the_schema_is_json(onegraph: Callable[..., Result]) -> None:
    assert "$defs" in json.loads(onegraph("schema").stdout)


def test_a_kinds_page_has_its_docstring_and_examples(onegraph: Callable[..., Result]) -> None:
    result = onegraph("explain", "print_call")
    assert result.exit_code == 0, result.output
    assert "print inside the compiled function" in result.stdout
    assert "What happens:" in result.stdout
    assert "-    print(" in result.stdout


def test_every_kind_has_a_page(onegraph: Callable[..., Result]) -> None:
    from onegraph.kinds import registry

    for name in registry.names():
        assert onegraph("explain", name).exit_code == 0, name


def test_a_gb_id(onegraph: Callable[..., Result]) -> None:
    result = onegraph("explain", "gb0170")
    assert result.exit_code == 0, result.output
    assert "Data-dependent branching" in result.stdout
    assert "you can:" in result.stdout


def test_an_unknown_topic_names_what_there_is(onegraph: Callable[..., Result]) -> None:
    result = onegraph("explain", "print_cal")
    assert result.exit_code == 2
    assert "did you mean print_call?" in result.stderr
    assert onegraph("explain", "GB999999").exit_code == 2


def test_versions(onegraph: Callable[..., Result]) -> None:
    shown = onegraph("env").stdout
    assert "torch " in shown and "supported     yes" in shown
