"""Code that becomes an op: values, gradients, and what is refused."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from imported import fixed, imported
from onegraph.lowering.empty_shortcut import is_size
from onegraph.lowering.written import written_in_op
from onegraph.model import Candidate

from .lowered import load, lower

PENALTY = """\
import torch


def program(logits, seen):
    logits = logits * 2
    for token in set(seen.tolist()):
        if logits[token] > 0:
            logits[token] = logits[token] / 1.3
        else:
            logits[token] = logits[token] * 1.3
    return logits


def inputs():
    return [(torch.linspace(-2, 2, 7), torch.tensor([1, 1, 5]))]
"""


def test_the_op_has_a_backward_pass(tmp_path: Path) -> None:
    result = fixed(tmp_path, PENALTY)
    after = imported(tmp_path, result.changes[0].mended)
    seen = torch.tensor([0, 6, 3])
    plain, compiled = (torch.linspace(-1, 2, 7, requires_grad=True) for _ in range(2))
    expected = after.program(plain, seen)
    expected.square().sum().backward()
    got = torch.compile(after.program, backend="aot_eager", fullgraph=True)(compiled, seen)
    got.square().sum().backward()
    assert torch.equal(expected, got)
    assert plain.grad is not None and compiled.grad is not None
    assert torch.equal(plain.grad, compiled.grad)


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        pytest.param(
            "    for i in x.nonzero().flatten().tolist():\n        y[i] = torch.rand(())\n    return y",
            "calls `torch.rand`",
            id="a random number",
        ),
        pytest.param(
            "    view = y[1:]\n    for i in x.nonzero().flatten().tolist():\n        view[0] = y[i]\n    return y",
            "share memory",
            id="two names of one memory",
        ),
        pytest.param(
            "    global last\n    for last in x.nonzero().flatten().tolist():\n        y[last] = 0\n    return y",
            "belongs to another scope",
            id="a global name",
        ),
    ],
)
def test_refused(tmp_path: Path, body: str, reason: str) -> None:
    head = "import torch\n\n\ndef program(x):\n    y = x * 2\n"
    result = fixed(tmp_path, f"{head}{body}\n\n\ndef inputs():\n    return [(torch.ones(3),)]\n")
    assert not result.changes
    told = [repair.reason for repair in result.repairs]
    assert any(reason in each for each in told), told


def test_a_size_in_a_test() -> None:
    import ast

    def test(code: str) -> bool:
        return is_size(ast.parse(code, mode="eval").body)

    assert all(map(test, ["x.numel() == 0", "len(hits) > n", "not x.shape[0]", "x.size(0)"]))
    assert not any(map(test, ["x.sum() > 0", "len(x) > y.max()", "x"]))


FLIPPED = """\
import random
import torch


def program(x):
    if x.ndim > 1 and random.random() < 0.5:
        x = x.flip(-1)
    return x * random.choice([1.0, 2.0])


def inputs():
    return [(torch.arange(4.0).view(1, 4),), (torch.arange(3.0).view(1, 3),)]
"""


def test_a_random_number_that_decides_a_branch_stays_a_tensor(tmp_path: Path) -> None:
    import random

    result = fixed(tmp_path, FLIPPED)
    assert result.evidence.verified, result.evidence
    assert "_random_op() < 0.5" in result.changes[0].mended
    after = imported(tmp_path, result.changes[0].mended)
    compiled = torch.compile(after.program, backend="eager", fullgraph=True)
    x = torch.arange(4.0).view(1, 4)
    drawn = []
    for run in (after.program, compiled):
        random.seed(0)
        drawn.append([run(x).tolist() for _ in range(6)])
    assert drawn[0] == drawn[1]
    assert len({str(each) for each in drawn[0]}) > 2


HARDEST = """\
import torch


def program(loss, positive):
    k = min(3 * int(positive.sum().item()), loss.numel())
    if k == 0:
        return loss.topk(1).values.sum()
    hardest, _ = (loss * (1 - positive)).topk(k)
    return (loss * positive).sum() + hardest.sum()


def inputs():
    return [(torch.tensor([0.5, 2.0, 0.1, 3.0, 1.0]), torch.tensor([0.0, 1.0, 0.0, 0.0, 0.0]))]
"""


def test_a_number_that_decides_which_value_is_returned_stays_in_one_op(tmp_path: Path) -> None:
    result = fixed(tmp_path, HARDEST)  # the other arm is reached by force
    assert result.evidence.verified, result.evidence
    after = imported(tmp_path, result.changes[0].mended)
    compiled = torch.compile(after.program, backend="aot_eager", fullgraph=True)
    for positive in (torch.tensor([0.0, 1.0, 0.0, 0.0, 1.0]), torch.zeros(5)):
        losses = [torch.linspace(0.5, 3, 5, requires_grad=True) for _ in range(2)]
        values = [run(loss, positive) for run, loss in zip((after.program, compiled), losses, strict=True)]
        for value in values:
            value.backward()
        assert torch.equal(*values)
        assert torch.equal(*[loss.grad for loss in losses])


@pytest.mark.parametrize(
    ("other", "reason"),
    [
        pytest.param("        return loss, loss\n", "several numbers of values", id="two values and one"),
        pytest.param("        return loss[:k]\n", "depends on values", id="a size that values decide"),
        pytest.param("        print(k)\n        return loss.sum()\n", "calls `print`", id="an effect"),
    ],
)
def test_paths_that_give_other_things_are_no_op(tmp_path: Path, other: str, reason: str) -> None:
    text = HARDEST.replace("        return loss.topk(1).values.sum()\n", other)
    given = imported(tmp_path, text).inputs()
    loaded = load(tmp_path, text.partition("\n\n\n")[2].replace("def program", "def f"), given)
    proposed = lower(loaded, "k == 0", lowering=lambda request: written_in_op(request, "branch_on_tensor"))
    assert not any(isinstance(each, Candidate) for each in proposed)
    told = [each.reason for each in proposed]
    assert any(reason in each for each in told), told


def test_a_branch_on_a_number_says_so(tmp_path: Path) -> None:
    text = "def f(x):\n    k = int(x.sum())\n    print(k)\n    if k == 0:\n        x = x + 1\n    return x\n"
    loaded = load(tmp_path, text, [(torch.ones(3),)])
    assert [each.reason for each in lower(loaded, "k == 0")] == [
        "`k == 0` is decided by a Python number that the data gives"
    ]


@pytest.mark.parametrize(
    ("returned", "reason", "step"),
    [
        pytest.param(
            '{"label": NAMES[int(x.argmax())], "x": x}', "is a dict", "Return the tensors", id="a label"
        ),
        pytest.param(
            "NAMES[int(x.argmax())], x", "is a str", "Return the tensors", id="a label beside a tensor"
        ),
        pytest.param("x.tolist()", "is returned", "call .tolist() on it behind", id="a list of floats"),
    ],
)
def test_values_that_only_python_can_hold_are_for_the_caller_to_make(
    tmp_path: Path, returned: str, reason: str, step: str
) -> None:
    text = f"""\
import torch

NAMES = {{0: "cat", 1: "dog", 2: "eel"}}


def program(x):
    x = x.softmax(0)
    return {returned}


def inputs():
    return [(torch.tensor([0.0, 2.0, 1.0]),)]
"""
    result = fixed(tmp_path, text, fullgraph=True)
    assert not result.changes
    assert any(reason in each.reason and step in each.next_step for each in result.repairs)


def test_a_setting_that_moves_the_break_is_not_offered(tmp_path: Path) -> None:
    text = """\
import torch

NAMES = {0: "cat", 1: "dog"}


def program(x):
    return NAMES[int(x.argmax())], x * 2


def inputs():
    return [(torch.tensor([0.0, 2.0]),)]
"""
    result = fixed(tmp_path, text)
    assert not any("capture_scalar_outputs" in each.next_step for each in result.repairs)
