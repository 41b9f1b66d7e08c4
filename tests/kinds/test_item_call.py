"""Numbers carried as tensors: each program keeps every bit of its results and gradients, or is left alone.

The site is given by hand, so that nothing is compiled here; `test_examples` goes through Dynamo.
"""

from __future__ import annotations

import ast

import pytest
import torch

from onegraph.kinds import item_call
from onegraph.lowering import number_helper
from onegraph.lowering.numbers import taken_from
from onegraph.model import Call, Candidate, Declined, Level, Outcome, Owner, Site
from onegraph.rewrite import text as source
from onegraph.rewrite.facts import measure
from onegraph.rewrite.request import Request
from onegraph.rewrite.workspace import Workspace
from onegraph.state import run_call
from onegraph.verify.compare import compare

from .conftest import Load

FLOATS = "(torch.linspace(-1, 2, 6, requires_grad=True),), (torch.tensor([[0.1, -3.0]], requires_grad=True),)"
INTEGERS = "(torch.arange(1, 7),), (torch.tensor([3, -2]),)"
SMALL = "(torch.tensor(1.7, requires_grad=True),)"
HALVES = "(torch.linspace(-1, 2, 6).half(),), (torch.linspace(-1, 2, 6).bfloat16(),)"
NAN = "(torch.tensor([float('nan'), 1.0, -2.0], requires_grad=True),)"
SIZES = "(torch.ones(5, requires_grad=True),), (torch.ones(2),)"
NUMBERS = ("item", "tolist")


def _module(body: str, inputs: str) -> str:
    lines = "".join(f"    {line}\n" for line in body.split("\n"))
    return (
        f"import math\nimport torch\n\n\ndef program(x):\n{lines}\n\ndef inputs():\n    return [{inputs}]\n"
    )


def _sites(text: str) -> list[Site]:
    """Where numbers are taken out of tensors, in source order; not inside an op, which no graph looks into."""
    found = []
    tree = source.parse(text)
    for name, function in source.functions(tree):
        if getattr(function, "decorator_list", ()) or name in number_helper.BODIES:
            continue
        for node in ast.walk(function):
            taken = taken_from(node)
            inner = source.find_function(tree, name, getattr(node, "lineno", 0)) is function
            if taken is not None and inner and not isinstance(taken, ast.Constant):
                span = source.span_of(node)
                found.append(
                    Site("item_call", span, "", name, Outcome.RESUMED, Owner.USER, "", 1, 0, False, "")
                )
    return sorted(found, key=lambda site: (site.span.line, site.span.column))


def _mended(load: Load, text: str) -> str | Declined:
    """Every site mended in turn; the first decline otherwise."""
    while sites := _sites(text):
        loaded = load(text)
        facts = measure(loaded.program, Workspace(), loaded.path)
        candidates = item_call.repairs(Request(sites[0], loaded.path, text, Level.RELAXED, facts))
        proposed = next(each for each in candidates if getattr(each, "level", None) is not Level.LOSSY)
        if isinstance(proposed, Declined):
            return proposed
        assert isinstance(proposed, Candidate) and proposed.text != text
        text = proposed.text
    return text


@pytest.mark.parametrize("inputs", [FLOATS, SMALL, NAN], ids=["floats", "0-dim", "nan"])
@pytest.mark.parametrize(
    "body",
    [
        "return x * x.mean().item()",
        "s = x.mean().item()\nt = s * 2 + 1\nreturn x * t - s",
        "s = x.abs().sum().item()\nreturn s / x",
        "return x.mean().item() - x",
        "s = x.mean().item()\ny = x.sum()\nreturn y * s + y / (s * 3)",
        "s = x.mean().item()\nreturn x.sum() * s",
        "n = (x > 0).sum().item()\nreturn x / n",
        "n = (x > 0).sum().item()\nreturn x * (n / 2) + x * (n + 0.5) + x * (n // 2) + x * (n % 3)",
        "n = x.numel()\nreturn x * (x.sum().item() / n)",
        "return x * (x.sum().item() // (x.dim() if x.dim() else 1) + 7)",
        "return x * bool(x.sum() > 0)",
        "b = (x.sum() > 0).item()\nreturn x * (b + b) + x * -b",
        "s = x.mean().item()\nreturn x * (s > 0.1)",
        "s = x.mean().item()\nreturn (x > s) * x",
        "s = x.sum().item()\nm = max(s, 1.0)\nreturn x / m",
        "s = x.sum().item()\nm = max(1.0, s)\nreturn x / m",
        "return x / min(x.sum().item(), 1)",
        "a = x.sum().item()\nb = x.mean().item()\nreturn x * min(a, b) + max(a, b)",
        "n = (x > 0).sum().item()\nreturn x / max(n, 1.5) + x * max(n, 1)",
        "s = x.sum().item()\nreturn x * math.sqrt(abs(s)) + x / math.sqrt(s * s + 1)",
        "return x / math.sqrt(x.norm().item())",
        "m = x.mean().item()\nreturn x.clamp(max=m)",
        "m = x.abs().mean().item()\nreturn torch.clamp(x, -m, m)",
        "m = x.mean().item()\nreturn torch.where(x > 0, x, m)",
        "m = x.min().item()\nreturn x.masked_fill(x > 0, m)",
        "s = x.mean().item()\nt = s\ns += 1\ns -= 0.5 * 3\ns *= 2 + 1\nreturn x * s + t",
        "for i in range(3):\n    s = x.mean().item()\n    x = x * s\nreturn x",
        "a, b = x.min().item(), x.max()\nreturn (x - a) / (b - a)",
        "loss = x.sum()\ny = x * loss\nloss = loss.item()\nreturn y * loss",
        "buf = x.detach().flatten()[:1].double()\ns = buf.item()\nbuf.add_(1)\nreturn x * s",
        "y = x.clone()\ns = x.mean().item()\ny *= s\ny.add_(s)\nreturn y",
        "y = x.clone()\ny[..., :] = x.mean().item()\nreturn y * x",
        "return sum([p.mean().item() * x for p in (x, x + 1)])",
        "with torch.no_grad():\n    s = x.mean().item()\nreturn x * s",
        "return x * (s := x.mean().item()) + s",
        "return x * x.mean().tolist()",
        "s = -x.mean().item()\nreturn x * -s + +s",
        "def inner(y):\n    s = y.mean().item()\n    return y * s\nreturn inner(x) + inner(x * 2)",
        "'é'; s = x.mean().item(); é = s * 2; return x * é",
        "s = x.mean().item()\nreturn torch.complex(x, x).reshape(-1) * s",
        "return x * (\n    x.mean()  # the mean\n    .item()\n)",
        "s = x.mean().item()\nreturn x if s else -x",
    ],
)
def test_every_bit_is_kept(load: Load, body: str, inputs: str) -> None:
    text = _module(body, inputs)
    mended = _mended(load, text)
    assert isinstance(mended, str), mended
    _assert_same(load, text, mended)


@pytest.mark.parametrize(
    ("body", "inputs"),
    [
        ("s = x.float().mean().item()\nreturn x * s, x + s, x > s, x.clamp(min=s)", INTEGERS),
        ("n = x.max().item()\nreturn x * n - n + 2, x // 2 * n, x.float() / n", INTEGERS),
        ("n = x.max().item()\nt = torch.tensor(7, dtype=torch.int32)\nreturn t * n, t > n", INTEGERS),
        ("s = x.float().mean().item()\nreturn (x > 2) * s", INTEGERS),
        ("s = x.float().mean().item()\nreturn x * s + s - x / (s + 3), s - x, s / x", HALVES),
        ("n = (x > 0).sum().item()\nreturn x * n / (n + 1)", HALVES),
        ("s = x.float().mean().item() * 7\nreturn s * x, s + x, s - x, s > x", HALVES),
        ("s = x.mean().item() if x.shape[0] > 3 else 1.0\nreturn x * s", SIZES),
        ("s = 1.0\nif x.shape[0] > 3:\n    s = x.mean().item()\nreturn x * s", SIZES),
        ("s = 1.0\nif x.shape[0] > 3:\n    s = x.mean().item()\nreturn x.sum() * s", SIZES),
        ("total = 0\nfor p in (x, x * 2):\n    total += p.norm().item()\nreturn x * total", FLOATS),
        ("try:\n    s = x.mean().item()\nexcept RuntimeError:\n    s = 0.0\nreturn x * s", FLOATS),
        ("s = x.float().mean()\ns = float(s.detach())\nif x.dim() > 5:\n    s = 1.0\nreturn x * s", FLOATS),
        (
            "while 1:\n    s = x.mean().item()\n    if x.dim() < 9:\n        break\n    s = 2\nreturn x * s",
            FLOATS,
        ),
        ("n = x.sum().item()\nn *= 0.1\nreturn x * n", INTEGERS),
        ("def f(t, by):\n    return t * float(by)\nreturn f(x, x.detach().mean())", FLOATS),
    ],
)
def test_other_types_keep_every_bit(load: Load, body: str, inputs: str) -> None:
    text = _module(body, inputs)
    mended = _mended(load, text)
    assert isinstance(mended, str), mended
    _assert_same(load, text, mended)


@pytest.mark.parametrize(
    ("body", "inputs"),
    [
        ("s = x.mean().item()\ny = x.long()\ny[0] = s\nreturn y", HALVES),
        ("s = x.float().mean().item()\ny = x.clone()\ny *= int(s)\nreturn y", INTEGERS),
    ],
)
def test_code_that_needs_the_number_runs_in_one_op(load: Load, body: str, inputs: str) -> None:
    text = _module(body, inputs)
    mended = _mended(load, text)
    assert isinstance(mended, str), mended
    assert "custom_op" in mended
    _assert_same(load, text, mended)


@pytest.mark.parametrize(
    ("body", "inputs", "reason"),
    [
        ("s = x.mean().item()\nassert s < 10\nreturn x * s", FLOATS, "decides a condition"),
        (
            "s = x.abs().mean().item()\nwhile s > 1:\n    s = s / 2\nreturn x * s",
            FLOATS,
            "decides a condition",
        ),
        ("s = x.mean().item()\nreturn x * (s or 1.0)", FLOATS, "decides a condition"),
        ("s = x.mean().item()\nreturn x * (not s)", FLOATS, "decides a condition"),
        ("s = x.mean().item()\nreturn x ** s", FLOATS, "rounds differently"),
        ("s = x.mean().item()\nreturn s ** x", FLOATS, "rounds differently"),
        ("s = x.mean().item()\nreturn x * (2 / s)", FLOATS, "Python raises on zero"),
        ("s = x.mean().item()\nreturn x * (s / 0)", FLOATS, "Python raises on zero"),
        ("s = x.mean().item()\nt = x.max().item()\nreturn x * (s / t)", FLOATS, "out of another tensor"),
        ("s = x.mean().item()\nreturn x * math.log(abs(s))", FLOATS, "passed to `math.log`"),
        ("s = x.mean().item()\nreturn x * round(s)", FLOATS, "passed to `round`"),
        ("s = x.mean().item()\nreturn x * s.is_integer()", FLOATS, "asked for an attribute"),
        ("s = x.mean().item()\nreturn torch.clamp(x, 0.0, s)", FLOATS, "bounds a clamp"),
        ("s = x.mean().item()\nreturn torch.add(x, x, alpha=s)", FLOATS, "beside other options"),
        ("s = x.mean().item()\nreturn torch.lerp(x, x, s)", FLOATS, "passed to `torch.lerp`"),
        ("s = x.mean().item()\nreturn torch.full((2,), s)", FLOATS, "used as a size"),
        ("s = x.float().mean().item()\nreturn x.sum() * s", HALVES, "rounded differently"),
        ("s = x.float().mean().item()\nreturn s * (x + x)", HALVES, "left of a half precision tensor"),
        ("s = x.mean().item()\nreturn x * (s % 2)", FLOATS, "a float under `%`"),
        ("global G\nG = x.mean().item()\nreturn x * G", FLOATS, "stored outside"),
        ("x.s = x.mean().item()\nreturn x * x.s", FLOATS, "stored outside"),
        (
            "s = None\nif x.shape[0] > 3:\n    s = x.mean().item()\nreturn x if s is None else x * s",
            SIZES,
            "another path",
        ),
        ("if x.dim() > 9:\n    s = x.mean().item()\n    x = x * s\nreturn x", FLOATS, "never taken"),
        (
            "s = x.mean().item()\nif x.dim() > 9:\n    x = (x + 1) * s\nreturn x",
            FLOATS,
            "no recorded input reaches",
        ),
        ("match x.mean().item():\n    case 0.0:\n        return x\nreturn -x", FLOATS, "decides a condition"),
        ("s = x.mean().item()\nm = {s: x}\nreturn m[s]", FLOATS, "kept in a list"),
        ("s = [p.item() for p in x.flatten()]\nreturn x * s[0]", FLOATS, "kept in a list"),
        ("return x * torch.complex(x, x).sum().item().real", FLOATS, "complex"),
    ],
)
def test_what_needs_a_number_is_left_alone(load: Load, body: str, inputs: str, reason: str) -> None:
    declined = _mended(load, _module(body, inputs))
    assert isinstance(declined, Declined), declined
    assert reason in declined.reason
    assert declined.next_step.endswith(".")


def test_division_by_a_python_zero_still_raises(load: Load) -> None:
    body = "n = x.numel()\nreturn x * (x.sum().item() / n) + x * ((x > 0).sum().item() // n)"
    text = _module(body, FLOATS)
    mended = _mended(load, text)
    assert isinstance(mended, str)
    empty = Call((torch.ones(0),))
    expected, actual = (run_call(load(each).program.target, empty) for each in (text, mended))
    assert expected.error is not None
    assert expected.error == actual.error


def test_layout_and_comments_stay(load: Load) -> None:
    text = _module("s = (  # scale\n    x.mean( )\n).item( )  # as number\nreturn x*s", FLOATS)
    mended = _mended(load, text)
    assert isinstance(mended, str)
    assert (
        "s = _number(  # scale\n        x.mean( ), float\n    )  # as number\n    return x*_beside(s, x)"
        in mended
    )


def _assert_same(load: Load, text: str, mended: str) -> None:
    before, after = load(text).program, load(mended).program
    for mine, other in zip(before.calls, after.calls, strict=True):
        expected = run_call(before.target, mine, grad=True)
        actual = run_call(after.target, other, grad=True)
        assert expected.error == actual.error
        assert not compare(expected, actual, exact=True).failures(Level.EXACT), mended
