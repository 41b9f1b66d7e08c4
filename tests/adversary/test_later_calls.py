"""Loops and numbers, mended on one call: on every other call the mended source gives what the program gives, of the
same types, or breaks the graph as the program did; it never gives something else."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest
import torch

import onegraph

X = torch.tensor([1.0, 2.0])
LOW, MIDDLE, HIGH = torch.tensor(0.01), torch.tensor(0.5), torch.tensor(9.0)
T = torch.tensor


def counter(x, limit, n):
    for _ in range(3):
        x = x * 0.5
        n = n + 1
        if x.norm() < limit:
            break
    return x, n


def last_of(x, limit, values):
    v = None
    for v in values:
        x = x * 0.5 + v
        if x.norm() < limit:
            break
    return x, v


def depth(x, limit, otherwise):
    for i in range(3):
        x = x * 0.5
        if x.norm() < limit:
            return x, i
    return x, otherwise


def best(x, limit, start):
    best = start
    for i in range(3):
        x = x * 0.5
        if x.norm() < limit:
            break
        best = i
    return x, best


def without_limit(x, limit, n):
    while x.norm() > limit:
        x = x * 0.5
        n = n + 1
    return x, n


def beside_integers(x, z, limit):
    n = torch.zeros((), dtype=torch.long)
    for _ in range(3):
        z = z * 1.5
        x = x * 0.5
        n = n + 1
        if x.norm() < limit:
            break
    return x, z, n


def widened(x, n, limit):
    for _ in range(3):
        n = n + 1
        x = x * 0.5
        if x.norm() < limit:
            break
    return x, n


def scaled(x, limit):
    rate = 1.0
    for i in range(4):
        x = x - rate * x[..., :1] * i
        rate = rate / 3
        if x.norm() < limit:
            break
    return x


def trips_of_item(x, n):
    for _ in range(n.item()):
        x = x * 0.5
    return x


def trips_of_int(x, n):
    for _ in range(int(n)):
        x = x * 0.5
    return x


def trips_of_number(x, limit, k):
    for _ in range(k):
        x = x * 0.5
        if x.norm() < limit:
            break
    return x


def norm(x):
    return x * x.norm().item()


def left(x):
    return x.mean().item() * (x + x)


def total(x, y):
    return x * x.sum().item() + (y - y.max().item())


def counted(x, y):
    n = (y > 0).sum().item()
    return x + n / 3, (x > n), x.clamp(max=n)


def softened(x, scale):
    return x / max(float(scale), 0.1)


@pytest.mark.parametrize(
    ("program", "first", "others"),
    [
        pytest.param(
            counter,
            (X, MIDDLE, 0),
            [(X, limit, n) for limit in (LOW, HIGH) for n in (5, 0.5, True, T(2), T(2.5))],
            id="a counter that begins as something else",
        ),
        pytest.param(
            last_of,
            (X, MIDDLE, (1, 2, 3)),
            [
                (X, limit, values)
                for limit in (LOW, HIGH)
                for values in ((0.5, 1.5), (True, 2), (1, 2.5), (T(1.0), T(2.0)), ())
            ],
            id="the last value",
        ),
        pytest.param(
            depth,
            (X, MIDDLE, 3),
            [(X, limit, value) for limit in (LOW, HIGH) for value in (None, 0.5, T(2))],
            id="what an early return gives",
        ),
        pytest.param(
            best,
            (X, MIDDLE, -1),
            [(X, limit, value) for limit in (LOW, HIGH) for value in (None, 0.5, True, T(4))],
            id="a value set behind the exit",
        ),
        pytest.param(
            without_limit,
            (X, MIDDLE, 0),
            [(X, limit, n) for limit in (MIDDLE, HIGH) for n in (5, 0.5, True, None, T(2), T(2.5))],
            id="a counter of a loop in the graph",
        ),
        pytest.param(
            beside_integers,
            (X, X, MIDDLE),
            [(X, X * 1j, MIDDLE), (X.double(), X * (2 + 1j), HIGH), (X, T([3, 4]), MIDDLE)],
            id="complex values and integers",
        ),
        pytest.param(
            widened,
            (X, T(1), MIDDLE),
            [(X, T(True), LOW), (X, T(True), HIGH), (X, T(3, dtype=torch.uint8), LOW)],
            id="a flag that becomes a number",
        ),
        pytest.param(
            scaled, (X, MIDDLE), [(X.double(), LOW), (X.half(), HIGH), (T([[3.0], [1.0]]), LOW)], id="a float"
        ),
        pytest.param(
            trips_of_number,
            (X, MIDDLE, 3),
            [(X, LOW, 0), (X, LOW, True), (X, LOW, T(2))],
            id="a number of trips",
        ),
    ],
)
def test_loops(program, first, others) -> None:
    mended = _mended(program, first, fullgraph=True)
    for args in (first, *others):
        assert _result(mended, args) == _result(program, args)
        assert _in_graph(mended, args) in (_result(program, args), "breaks")
    assert _in_graph(mended, first) == _result(program, first)


def sized(x, n):
    return x.expand(n.item(), 2)


def layer(x, large):
    return x.tanh() if large else x * 2


def flagged(x, flag):
    return layer(x, flag.item())


@pytest.mark.parametrize(
    ("program", "first", "others"),
    [
        pytest.param(sized, (X, T(3)), [(X, T(3.0)), (X, T(True)), (X, T(2.5)), (X, T([3]))], id="a size"),
        pytest.param(flagged, (X, T(True)), [(X, T(2)), (X, True), (X, T(0.5)), (X, T([True]))], id="a flag"),
    ],
)
def test_values_taken_for_granted(program, first, others) -> None:
    mended = _mended(program, first, level="lossy")
    for args in (first, *others):
        assert _result(mended, args) == _result(program, args)
        assert _in_graph(mended, args) in (_result(program, args), "breaks")


@pytest.mark.parametrize(
    ("program", "first", "others"),
    [
        pytest.param(
            trips_of_item, (X, T(3)), [(X, T(2.5)), (X, T(True)), (X, T([2])), (X, T(-1))], id="range(item)"
        ),
        pytest.param(
            trips_of_int,
            (X, T(3)),
            [(X, T(2.5)), (X, T(float("nan"))), (X, T([2])), (X, 2), (X, T(0))],
            id="range(int)",
        ),
        pytest.param(norm, (X,), [(T(2.5),), (T(2.5).half(),), (T([1 + 1j, 2]),), (X.half(),)], id="norm"),
        pytest.param(
            left, (X,), [(X.half() / 3,), (X.bfloat16() / 7,), (T(2.5),), (T(2.5).half(),)], id="left"
        ),
        pytest.param(
            total, (X, X), [(T([3, 4]), X), (X, T([3, 4])), (T(3), T(4)), (X.half(), X)], id="integers"
        ),
        pytest.param(
            counted,
            (X, X),
            [(T(2.5), X), (T([3, 4]), X), (T(3), X), (X.half(), X), (T([1.0 + 1j]).real, X)],
            id="a count",
        ),
        pytest.param(
            softened,
            (X, T(0.5)),
            [(X, 0.5), (X, T([2])), (T(3), T(0.01)), (T([3, 4]), True)],
            id="float of a number",
        ),
    ],
)
def test_numbers(program, first, others) -> None:
    mended = _mended(program, first)
    for args in (first, *others):
        assert _result(mended, args) == _result(program, args)
        assert _in_graph(mended, args) in (_result(program, args), "breaks")
    assert _in_graph(mended, first) == _result(program, first)


def switched(x, weight):
    y = x * 1
    y.requires_grad = True
    return y * weight


def test_requires_grad_is_not_skipped_where_eager_refuses_it() -> None:
    weight = X.clone().requires_grad_()
    mended = _mended(switched, (X, weight))
    for args in ((x, weight) for x in (X, X.double(), T([1, 2]), T([True]), X * 1j)):
        assert _result(mended, args) == _result(switched, args)
        assert _in_graph(mended, args) in (_result(switched, args), "breaks")
    assert _in_graph(mended, (T([1, 2]), weight)) == "breaks"


def _mended(program: Callable[..., Any], first: tuple[Any, ...], **options: Any) -> Callable[..., Any]:
    fix = onegraph.fix(program, backend="eager", **options)(*first)
    assert fix.verified
    (change,) = fix.result.changes
    names: dict[str, Any] = {"__name__": "mended_" + program.__name__}
    exec(compile(change.mended, change.path, "exec"), names)
    function: Callable[..., Any] = names[program.__name__]
    return function


def _result(program: Callable[..., Any], args: tuple[Any, ...]) -> Any:
    """What a call gives, with types and dtypes; or the type of its exception."""
    try:
        return _seen(program(*copy.deepcopy(args)))
    except Exception as error:  # noqa: BLE001 - whatever it raises is its result
        return type(error).__name__


def _in_graph(program: Callable[..., Any], args: tuple[Any, ...]) -> Any:
    """The same in one graph; "breaks" where it can't be one, or raises."""
    torch._dynamo.reset()
    try:
        return _seen(torch.compile(program, backend="eager", fullgraph=True)(*copy.deepcopy(args)))
    except Exception:  # noqa: BLE001
        return "breaks"


def _seen(value: Any) -> Any:
    if isinstance(value, tuple):
        return [_seen(each) for each in value]
    if isinstance(value, torch.Tensor):
        return str(value.dtype), tuple(value.shape), str(value.tolist())
    return type(value).__name__, str(value)
