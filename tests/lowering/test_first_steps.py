"""What is written another way before a branch is lowered: the text, byte for byte."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from onegraph.lowering.first_steps import first_step
from onegraph.model import Candidate, Declined, Level, Outcome, Owner, Site
from onegraph.rewrite import text as edit
from onegraph.rewrite.facts import measure
from onegraph.rewrite.request import Request

from .lowered import HEAD, load

NET = """\
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("steps", torch.zeros((), dtype=torch.long))

    def forward(self, x):
{body}

f = Net()
"""


def stepped(folder: Path, text: str, condition: str) -> str:
    """The text after the first step for a condition, without imports; or why there is none."""
    loaded = load(folder, text)
    tree = edit.parse(loaded.text)
    found = [n for n in ast.walk(tree) if isinstance(n, ast.expr) and ast.unparse(n) == condition]
    span = edit.span_of(found[-1], loaded.path)
    site = Site("branch_on_tensor", span, condition, "f", Outcome.RESUMED, Owner.USER, "", 1, 0, False, "")
    facts = measure(loaded.program, loaded.workspace, loaded.path)
    (step,) = first_step(Request(site, loaded.path, loaded.text, Level.RELAXED, facts))
    if isinstance(step, Declined):
        return step.reason
    assert isinstance(step, Candidate) and step.partial
    return step.text.removeprefix(HEAD)


CASES = {
    "match": (
        """\
def f(x):
    match x.argmax():
        case 0:
            y = x
        case 1 | 2:  # either
            y = x + 1
        case n if x.sum() > 0:
            y = x + n
        case _:
            y = x - 1
    return y
""".replace("case n if", "case _ if").replace("x + n", "x + 2"),
        "0",
        """\
def f(x):
    subject = x.argmax()
    if subject == 0:
        y = x
    elif subject == 1 or subject == 2:
        y = x + 1
    elif x.sum() > 0:
        y = x + 2
    else:
        y = x - 1
    return y
""",
    ),
    "a name bound in the test": (
        """\
def f(x):
    if (s := x.sum()) > 0:
        x = x * s
    return x
""",
        "(s := x.sum()) > 0",
        """\
def f(x):
    s = x.sum()
    if s > 0:
        x = x * s
    return x
""",
    ),
    "a name bound in an elif": (
        """\
def f(x):
    if x.sum() > 0:
        x = x * 2
    elif (s := x[0, 0]) < 0:
        x = x * s
    return x
""",
        "x.sum() > 0",
        """\
def f(x):
    if x.sum() > 0:
        x = x * 2
    else:
        s = x[0, 0]
        if s < 0:
            x = x * s
    return x
""",
    ),
    "an effect in front": (
        """\
def f(x):
    if x.sum() > 0:
        y = x + 1
        print("large", x.max())
        y = y * 2
    else:
        y = x
    return y
""",
        "x.sum() > 0",
        """\
def f(x):
    is_positive = x.sum() > 0
    if is_positive:
        print("large", x.max())
    if is_positive:
        y = x + 1
        y = y * 2
    else:
        y = x
    return y
""",
    ),
    "an effect behind": (
        """\
def f(x):
    if x.sum() > 0:
        x = x + 1
        if x.max() > 5:
            raise ValueError("large")
    return x
""",
        "x.sum() > 0",
        """\
def f(x):
    is_positive = x.sum() > 0
    if is_positive:
        x = x + 1
    if is_positive:
        if x.max() > 5:
            raise ValueError("large")
    return x
""",
    ),
    "an effect among what changes": (
        """\
def f(x):
    if x.sum() > 0:
        x = x + 1
        print(x.max())
        x = x + 1
    return x
""",
        "x.sum() > 0",
        "`print(x.max())` inside a tensor branch shows what the branch is still changing",
    ),
    "an attribute written in a nested branch": (
        NET.format(
            body="""\
        if x.sum() > 0:
            x = x + 1
            if x.max() > 1:
                self.steps += 1
        return x
"""
        ),
        "x.sum() > 0",
        NET.format(
            body="""\
        steps = self.steps.clone()
        if x.sum() > 0:
            x = x + 1
            if x.max() > 1:
                steps += 1
        self.steps.copy_(steps)
        return x
"""
        ),
    ),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_first_step(tmp_path: Path, case: tuple[str, str, str]) -> None:
    before, condition, after = case
    assert stepped(tmp_path, before, condition) == after
