"""A wrong rewrite of every sort must be caught before anything is compiled; right ones must pass."""

from __future__ import annotations

import pytest
import torch

from onegraph.model import Level, Predicate
from onegraph.verify import uncompiled

HEAD = """
import logging, math, random, warnings
import torch
log = logging.getLogger("case")
SEEN = []
"""
INPUTS = """
def inputs():
    return [(torch.tensor([1.1, 2.3, 3.7]),)]
"""
COND = """
def _cond(pred, when_true, when_false):
    return when_true() if pred else when_false()
"""


def judge(pair, before, after, predicates=(), inputs=INPUTS, level=Level.EXACT):
    made = pair(HEAD + before + inputs, HEAD + after + inputs)
    predicates = [Predicate("program", *texts) for texts in predicates]
    return uncompiled(made.program, made.original, made.mended, predicates, level=level)


def failures(evidence):
    return {
        check.name.removeprefix("uncompiled: "): check.detail
        for check in evidence.checks
        if check.passed is False
    }


BRANCH = """
def program(x):
    if x.sum() > 0:
        y = x * 2
    else:
        y = x - 1
    return y
"""


def test_a_right_rewrite_is_verified_and_says_how_each_arm_was_reached(pair):
    after = """
def program(x):
    y = torch.where(x.sum() > 0, x * 2, x - 1)
    return y
"""
    evidence = judge(pair, BRANCH, after, [("x.sum() > 0", "x.sum() > 0")])
    assert evidence.verified, [c for c in evidence.checks if not c.passed]
    assert evidence.checks[-1].detail == "True by inputs, False by inputs"


def test_an_arm_that_no_input_reaches_is_forced_and_found_wrong(pair):
    before = BRANCH.replace("x.sum() > 0", "x.numel() + x.sum() * 0 > -1")
    after = """
def program(x):
    pred = x.numel() + x.sum() * 0 > -1
    y = torch.where(pred, x * 2, x - 2)
    return y
"""
    evidence = judge(pair, before, after, [("x.numel() + x.sum() * 0 > -1", "pred")])
    assert "forced to False" in failures(evidence)["outputs"]


def test_a_condition_inside_an_arm_that_no_input_reaches_is_forced_too(pair):
    before = """
def program(x):
    if x.numel() + x.sum() * 0 < -1:
        if x.max() > 100 + x.numel():
            return x * 3
        return x * 4
    return x.clone()
"""
    evidence = judge(
        pair,
        before,
        before.replace("x * 3", "x * 5"),
        [
            ("x.numel() + x.sum() * 0 < -1", "x.numel() + x.sum() * 0 < -1"),
            ("x.max() > 100 + x.numel()", "x.max() > 100 + x.numel()"),
        ],
    )
    assert "outputs" in failures(evidence)


def test_a_condition_that_is_not_in_the_text_is_unverified(pair):
    evidence = judge(pair, BRANCH, BRANCH + "\n", [("x.sum() > 1", "x.sum() > 1")])
    assert not evidence.verified and not failures(evidence)
    assert [c.passed for c in evidence.checks if c.name.startswith("both arms")] == [None]


WRONG = {
    "a gradient leaks through what .item() cut": (
        "def program(x):\n    return x * x.sum().item()\n",
        "def program(x):\n    return x * x.sum()\n",
        "gradients",
    ),
    ".item() computes in double": (
        "def program(x):\n    return x * (x.sum().item() * 0.1)\n",
        "def program(x):\n    return x * (x.sum().detach() * 0.1)\n",
        "outputs",
    ),
    "the untaken side of where poisons the gradient": (
        "def program(x):\n    if x.min() < 0:\n        return x * 2\n    return x.sqrt()\n",
        "def program(x):\n    return torch.where(x.min() < 0, x * 2, x.sqrt())\n",
        "gradients",
    ),
    "wrong dtype": (
        "def program(x):\n    if x.sum() > 0:\n        return x.half()\n    return x.half() + 1\n",
        "def program(x):\n    return torch.where(x.sum() > 0, x.half(), x + 1)\n",
        "outputs",
    ),
    "a broadcasting where": (
        "def program(x):\n    if x.sum() > 0:\n        return x.sum()\n    return x\n",
        "def program(x):\n    return torch.where(x.sum() > 0, x.sum(), x)\n",
        "outputs",
    ),
    "a print is dropped": (
        "def program(x):\n    print('sum', x.sum())\n    return x * 2\n",
        "def program(x):\n    return x * 2\n",
        "stdout",
    ),
    "the text of a print changes": (
        "def program(x):\n    print('sum', float(x.sum()))\n    return x * 2\n",
        "def program(x):\n    print('sum', x.sum())\n    return x * 2\n",
        "stdout",
    ),
    "log records change places": (
        "def program(x):\n    log.warning('a')\n    log.warning('b')\n    return x * 2\n",
        "def program(x):\n    log.warning('b')\n    log.warning('a')\n    return x * 2\n",
        "logs",
    ),
    "a log record and a print change places": (
        "def program(x):\n    print('a')\n    log.warning('b')\n    return x * 2\n",
        "def program(x):\n    log.warning('b')\n    print('a')\n    return x * 2\n",
        "order of output",
    ),
    "a log record gets another level": (
        "def program(x):\n    log.error('a')\n    return x * 2\n",
        "def program(x):\n    log.warning('a')\n    return x * 2\n",
        "logs",
    ),
    "a warning gets another category": (
        "def program(x):\n    warnings.warn('a', FutureWarning)\n    return x * 2\n",
        "def program(x):\n    warnings.warn('a')\n    return x * 2\n",
        "warnings",
    ),
    "a list is appended to twice": (
        "def program(x):\n    SEEN.append(x.shape)\n    return x * 2\n",
        "def program(x):\n    SEEN.append(x.shape)\n    SEEN.append(x.shape)\n    return x * 2\n",
        "state",
    ),
    "random numbers are drawn on the untaken path": (
        "def program(x):\n    if x.sum() > 0:\n        return x * 2\n    return x * torch.rand(3)\n",
        "def program(x):\n    return torch.where(x.sum() > 0, x * 2, x * torch.rand(3))\n",
        "random state",
    ),
    "another exception type": (
        "def program(x):\n    if x.sum() < 0:\n        raise ValueError('bad')\n    return x * 2\n",
        "def program(x):\n    if x.sum() < 0:\n        raise RuntimeError('bad')\n    return x * 2\n",
        "exceptions",
    ),
    "the exception is gone": (
        "def program(x):\n    if torch.isnan(x).any():\n        raise ValueError('bad')\n    return x * 2\n",
        "def program(x):\n    return x * 2\n",
        "exceptions",
    ),
    "an in-place change of an argument is lost": (
        "def program(x):\n    with torch.no_grad():\n        x.mul_(2)\n    return x + 1\n",
        "def program(x):\n    return x * 2 + 1\n",
        "arguments",
    ),
    "an alias becomes a copy": (
        "def program(x):\n    return x\n",
        "def program(x):\n    return x.clone()\n",
        "aliasing",
    ),
    "a copy becomes an alias": (
        "def program(x):\n    return x.clone()\n",
        "def program(x):\n    return x\n",
        "aliasing",
    ),
    "a tuple becomes a list": (
        "def program(x):\n    return x * 2, x + 1\n",
        "def program(x):\n    return [x * 2, x + 1]\n",
        "outputs",
    ),
    "an int becomes a float": (
        "def program(x):\n    return x * 2, int(x.sum())\n",
        "def program(x):\n    return x * 2, float(x.sum())\n",
        "outputs",
    ),
    "zeros instead of no gradient": (
        "def program(x):\n    return x.detach() * 1 + torch.ones(1, requires_grad=True)\n",
        "def program(x):\n    return x.detach() * 1 + x * 0 + torch.ones(1, requires_grad=True)\n",
        "gradients",
    ),
    "another stride": (
        "def program(x):\n    return (x[:, None] * x).t()\n",
        "def program(x):\n    return (x[:, None] * x).t().contiguous()\n",
        "outputs",
    ),
    "the rounding changes": (
        "def program(x):\n    return (x + 0.1) + 1e-3\n",
        "def program(x):\n    return x + (0.1 + 1e-3)\n",
        "outputs",
    ),
    "it works for one size only": (
        "def program(x):\n    return x * x.shape[0]\n",
        "def program(x):\n    return x * 3\n",
        "outputs",
    ),
}


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_rewrite_is_caught(pair, name):
    before, after, aspect = WRONG[name]
    evidence = judge(pair, before, after)
    assert not evidence.verified
    assert aspect in failures(evidence), failures(evidence)


MODULE = """
class Program(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("seen", torch.zeros(()))
        self.calls = 0

    def forward(self, x):
        if x.sum() > 0:
            self.seen += 1
            self.calls += 1
        return x * (2 if self.training else 3)

program = Program()
"""


@pytest.mark.parametrize(
    ("lost", "instead"),
    [("self.seen += 1", "pass"), ("self.calls += 1", "pass"), ("if self.training", "if True")],
)
def test_state_of_a_module_that_is_lost_is_caught(pair, lost, instead):
    made = pair(HEAD + MODULE + INPUTS, HEAD + MODULE.replace(lost, instead) + INPUTS, ["Program.forward"])
    evidence = uncompiled(made.program, made.original, made.mended)
    assert ("outputs" if "training" in lost else "state") in failures(evidence)
    assert made.module.program.seen == 0 and made.module.program.calls == 0 and made.module.program.training


RELAXED = ["an alias becomes a copy", "zeros instead of no gradient", "another stride"]


@pytest.mark.parametrize("name", RELAXED)
def test_what_relaxed_may_move_is_a_note_at_level_relaxed(pair, name):
    before, after, aspect = WRONG[name]
    evidence = judge(pair, before, after, level=Level.RELAXED)
    assert not failures(evidence)
    (check,) = (c for c in evidence.checks if c.name == f"uncompiled: {aspect}")
    assert check.detail.startswith("relaxed: ")


def test_dropped_words_are_a_note_at_level_lossy_and_other_words_are_not(pair):
    dropped, changed = WRONG["a print is dropped"], WRONG["the text of a print changes"]
    assert not failures(judge(pair, *dropped[:2], level=Level.LOSSY))
    assert failures(judge(pair, *changed[:2], level=Level.LOSSY))


def test_grad_fn_in_a_print_is_a_note(pair):
    before = "def program(x):\n    print((x + 0) * 2)\n    return x * 2\n"
    after = "def program(x):\n    print(torch.where(x > -9, x * 2, x))\n    return x * 2\n"
    inputs = "def inputs():\n    return [(torch.ones(2, requires_grad=True),)]\n"
    evidence = judge(pair, before, after, inputs=inputs, level=Level.RELAXED)
    details = {c.name: c.detail for c in evidence.checks}
    assert "grad_fn" in details["uncompiled: stdout"]


def test_a_program_that_differs_from_itself_is_unverified_not_wrong(pair):
    before = "import itertools\ncount = itertools.count()\ndef program(x):\n    return x * next(count)\n"
    evidence = judge(pair, before, before + "\n")
    (check,) = (c for c in evidence.checks if c.name == "uncompiled: outputs")
    assert check.passed is None and "itself" in check.detail and not evidence.verified


def test_nothing_is_left_behind(pair):
    text = "def program(x):\n    SEEN.append(1)\n    x.add_(1)\n    return x\n"
    made = pair(HEAD + text + INPUTS, HEAD + text + "\n" + INPUTS)
    state = torch.get_rng_state()
    code = made.module.program.__code__
    uncompiled(made.program, made.original, made.mended)
    assert made.module.SEEN == [] and made.module.program.__code__ is code
    assert torch.equal(torch.get_rng_state(), state)


def test_inputs_of_other_types_are_a_remark_and_no_failure(pair):
    before = "def program(x):\n    if x.sum() > 0:\n        x = x * 0.5\n    return x + 1\n"
    after = "def program(x):\n    return torch.where(x.sum() > 0, x * 0.5, x) + 1\n"
    evidence = judge(pair, before, after, [("x.sum() > 0", "x.sum() > 0")])
    assert not failures(evidence)
    words = "output has dtype torch.float32, eager gives torch.int64"
    assert evidence.differing == (f"called with `x` as int64 instead of float32: {words}",)


def test_what_the_original_does_not_take_says_nothing(pair):
    before = "def program(x):\n    return x.view(3) * torch.ones(3)\n"
    evidence = judge(pair, before, before.replace("x.view(3)", "x.reshape(3).float()"))
    assert not any("[] instead" in words for words in evidence.differing)


HALVES = """
def program(x):
    while x.sum() > 1:
        x = {step}
    return x
"""


def test_a_rewrite_that_does_not_end_is_rejected(pair, impatient):
    found = failures(judge(pair, HALVES.format(step="x / 2"), HALVES.format(step="x / 1")))
    assert "onegraph.Overrun('the run did not end within" in found["exceptions"]


def test_inputs_on_which_the_program_itself_does_not_end_are_said_and_left_out(pair, impatient):
    text = """
def program(x):
    while x.sum() < 10:
        x = x * 2
    return x
"""
    evidence = judge(pair, text, text.replace("x * 2", "x + x"))
    assert evidence.verified, [c for c in evidence.checks if not c.passed]
    (check,) = [c for c in evidence.checks if c.name == "uncompiled: runs without end"]
    assert check.detail.startswith("the program does not come to an end with: floats negated")


@pytest.fixture
def impatient(monkeypatch):
    monkeypatch.setattr("onegraph.state.patience._LEAST", 0.5)
