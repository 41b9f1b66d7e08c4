"""When is a fix proven?"""

from __future__ import annotations

from dataclasses import replace

import pytest

from onegraph.model import Check, Evidence, FixResult
from onegraph.report.verdict import verified

SAME = Check("inductor: outputs", True)


@pytest.mark.parametrize(
    ("checks", "with_sites_left", "with_none_left"),
    [
        ([], False, False),
        ([SAME], True, True),
        ([SAME, Check("recount, default mode", True)], True, True),
        ([SAME, Check("recount, default mode", False)], True, False),
        ([Check("recount, default mode", True)], False, False),
        ([SAME, Check("eager: outputs", False)], False, False),
        ([SAME, Check("inductor", None)], False, False),
    ],
)
def test_verified(fixed: FixResult, checks: list[Check], with_sites_left: bool, with_none_left: bool) -> None:
    left = replace(fixed, evidence=Evidence(tuple(checks)))
    assert verified(left) is with_sites_left
    assert verified(replace(left, after=replace(left.after, sites=()))) is with_none_left
