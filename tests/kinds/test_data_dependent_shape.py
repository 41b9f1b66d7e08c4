"""Which breaks are those of ``data_dependent_shape``, and what is said about them."""

from __future__ import annotations

import pytest
import torch

from onegraph.kinds import registry
from onegraph.model import Break, Candidate, Declined, Frame, Level, Outcome, Span

from .conftest import Load

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


# --- a loop over the places where a condition holds -----------------------------------------------------------

EXPERTS = """\
import torch
import torch.nn.functional as F

torch.manual_seed(0)
gate = torch.nn.Linear(4, 3, bias=False)
experts = torch.nn.ModuleList([torch.nn.Linear(4, 4) for _ in range(3)])
weights = torch.nn.Parameter(torch.randn(3, 4, 4))
used = []


def inputs():
    return [(torch.linspace(-1, 1, 20).view(5, 4).sin(),)]


def program(x, classes=3):
    weight, chosen = gate(x).softmax(-1).topk(2)
    out = torch.zeros_like(x)
    mask = F.one_hot(chosen, num_classes=classes).permute(2, 1, 0)
"""
OF_ONE_INDEX = """\
    hit = (mask.sum(dim=(-1, -2)) > 0).nonzero()
    for expert in hit:
        slot, rows = torch.where(mask[expert].squeeze(0))
        out.index_add_(0, rows, experts[expert](x[rows]) * weight[rows, slot, None])
    return out
"""
WITHOUT_DIMENSION = """\
    with torch.no_grad():
        hit = torch.greater(mask.sum(dim=(-1, -2)), 0).nonzero()
    for expert in hit:
        expert = expert[0]
        with torch.no_grad():
            slot, rows = torch.where(mask[expert])
        out.index_add_(0, rows, x[rows] @ weights[expert] * weight[rows, slot, None])
    return out
"""
NUMBER = """\
    for found in torch.nonzero(mask.sum(dim=(-1, -2)) > 0):
        expert = int(found.item())
        slot, rows = torch.where(mask[expert])
        state = x[rows] if expert >= 2 else x[rows] @ weights[expert]
        out[rows] += state * weight[rows, slot, None]
    return out
"""


def over_places(load: Load, body: str) -> Candidate | Declined:
    return load(EXPERTS + body).repairs("data_dependent_shape", Level.RELAXED)[0]


@pytest.mark.parametrize(
    "body", [OF_ONE_INDEX, WITHOUT_DIMENSION, NUMBER], ids=["index", "no dimension", "number"]
)
def test_every_place_gets_a_trip(load: Load, body: str) -> None:
    found = over_places(load, body)
    assert isinstance(found, Candidate), found
    assert "in range(" in found.text
    before, after = load(EXPERTS + body).module, load(found.text).module
    torch._dynamo.reset()
    compiled = torch.compile(after.program, backend="aot_eager", fullgraph=True)
    for x in (torch.randn(7, 4), torch.tensor([[0.5, -1.0, 2.0, 0.0]])):  # one row: an expert gets none
        ours, theirs = x.clone().requires_grad_(), x.clone().requires_grad_()
        got, expected = compiled(ours), before.program(theirs)
        torch.testing.assert_close(got, expected)
        got.square().sum().backward()
        expected.square().sum().backward()
        torch.testing.assert_close(ours.grad, theirs.grad)


def test_places_beyond_the_weights_are_an_error_as_before(load: Load) -> None:
    text = (EXPERTS + WITHOUT_DIMENSION).replace("num_classes=classes", "num_classes=classes + 1")
    found = load(text).repairs("data_dependent_shape", Level.RELAXED)[0]
    assert isinstance(found, Candidate), found
    after = load(found.text).module
    after.program(torch.randn(7, 4))
    after.weights.data = after.weights.data[:1]
    with pytest.raises(RuntimeError, match="index is out of bounds"):
        after.program(torch.randn(7, 4))


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        pytest.param("        used.append(1)\n", "calls `append`", id="a list"),
        pytest.param(
            "        out = out + experts[0](x)\n", "`out` goes from one trip", id="a value carried on"
        ),
        pytest.param("        out.add_(1)\n", "other rows", id="all rows"),
    ],
)
def test_a_trip_that_does_more_is_left(load: Load, line: str, reason: str) -> None:
    text = EXPERTS + OF_ONE_INDEX.replace("    return out\n", f"{line}    return out\n")
    declined = [
        each.reason
        for each in load(text).repairs("data_dependent_shape", Level.RELAXED)
        if isinstance(each, Declined)
    ]
    assert reason in " ".join(declined)
