"""The helpers pick and order as Python does, ties and NaN included; any and all lead on to a branch."""

from __future__ import annotations

import ast
from typing import Any

import pytest
import torch

from onegraph import pipeline
from onegraph.lowering import builtin_helpers
from onegraph.model import Level, Status

from .conftest import Load

NAN = float("nan")
VALUES = [[1.0, 3.0, 3.0, -2.0], [2.0, 2.0], [NAN, 1.0, 2.0], [1.0, NAN, 0.5], [0.0, -0.0, 0.0], [4.0]]


def _helper(builtin: str) -> Any:
    scope: dict[str, Any] = {"torch": torch}
    exec(builtin_helpers.definition(builtin, "helper"), scope)
    return scope["helper"]


def _leaves(values: list[float]) -> list[torch.Tensor]:
    return [torch.tensor(value, requires_grad=True) for value in values]


@pytest.mark.parametrize("values", VALUES, ids=str)
@pytest.mark.parametrize("key", [None, torch.abs, torch.neg], ids=["plain", "abs", "neg"])
@pytest.mark.parametrize("builtin", [max, min])
def test_extremes_pick_the_element_that_python_picks(builtin: Any, values: list[float], key: Any) -> None:
    ours, theirs = _leaves(values), _leaves(values)
    picked, expected = _helper(builtin.__name__)(ours, key=key), builtin(theirs, key=key)
    assert torch.equal(picked, expected) or (picked.isnan() and expected.isnan())
    picked.backward()
    expected.backward()
    chosen = [n for n, leaf in enumerate(theirs) if leaf.grad is not None]
    assert [n for n, leaf in enumerate(ours) if leaf.grad is not None and leaf.grad != 0] == chosen


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("values", [v for v in VALUES if NAN not in v], ids=str)
def test_compiled_sort_is_stable_with_pythons_gradients(values: list[float], reverse: bool) -> None:
    ours, theirs = _leaves(values), _leaves(values)
    torch._dynamo.reset()
    compiled = torch.compile(_helper("sorted"), backend="eager", fullgraph=True)
    found, expected = compiled(ours, reverse=reverse), sorted(theirs, reverse=reverse)
    assert isinstance(found, list) and [v.item() for v in found] == [v.item() for v in expected]
    for number, (one, other) in enumerate(zip(found, expected, strict=True), 1):
        (one * number).backward(retain_graph=True)
        (other * number).backward()
    assert [leaf.grad for leaf in ours] == [leaf.grad for leaf in theirs]


@pytest.mark.parametrize("builtin", [any, all])
@pytest.mark.parametrize("values", [*VALUES, [0.0]], ids=str)
def test_truth_is_pythons(builtin: Any, values: list[float]) -> None:
    assert bool(_helper(builtin.__name__)(iter(_leaves(values)))) is builtin(_leaves(values))


@pytest.mark.parametrize("builtin", [max, min, any, all, sorted])
@pytest.mark.parametrize("values", [[2, 1, 3], ["b", "a"], []], ids=str)
def test_other_values_go_to_the_builtin(builtin: Any, values: list[Any]) -> None:
    if not values and builtin in (max, min):
        with pytest.raises(ValueError, match="empty"):
            _helper(builtin.__name__)(values)
        assert _helper(builtin.__name__)(values, default=7) == 7
    else:
        assert _helper(builtin.__name__)(values) == builtin(values)


def test_a_helper_is_added_once_and_never_over_a_name_of_the_user() -> None:
    text = "import torch\n\n_sorted = 1\n"
    name = builtin_helpers.helper_name(text, "sorted")
    assert name == "_sorted_2"
    completed = builtin_helpers.complete(text, "sorted", name)
    assert builtin_helpers.helper_name(completed, "sorted") == name
    assert builtin_helpers.complete(completed, "sorted", name) == completed
    ast.parse(completed)


@pytest.mark.parametrize(
    ("body", "inputs"),
    [
        ("if any(row.sum() > 0 for row in x):\n        return x + 1\n    return x - 1", "torch.ones(3, 2)"),
        ("fine = all([row.sum() > 0 for row in x])\n    return x * 2 if not fine else x", "torch.ones(3, 2)"),
    ],
)
def test_a_condition_on_any_or_all_becomes_one_graph(load: Load, body: str, inputs: str) -> None:
    text = f"import torch\n\n\ndef program(x):\n    {body}\n\n\ndef inputs():\n    return [({inputs},)]\n"
    result = pipeline.fix(load(text).program, level=Level.RELAXED)
    assert {repair.status for repair in result.repairs} == {Status.APPLIED}
    assert "builtin_on_tensors" in {repair.kind for repair in result.repairs}
    assert result.evidence.verified, [check for check in result.evidence.checks if not check.passed]
