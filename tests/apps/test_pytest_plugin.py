"""The pytest plugin, in test runs of its own."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from importlib import metadata
from pathlib import Path

import pytest
import torch

pytest_plugins = ["pytester"]

# An environment that was set up before the plugin came has no entry point for it yet.
LOADED = bool(metadata.entry_points(group="pytest11", name="onegraph"))
PLUGIN = () if LOADED else ("-p", "onegraph.apps.pytest_plugin")

TESTS = """
import pytest
import torch


def breaking(x):
    if x.sum() > 0:
        return x * 2
    return x - 1


def compiled(f):
    return torch.compile(f, backend="eager")


@pytest.mark.one_graph
def test_clean():
    compiled(lambda x: x * 2)(torch.ones(3))


@pytest.mark.one_graph
def test_breaks():
    compiled(breaking)(torch.ones(3))


@pytest.mark.one_graph(breaks=1)
def test_one_break_is_allowed():
    compiled(breaking)(torch.ones(3))


@pytest.mark.one_graph
def test_nothing_compiled():
    breaking(torch.ones(3))


@pytest.mark.one_graph(recompiles=0)
def test_recompiles():
    f = compiled(lambda x: x * 2)
    f(torch.ones(3))
    f(torch.ones(4))


@pytest.mark.one_graph
def test_its_own_failure_comes_first():
    compiled(breaking)(torch.ones(3))
    assert False, "my own"


def test_the_fixture(one_graph):
    assert one_graph.sites == ()
    compiled(breaking)(torch.ones(3))
    (site,) = one_graph.sites
    assert site.kind == "branch_on_tensor"


def test_the_fixture_in_vain(one_graph):
    assert one_graph.sites == ()


def test_unmarked():
    compiled(breaking)(torch.ones(3))
"""


GUIDE_FIXTURES = """
import pytest
import torch


@pytest.fixture
def model():
    return torch.nn.Linear(3, 3)


@pytest.fixture
def batch():
    return torch.ones(2, 3)


@pytest.fixture
def longer():
    return torch.ones(5, 3)


def step(x):
    print(x.shape)
    return x * 2


"""


@pytest.fixture(scope="module", autouse=True)
def warm() -> None:
    """pytester forgets modules that an inner run imported; Dynamo's can't be imported twice."""
    from onegraph import pipeline
    from onegraph.kinds import registry
    from onegraph.torch_private import dynamo

    def f(x: torch.Tensor) -> torch.Tensor:
        return x * 2 if x.sum() > 0 else x

    registry.names()
    dynamo.reset()
    with pipeline.watching() as findings:
        compiled = torch.compile(f, backend="eager")
        compiled(torch.ones(2))
        compiled(torch.ones(3))
    assert findings().sites


@pytest.fixture
def project(pytester: pytest.Pytester) -> pytest.Pytester:
    pytester.makepyfile(test_model=TESTS)
    return pytester


def run(project: pytest.Pytester, *words: str) -> pytest.RunResult:
    return project.runpytest_inprocess(*PLUGIN, "-p", "no:cacheprovider", *words)


def test_marked_tests_fail_when_they_should(project: pytest.Pytester) -> None:
    result = run(project, "-rA")
    result.assert_outcomes(passed=4, failed=5)
    for name in ("test_clean", "test_one_break_is_allowed", "test_the_fixture", "test_unmarked"):
        result.stdout.fnmatch_lines([f"PASSED test_model.py::{name}"])
    result.stdout.fnmatch_lines(
        [
            "not one graph: 1 new break (limit 0)",
            "  test_model.py:6:8  branch_on_tensor  x.sum() > 0",
            "*Captured onegraph call*",
            "onegraph pytest · test_breaks · *",
        ]
    )
    result.stdout.fnmatch_lines(["nothing was compiled: no graph was made while the test ran"])
    result.stdout.fnmatch_lines(["not one graph: 1 recompile (limit 0)"])
    result.stdout.fnmatch_lines(["E       AssertionError: my own"])
    assert "graph breaks ===" not in result.stdout.str()


def test_the_option_watches_all_and_sums_up(project: pytest.Pytester) -> None:
    result = run(project, "--onegraph", "--onegraph-html", "seen.html", "-k", "unmarked or clean or allowed")
    result.assert_outcomes(passed=3)
    result.stdout.fnmatch_lines(
        [
            "*= graph breaks =*",
            "test_model.py:6:8  branch_on_tensor  x.sum() > 0  (2 tests)",
            "3 of 3 watched tests compiled something",
        ]
    )
    page = (project.path / "seen.html").read_text(encoding="utf-8")
    assert "onegraph · 3 reports" in page
    assert "test_model.py::test_unmarked" in page


def test_a_baseline_is_written_when_told_and_accepts(project: pytest.Pytester) -> None:
    words = ("-k", "test_breaks or recompiles", "--onegraph-baseline", "known.json")
    assert run(project, *words).ret == 1
    assert not (project.path / "known.json").exists()
    run(project, *words, "--onegraph-update").assert_outcomes(passed=2)
    (lists,) = json.loads((project.path / "known.json").read_text())["torch"].values()
    assert list(lists) == ["test_model.py::test_breaks"]
    run(project, *words).assert_outcomes(
        passed=1, failed=1
    )  # a limit on recompiles is no entry of a baseline


@pytest.mark.parametrize("mark", ["one_graph(1)", "one_graph(break_=1)", "one_graph(breaks=-1)"])
def test_a_mark_that_is_wrong_says_so(pytester: pytest.Pytester, mark: str) -> None:
    pytester.makepyfile(f"import pytest\n@pytest.mark.{mark}\ndef test_a():\n    assert False, 'ran'\n")
    result = run(pytester)
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines(["*one_graph*"])
    assert "'ran'" not in result.stdout.str().replace("assert False, 'ran'", "")


def test_the_guide(pytester: pytest.Pytester) -> None:
    """The tests that docs/ci.md shows, as they stand there."""
    guide = (Path(__file__).resolve().parents[2] / "docs" / "ci.md").read_text(encoding="utf-8")
    (block,) = (
        each for each in re.findall(r"^```python\n(.*?)^```$", guide, re.M | re.S) if "def test" in each
    )
    pytester.makepyfile(GUIDE_FIXTURES + block)
    run(pytester).assert_outcomes(passed=3)


def test_under_xdist(project: pytest.Pytester) -> None:
    words = ("-n", "1", "--onegraph", "-k", "test_breaks or clean")
    result = project.runpytest_subprocess(*PLUGIN, *words, timeout=200)
    result.assert_outcomes(passed=1, failed=1)
    result.stdout.fnmatch_lines(["test_model.py:6:8  branch_on_tensor  x.sum() > 0  (1 test)"])


def test_torch_is_not_imported_unless_asked(tmp_path: Path) -> None:
    (tmp_path / "test_a.py").write_text(
        "def test_a():\n    import sys\n    assert 'torch' not in sys.modules\n"
    )
    command = [sys.executable, "-m", "pytest", *PLUGIN, "-q", "-p", "no:cacheprovider", "test_a.py"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=100)
    assert done.returncode == 0, done.stdout
