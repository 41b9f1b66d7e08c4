"""The pytest plugin: tests that fail when what they compile is not one graph.

    @pytest.mark.one_graph                          no break
    @pytest.mark.one_graph(breaks=1, recompiles=0)  limits
    def test_forward(one_graph): ...                the Report, to look at

Nothing happens, and torch is not imported by it, until a test asks or ``--onegraph`` is given.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from onegraph.facade import Report
    from onegraph.gate import Settings
    from onegraph.model import Findings, Limits, Verdict

MARK = "one_graph"
_CARRIED = "onegraph_report"  # the attribute of a test's report with ours, as JSON: xdist brings it home


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("onegraph", "graph breaks of torch.compile")
    group.addoption(
        "--onegraph", action="store_true", help="watch every test, and list the breaks at the end"
    )
    group.addoption(
        "--onegraph-html", metavar="FILE", help="write what was seen as one HTML page (implies --onegraph)"
    )
    group.addoption(
        "--onegraph-baseline",
        metavar="FILE",
        help="accept the breaks in FILE (default: as pyproject.toml says)",
    )
    group.addoption(
        "--onegraph-update", action="store_true", help="accept the breaks of today: write the baseline"
    )


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line(
        "markers",
        f"{MARK}(breaks=0, recompiles=None): fail when the compiled code breaks the graph more often than "
        "breaks, or recompiles more often than recompiles, or when nothing was compiled",
    )
    if not hasattr(config, "workerinput"):
        config.pluginmanager.register(_Collected(config), "onegraph-collected")


@pytest.fixture(name=MARK)
def one_graph_fixture(request: pytest.FixtureRequest) -> Report:
    """The report of what the test compiles; it grows while the test runs."""
    from onegraph.facade import Report

    node = request.node
    return Report(node.name, lambda: _watched(node)())


def pytest_runtest_setup(item: pytest.Item) -> None:
    """A mark that can't be understood fails before the test runs."""
    for mark in item.iter_markers(MARK):
        _limits(mark)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, Any, Any]:
    """Watch the test itself, not its fixtures. A failure of its own is told first."""
    asked = _asked(item)
    if asked is None:
        return (yield)
    try:
        with _watching(item, reset=asked.strict):
            result = yield
    finally:
        findings = _watched(item)()
        if findings.sites or findings.trace.recompiles:
            item.add_report_section("call", "onegraph", _text(findings, item))
    item.stash[_REPORT], verdict = _judged(item, findings, asked)
    if asked.strict and verdict.problems:
        pytest.fail(_message(verdict), pytrace=False)
    return result


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    if call.when == "call" and (ours := item.stash.get(_REPORT, None)) is not None:
        setattr(report, _CARRIED, ours)
    return report


@dataclass(frozen=True, slots=True)
class _Asked:
    """What a test asked for. ``strict``: it fails; otherwise it is only watched."""

    strict: bool
    limits: Limits


_WATCH: pytest.StashKey[Callable[[], Findings]] = pytest.StashKey()
_REPORT: pytest.StashKey[str] = pytest.StashKey()


def _asked(item: pytest.Item) -> _Asked | None:
    from onegraph.model import Limits

    mark = item.get_closest_marker(MARK)
    if mark is not None:
        return _Asked(True, _limits(mark))
    if MARK in getattr(item, "fixturenames", ()):
        return _Asked(True, Limits(breaks=10**9))  # the test looks at the breaks; something must be compiled
    return _Asked(False, Limits()) if _watches_all(item.config) else None


def _watches_all(config: pytest.Config) -> bool:
    return bool(config.getoption("--onegraph") or config.getoption("--onegraph-html"))


def _limits(mark: pytest.Mark) -> Limits:
    from onegraph.model import Limits

    unknown = set(mark.kwargs) - {"breaks", "recompiles"}
    if mark.args or unknown:
        wrong = repr(mark.args[0]) if mark.args else sorted(unknown)[0]
        raise pytest.UsageError(f"one_graph takes breaks=N and recompiles=N, not {wrong}")
    for name, value in mark.kwargs.items():
        if type(value) is not int or value < 0:
            raise pytest.UsageError(f"one_graph: {name} is a number from 0, not {value!r}")
    return Limits(**mark.kwargs)


@contextmanager
def _watching(item: pytest.Item, *, reset: bool) -> Iterator[None]:
    """Watch what is compiled inside. ``reset`` Dynamo before, so that what an earlier test compiled is seen
    again, and after, so that a later one doesn't find it."""
    from onegraph import pipeline
    from onegraph.torch_private import dynamo

    if reset:
        dynamo.reset()
    try:
        with pipeline.watching() as findings:
            item.stash[_WATCH] = findings
            yield
    finally:
        if reset:
            dynamo.reset()


def _watched(node: pytest.Item) -> Callable[[], Findings]:
    watch = node.stash.get(_WATCH, None)
    if watch is None:
        raise pytest.UsageError(
            "the one_graph fixture sees what the test compiles, not what fixtures compile"
        )
    return watch


def _settings(config: pytest.Config) -> Settings:
    from dataclasses import replace

    from onegraph.gate import load_settings
    from onegraph.kinds import registry

    settings = load_settings(config.rootpath, registry.names())
    named = config.getoption("--onegraph-baseline")
    return replace(settings, baseline=(config.invocation_params.dir / named)) if named else settings


def _judged(item: pytest.Item, findings: Findings, asked: _Asked) -> tuple[str, Verdict]:
    from dataclasses import replace

    from onegraph.apps.commands.check import verdict_of
    from onegraph.gate import Baseline
    from onegraph.report import json
    from onegraph.report.rows import check_report

    settings = replace(_settings(item.config), limits=asked.limits)
    updating = item.config.getoption("--onegraph-update")
    baseline = Baseline.read(settings.baseline) if settings.baseline and not updating else Baseline()
    verdict = verdict_of(findings, settings, baseline, item.nodeid)
    if updating:
        verdict = replace(verdict, problems=() if verdict.compiled else verdict.problems)
    return json.render(check_report(findings, verdict, item.nodeid, settings.root)), verdict


def _text(findings: Findings, item: pytest.Item) -> str:
    from onegraph.report.text import run_text, to_text

    step = "onegraph explain KIND tells what each kind means"
    return to_text(run_text(findings, item.name, verb="pytest", next_step=step))


def _message(verdict: Verdict) -> str:
    if not verdict.compiled:
        return (
            "nothing was compiled: no graph was made while the test ran\n"
            "next: call torch.compile(...) and the compiled function in the test itself, not in a fixture"
        )
    from onegraph.report.text import display_position

    sites = [f"  {display_position(each.site)}  {each.site.kind}  {each.site.source}" for each in verdict.new]
    return "\n".join(["not one graph: " + "; ".join(verdict.problems), *sites])


class _Collected:
    """In the process that talks to the user: what the tests sent, also those run by xdist's workers."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config
        self._reports: dict[str, Any] = {}

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        carried = getattr(report, _CARRIED, None)
        if carried is not None:
            from onegraph.report import json

            self._reports[report.nodeid] = json.decode(carried)

    def pytest_sessionfinish(self) -> None:
        if self._reports and self._config.getoption("--onegraph-update"):
            self._update()
        page = self._config.getoption("--onegraph-html")
        if page and self._reports:
            from onegraph.files import write_atomically
            from onegraph.report.html import render_all

            write_atomically(
                self._config.invocation_params.dir / page, render_all(list(self._reports.values()))
            )

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        if not self._reports or not _watches_all(self._config):
            return
        from onegraph.report.problems import problems
        from onegraph.words import counted

        terminalreporter.section("graph breaks")
        rows: dict[str, int] = {}
        for report in self._reports.values():
            for each in problems(report):
                if each.counts:
                    row = f"{each.path}:{each.line}:{each.column}  {each.kind}  {each.source}"
                    rows[row] = rows.get(row, 0) + 1
        for row, tests in sorted(rows.items(), key=lambda pair: -pair[1]):
            terminalreporter.write_line(f"{row}  ({counted(tests, 'test')})")
        compiling = sum(bool(report.graphs) for report in self._reports.values())
        terminalreporter.write_line(f"{compiling} of {len(self._reports)} watched tests compiled something")

    def _update(self) -> None:
        """The entries of the tests that ran; those of all others stay."""
        from onegraph.gate import Baseline, torch_minor
        from onegraph.gate.keys import limit_key
        from onegraph.model import Key

        settings = _settings(self._config)
        assert settings.baseline is not None
        baseline = Baseline.read(settings.baseline)
        for nodeid, report in self._reports.items():
            keys = [
                Key(**{name: getattr(site.key, name) for name in site.key.__struct_fields__})
                for site in report.sites
                if site.standing in ("new", "baselined")
            ]
            keys += [limit_key(place, settings.root) for place in report.limits_reached]
            baseline = baseline.with_keys(torch_minor(), nodeid, keys)
        baseline.write(settings.baseline)
