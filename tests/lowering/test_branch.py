"""Each construct: the text that comes out, byte for byte, and that it is the same program."""

from __future__ import annotations

import copy
from pathlib import Path

import pytest
import torch

from onegraph import verify
from onegraph.model import Candidate, Declined, Level
from onegraph.rewrite.swap import swapped
from onegraph.rewrite.workspace import Workspace
from onegraph.state import preserved
from onegraph.torch_private import dynamo

from .branch_cases import BRANCHES, CASES, DECLINED, Case, Refusal
from .lowered import HEAD, Loaded, body, inputs, load, lower


def first(loaded: Loaded, condition: str) -> Candidate:
    found = lower(loaded, condition)
    assert isinstance(found[0], Candidate), found[0]
    return found[0]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.title)
def test_text(tmp_path: Path, case: Case) -> None:
    assert body(first(load(tmp_path, case.before), case.condition)) == case.after


@pytest.mark.parametrize("case", [*CASES, *BRANCHES], ids=lambda case: case.title)
def test_every_candidate_is_the_same_program(tmp_path: Path, case: Case) -> None:
    loaded = load(tmp_path, case.before)
    candidates = [c for c in lower(loaded, case.condition) if isinstance(c, Candidate)]
    assert candidates
    for candidate in candidates:
        mended = loaded.mended(candidate)
        evidence = verify.uncompiled(loaded.program, loaded.workspace, mended, candidate.predicates)
        assert evidence.verified, (candidate.title, evidence.checks)
        for gradients in (False, True) if case.gradients else (False,):
            expected = results(loaded, loaded.workspace, gradients, compiled=False)
            actual = results(loaded, mended, gradients, compiled=case.whole)
            torch.testing.assert_close(actual, expected)


def results(loaded: Loaded, text: Workspace, gradients: bool, *, compiled: bool) -> list[object]:
    """Outputs, and the gradients of their sums, on every input; compiled in one graph, backend eager."""
    dynamo.reset()
    found: list[object] = []
    with swapped(text):
        target = loaded.program.target
        f = torch.compile(target, backend="eager", fullgraph=True) if compiled else target
        for x in inputs():
            x = copy.deepcopy(x).requires_grad_(gradients)
            with preserved(loaded.program):
                out = f(x)
            outputs = [t for t in (out if isinstance(out, tuple) else (out,)) if isinstance(t, torch.Tensor)]
            grads = [torch.zeros_like(x)]
            if gradients and (needed := [t.sum() for t in outputs if t.requires_grad]):
                (grad,) = torch.autograd.grad(sum(needed), x, allow_unused=True)
                grads = [torch.zeros_like(x) if grad is None else grad]
            found.append(([t.detach() for t in outputs], grads))
    return found


@pytest.mark.parametrize("refusal", DECLINED, ids=lambda refusal: refusal.title)
def test_declined_with_its_reason(tmp_path: Path, refusal: Refusal) -> None:
    found = lower(load(tmp_path, refusal.before), refusal.condition)
    assert all(isinstance(each, Declined) for each in found)
    assert refusal.reason in " | ".join(each.reason for each in found if isinstance(each, Declined))
    assert all(each.next_step for each in found if isinstance(each, Declined))


ONE_SIDED = """\
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.lin = nn.Linear(4, 4)

    def forward(self, x):
        if x.mean() > 0:
            x = self.lin(x)
        return x + 1


f = Net()
"""


def test_a_parameter_used_on_one_side_makes_it_relaxed(tmp_path: Path) -> None:
    candidate = first(load(tmp_path, ONE_SIDED), "x.mean() > 0")
    assert candidate.level is Level.RELAXED
    assert candidate.notes == (
        "`self.lin`: used on one side only; when the other side runs, the gradient is zero, not None",
        "`x` requires a gradient on one side only; in the graph it does on both",
    )


BESIDE = """\
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.lin = nn.Linear(4, 4)
        self.register_buffer("total", torch.zeros(4))

    def forward(self, x):
        h, size = self.lin(x), x
        if x.mean() > 0:
            h = h @ self.lin.weight
            {statement}
        return h, size


f = Net()
"""


def test_a_value_without_a_gradient_beside_one_with_a_gradient(tmp_path: Path) -> None:
    """torch.cond makes all that it gives require one."""
    candidate = first(load(tmp_path, BESIDE.format(statement="size = x.sort(1).values")), "x.mean() > 0")
    assert "in the graph `size` requires a gradient, as `h` beside it" in candidate.notes


@pytest.mark.parametrize(
    ("statement", "line"),
    [
        ("self.total = self.total + x.mean(0)", "self.total = _cond(is_positive, lambda: total + x.mean(0)"),
        ("with torch.no_grad(): self.total.add_(h.mean(0))", "self.total.copy_(next_total.detach())"),
    ],
)
def test_state_beside_a_value_with_a_gradient_requires_none(
    tmp_path: Path, statement: str, line: str
) -> None:
    loaded = load(tmp_path, BESIDE.format(statement=statement))
    candidate = first(loaded, "x.mean() > 0")
    assert line in candidate.text
    with swapped(loaded.mended(candidate)):
        torch.compile(loaded.program.target, backend="eager", fullgraph=True)(torch.ones(3, 4))
    assert not loaded.program.target.total.requires_grad


def test_relaxed_is_declined_at_level_exact(tmp_path: Path) -> None:
    (declined,) = lower(load(tmp_path, ONE_SIDED), "x.mean() > 0", Level.EXACT)
    assert isinstance(declined, Declined)
    assert "--level relaxed" in declined.next_step


def test_the_helper_is_added_once(tmp_path: Path) -> None:
    text = """\
def f(x):
    if x.mean() > 0:
        x = x.exp()
    if x.mean() < 1:
        x = x.sin()
    return x
"""
    conditional = lower(load(tmp_path, text), "x.mean() > 0")[-1]
    assert isinstance(conditional, Candidate)
    again = lower(load(tmp_path, conditional.text.removeprefix(HEAD)), "x.mean() < 1")[-1]
    assert isinstance(again, Candidate)
    assert again.text.count("def _cond(") == 1


def test_another_cond_of_the_user_stays(tmp_path: Path) -> None:
    text = """\
def _cond(a):
    return a


def f(x):
    if x.mean() > 0:
        x = _cond(x).matmul(x.T)
    else:
        x = x.matmul(x.T).exp()
    return x
"""
    candidate = first(load(tmp_path, text), "x.mean() > 0")
    assert "x = _cond_2(" in candidate.text
    assert "def _cond_2(" in candidate.text


DISPATCH = """\
def f(x):
    return choose(x, x.sum() > 0)


def choose(x, flag):
    if flag:
        x = {taken}
    return x + 1
"""


@pytest.mark.parametrize("taken", ["x - 1", "x.exp()"], ids=["select", "branch"])
@pytest.mark.parametrize("flag", [True, False, 1, torch.tensor([1]), torch.tensor(0.5)], ids=repr)
def test_right_for_callers_that_pass_other_types(tmp_path: Path, taken: str, flag: object) -> None:
    loaded = load(tmp_path, DISPATCH.format(taken=taken))
    choose = loaded.program.target.__globals__["choose"]
    x = inputs()[0]
    expected = choose(x, flag)
    for candidate in lower(loaded, "flag"):
        assert isinstance(candidate, Candidate)
        with swapped(loaded.mended(candidate)):
            torch.testing.assert_close(choose(x, flag), expected, rtol=0, atol=0)
