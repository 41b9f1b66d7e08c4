"""The difference between two runs in words, with the level at which it may be."""

from __future__ import annotations

import pytest
import torch

from onegraph.model import Level
from onegraph.state import Logged, Observation, Raised, Warned
from onegraph.verify import compare
from onegraph.verify.text import differences


def see(**seen):
    return Observation(**seen)


def found(expected, actual, exact=False):
    return [(d.aspect, d.allowed) for d in compare(expected, actual, exact=exact).differences]


def out(*values, dtype=torch.float32, **options):
    return see(output=torch.tensor(values, dtype=dtype, **options))


def test_equal_runs_do_not_differ():
    assert found(out(1.0, float("nan"), float("inf")), out(1.0, float("nan"), float("inf")), exact=True) == []


def test_tolerance_is_that_of_torch_testing_and_is_measured():
    comparison = compare(out(1.0), out(1.0 + 1e-6), exact=False)
    assert comparison.differences == () and 0 < comparison.max_abs < 2e-6 and comparison.max_rel > 0
    assert found(out(1.0), out(1.001)) == [("outputs", None)]
    assert found(out(1.0), out(1.0 + 1e-6), exact=True) == [("outputs", None)]


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -0.0])
def test_nan_inf_and_the_sign_of_zero_count(value):
    assert found(out(0.0), out(value), exact=True) == [("outputs", None)]


def test_shape_dtype_and_type():
    assert found(out(1.0), out(1.0, 1.0)) == [("outputs", None)]
    assert found(out(1.0), out(1.0, dtype=torch.float64)) == [("outputs", None)]
    assert found(see(output=1.0), out(1.0)) == [("outputs", None)]
    assert found(see(output=(1,)), see(output=[1])) == [("outputs", None)]
    assert found(see(output={"a": 1}), see(output={"b": 1})) == [("outputs", None)] * 2
    assert found(see(output=True), see(output=1)) == [("outputs", None)]


def test_requires_grad_may_be_won_but_not_lost():
    assert found(out(1.0), out(1.0, requires_grad=True)) == [("outputs", Level.RELAXED)]
    assert found(out(1.0, requires_grad=True), out(1.0)) == [("outputs", None)]


@pytest.mark.parametrize(
    ("expected", "actual", "allowed"),
    [(None, [0.0], Level.RELAXED), (None, [1.0], None), ([0.0], None, Level.RELAXED), ([1.0], None, None)],
)
def test_no_gradient_and_a_zero_gradient_are_kept_apart(expected, actual, allowed):
    sides = [see(gradients={"x": None if g is None else torch.tensor(g)}) for g in (expected, actual)]
    assert found(*sides) == [("gradients", allowed)]


def test_exceptions():
    value, runtime = Raised("ValueError", "bad"), Raised("RuntimeError", "bad")
    assert found(see(error=value), see(error=value)) == []
    assert found(see(error=value), see()) == [("exceptions", None)]
    assert found(see(error=value), see(error=runtime)) == [("exceptions", Level.RELAXED)]
    assert found(see(error=value), see(error=runtime), exact=True) == [("exceptions", None)]
    assert found(see(error=value), see(error=Raised("ValueError", "worse"))) == [("exceptions", None)]


def test_log_records():
    a, b = Logged("m", "INFO", "a"), Logged("m", "INFO", "b")
    assert found(see(logs=(a, b)), see(logs=(a, b))) == []
    assert found(see(logs=(a, b)), see(logs=(b, a))) == [("logs", Level.RELAXED)]
    assert found(see(logs=(a, b)), see(logs=(b, a)), exact=True) == [("logs", None)]
    assert found(see(logs=(a, b)), see(logs=(b,))) == [("logs", Level.LOSSY)]
    assert found(see(logs=(a,)), see(logs=(a, a))) == [("logs", None)]
    assert found(see(logs=(a,)), see(logs=(Logged("m", "ERROR", "a"),))) == [("logs", None)] * 2


def test_warnings_of_torchs_own_files_count_only_where_eager_has_them():
    own, theirs = Warned("UserWarning", "compiling", torch=True), Warned("UserWarning", "careful")
    assert found(see(warnings=(theirs,)), see(warnings=(own, theirs))) == []
    assert found(see(), see(warnings=(theirs,))) == [("warnings", None)]
    assert found(see(warnings=(own,)), see(warnings=(own, own))) == []
    assert found(see(warnings=(theirs,)), see(warnings=(theirs, theirs))) == [("warnings", None)]
    kernel = Warned("UserWarning", "slow (Triggered internally at conv.cpp:1)", torch=True)
    assert found(see(warnings=(kernel, kernel)), see(warnings=(kernel,))) == []
    assert found(see(warnings=(kernel, kernel)), see(warnings=(kernel,)), exact=True) == [
        ("warnings", Level.LOSSY)
    ]
    assert found(see(warnings=(own,)), see()) == [("warnings", Level.LOSSY)]


@pytest.mark.parametrize(
    ("expected", "actual", "exact", "allowed"),
    [
        ("at 0x7f0011223344", "at 0x7f9911223344", True, []),
        ("tensor([1.])", "tensor([1.], grad_fn=<MulBackward0>)", True, [Level.RELAXED]),
        ("mean tensor(0., grad_fn=<MeanBackward0>)\n", "mean tensor(0.)\n", False, [Level.RELAXED]),
        ("tensor([1.], requires_grad=True)", "tensor([1.])", True, [Level.RELAXED]),
        ("loss 0.1234", "loss 0.1235", False, []),
        ("loss 0.1234", "loss 0.1235", True, [None]),
        ("loss 0.1234", "loss 0.1254", False, [None]),
        ("step 3", "step 4", False, [None]),
        ("1.5e-07", "1.6e-07", False, []),
        ("a\nb", "a", False, [None]),
    ],
)
def test_texts(expected, actual, exact, allowed):
    assert [level for _, level in differences(expected, actual, exact)] == allowed


def test_the_relative_difference_is_taken_where_eager_is_not_zero():
    comparison = compare(out(0.0, 2.0), out(1e-9, 2.0000002), exact=False)
    assert comparison.differences == () and 0 < comparison.max_rel < 1e-6 < 1e300
    assert compare(out(0.0), out(1e-9), exact=False).max_rel == 0


def test_a_memo_may_be_made_early_but_nothing_else_may_change():
    early = see(state={"self.table": 1}, created=frozenset({"self.table"}))
    assert found(see(), early, exact=True) == [("state", Level.RELAXED)]
    assert found(early, see(), exact=True) == [("state", None)]  # eager makes it: it may not be missing
    assert found(see(), see(state={"self.table": 1}), exact=True) == [("state", None)]
    assert found(early, see(state={"self.table": 2}, created=early.created), exact=True) == [("state", None)]
