"""A failed guard in the user's words."""

from __future__ import annotations

import pytest

from onegraph.diagnose.causes import cause_of


@pytest.mark.parametrize(
    ("reason", "kind", "what"),
    [
        ("0/0: tensor 'x' size mismatch at index 0. expected 4, actual 5", "size", "x:0"),
        ("0/0: tensor 'L['ids']' size mismatch at index 1. expected 4, actual 5", "size", "ids:1"),
        ("0/1: tensor 'x' dtype mismatch. expected Float, actual Double", "dtype", "x"),
        ("0/2: tensor 'x' stride mismatch at index 0. expected 1, actual 2", "layout", "x"),
        ("0/0: tensor 'x' requires_grad mismatch. expected requires_grad=0", "requires_grad", "x"),
        ("0/0: tensor 'x' rank mismatch. expected 2, actual 3", "rank", "x"),
        ("0/0: GLOBAL_STATE changed: grad_mode ", "mode", "grad_mode"),
        ("0/0: 2 <= x.size()[0]  # (user code shown is first use)", "0/1", "x.shape[0]"),
        (
            "0/0: 2 <= x.size()[0] <= 16  # if x.shape[0] > 16:  # m.py:8 in forward",
            "branch on a size",
            "x:0",
        ),
        ("0/3: n == 1   # return x * n  # m.py:11 in forward", "number", "n"),
        ("0/1: self.step == 2   # self.step += 1  # m.py:8 in forward (HINT: ...)", "number", "self.step"),
        ("0/5: not xs    # for e in xs: x = x + e  # m.py:10 in forward", "length", "xs"),
        ("0/5: len(xs) == 2    # for e in xs:  # m.py:10 in forward", "length", "xs"),
        ("0/5: ___check_type_id(n, 1406), type=<class 'int'>  # x * n  # m.py:1 in f", "type", "n"),
        ("0/0: ___dict_contains('k', d)   # d['k']  # m.py:43 in st", "length", "d"),
    ],
)
def test_the_family_and_the_name(reason: str, kind: str, what: str) -> None:
    cause = cause_of(reason)
    assert (cause.kind, cause.what) == (kind, what)
    assert cause.step


def test_two_sizes_that_were_equal_by_accident() -> None:
    cause = cause_of(
        "0/0: x.size()[1] == x.size()[0]  # duck sizing added this equality because these variables had the "
        "same size 4 (to avoid this specialization, set torch.fx.experimental._config.use_duck_shape = False)"
    )
    assert cause.kind == "equal sizes" and "x.shape[1] and x.shape[0]" in cause.sentence


def test_the_users_line_with_its_whole_path() -> None:
    cause = cause_of(
        "0/3: n == 1          # return x * n  # m.py:11 in f\nUser stack trace:\n"
        '  File "/home/me/m.py", line 11, in f\n    return x * n'
    )
    assert (cause.place, cause.code) == ("/home/me/m.py:11", "return x * n")


def test_a_guard_that_nobody_knows_is_shown_as_it_is() -> None:
    cause = cause_of("0/0: ___something_new(x)")
    assert cause.kind == "other" and "___something_new(x)" in cause.sentence
