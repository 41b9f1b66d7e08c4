"""Programs that once came out wrong: mended on one call, and different from eager on another."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import pytest
import torch

import onegraph
from onegraph.deliver import GraphBreaksLeft

ONES = torch.ones(2)


def shown(x, t):
    y = x * t
    print(f"t={t!r}")
    return y


def over(x, limit=3):
    if x.max() > limit:
        raise ValueError(f"over {limit}")
    return x + 1


def verbose(x, flag=True):
    if x.max() > 0:
        print("flag is", flag)
    return x + 1


def said(capsys: pytest.CaptureFixture[str], fn: Callable[..., Any], *args: Any) -> list[Any]:
    """What a call prints, returns and raises."""
    capsys.readouterr()
    result, error = None, ""
    try:
        result = fn(*args).tolist()
    except ValueError as raised:
        error = str(raised)
    return [capsys.readouterr().out, result, error]


@pytest.mark.parametrize(
    ("program", "first", "others"),
    [
        # eager prints t=2.5, t=True; it was t=2, t=1
        pytest.param(shown, (ONES, 2), [(ONES, 2.5), (ONES, True)], id="a number of another type"),
        # eager raises "over 2.5"; it was "over 2"
        pytest.param(over, (ONES, 3), [(ONES * 2.7, 2.5)], id="in the text of an exception"),
        # eager prints 5; it was True
        pytest.param(verbose, (ONES, True), [(ONES, 5)], id="a flag that is a number"),
    ],
)
def test_a_later_number_is_shown_as_it_is(program, first, others, capsys) -> None:
    mended = onegraph.compile(program, backend="eager")
    for args in (first, *others):
        assert said(capsys, mended, *args) == said(capsys, program, *args)


@pytest.mark.parametrize("value", [None, "no", torch.tensor(3)])
def test_a_value_that_the_op_cannot_take_is_mended_anew_or_left(value, capsys) -> None:
    """Eager shows the value; it was a TorchRuntimeError that names an op nobody wrote."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        mended = onegraph.compile(verbose, backend="eager", strict=False)
        for args in ((ONES, True), (ONES, value), (ONES, False)):
            assert said(capsys, mended, *args) == said(capsys, verbose, *args)


def test_what_no_op_can_take_is_said_in_our_words() -> None:
    mended = onegraph.compile(shown, backend="eager")
    mended(ONES, 2)
    with pytest.raises(GraphBreaksLeft, match="`t` is a int or a"):
        mended(ONES, torch.tensor(3))


KNOWN = pytest.mark.xfail(reason="known: mended for one dtype and shape, wrong for another", strict=True)


def number(x):
    scale = x.norm().item()
    return x * scale


def whole_number(x, y):
    return x * int((y > 0).sum()) + y.max().item()


def hides_nothing(x, mask):
    if mask.all():
        mask = None
    x = x * 2
    return x if mask is None else x.masked_fill(~mask, -1.0)


def not_a_bool(x, flag):
    y = x + 1
    if not flag:
        y = y * 2
    return y


@pytest.mark.parametrize(
    ("program", "first", "other"),
    [
        # eager: float32; mended: float64
        pytest.param(number, (ONES,), (torch.tensor(2.5),), id="item, no dimensions"),
        pytest.param(whole_number, (ONES, ONES), (torch.arange(2), ONES), id="item, integers"),
        # eager: shape [4]; mended: [3, 4]
        pytest.param(
            hides_nothing,
            (torch.ones(3, 4), torch.ones(3, 4, dtype=torch.bool)),
            (torch.ones(4), torch.ones(3, 4, dtype=torch.bool)),
            id="shortcut, a mask that broadcasts",
            marks=KNOWN,
        ),
        # eager: a tensor; mended: "where expected condition to be a boolean tensor"
        pytest.param(
            not_a_bool, (ONES, torch.tensor(True)), (ONES, torch.tensor(2)), id="a condition that is no bool"
        ),
    ],
)
def test_other_inputs_of_the_mended_source(program, first, other) -> None:
    fix = onegraph.fix(program, backend="eager")(*first)
    (change,) = fix.result.changes
    names: dict[str, Any] = {"__name__": "mended_" + program.__name__}
    exec(compile(change.mended, change.path, "exec"), names)
    torch.testing.assert_close(names[program.__name__](*other), program(*other))
