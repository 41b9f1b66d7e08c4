"""Sites in a small file, as a run finds them."""

from __future__ import annotations

import linecache
from collections.abc import Callable
from pathlib import Path

import pytest

from onegraph.model import Findings, Graph, Outcome, Owner, Recompile, Site, Span, Trace

Make = Callable[..., Site]


@pytest.fixture
def write(tmp_path: Path) -> Callable[[str], Path]:
    def write(text: str) -> Path:
        path = tmp_path / "model.py"
        path.write_text(text)
        linecache.clearcache()
        return path

    return write


@pytest.fixture
def site() -> Make:
    """``site(path, "x.item()", nth=0, kind="item_call")``: the nth place where this text stands."""

    def site(path: Path, text: str, nth: int = 0, kind: str = "item_call", function: str = "f") -> Site:
        source = path.read_text()
        at = -1
        for _ in range(nth + 1):
            at = source.index(text, at + 1)
        line = source.count("\n", 0, at) + 1
        column = at - (source.rfind("\n", 0, at) + 1)
        return Site(
            kind=kind,
            span=Span(str(path), line, column, line, column + len(text)),
            source=text,
            function=function,
            outcome=Outcome.RESUMED,
            owner=Owner.USER,
            package="",
            count=1,
            recompiles=0,
            intended=False,
            reason="",
        )

    return site


@pytest.fixture
def findings() -> Callable[..., Findings]:
    def findings(*sites: Site, limits: tuple[str, ...] = (), recompiles: int = 0) -> Findings:
        file = sites[0].span.file if sites else "model.py"
        trace = Trace(
            graphs=(Graph("f", file, 1, 3),),
            recompiles=(Recompile("f", file, 1, ("n == 3",)),) * recompiles,
            limits_reached=limits,
            compiled_calls=1,
        )
        return Findings(tuple(sites), trace)

    return findings
