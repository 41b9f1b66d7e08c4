"""Which breaks are those of ``data_dependent_shape``, and what is said about them."""

from __future__ import annotations

import pytest

from onegraph.kinds import registry
from onegraph.model import Break, Frame, Outcome, Span

TEXT = "def program(rows, names):\n    return names[rows.item()]\n"
ASKED = "Consider annotating your code using torch._check*(). Could not extract specialized integer from "
ASKED += "data-dependent expression u0 (unhinted: u0).  (Size-like symbols: none)"


def break_of(gb_type: str, message: str) -> Break:
    frame = Frame(Span("program.py", 2, 11, 2, 29), "program")
    return Break(gb_type, message, Outcome.RESUMED, (frame,))


@pytest.mark.parametrize(
    ("gb_type", "message", "kind", "said"),
    [
        ("UserError.ANTI_PATTERN", ASKED, "data_dependent_shape", "needs `u0`"),
        ("Dynamic shape operator", "", "data_dependent_shape", "size of the result"),
        ("UserError.ANTI_PATTERN", "something else", "other", ""),
    ],
)
def test_classified(gb_type: str, message: str, kind: str, said: str) -> None:
    found = break_of(gb_type, message)
    assert registry.classify(found, TEXT) == kind
    if said:
        assert said in registry.reason(found)
