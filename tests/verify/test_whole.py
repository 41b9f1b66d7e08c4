"""The last word: recount, compiled against eager on each backend, arms forced in the compiled program."""

from __future__ import annotations

import pytest
import torch

from onegraph.model import Level, Predicate
from onegraph.torch_private import backends
from onegraph.verify import whole
from onegraph.verify.whole import _no_further

HEAD = """
import logging, warnings
import torch
log = logging.getLogger("case")
SEEN = []
"""
INPUTS = """
def inputs():
    return [(torch.tensor([1.1, 2.3, 3.7], requires_grad=True),)]
"""
BRANCH = """
def program(x):
    if x.sum() > 0:
        y = x * 2
    else:
        y = x - 1
    return y
"""
SELECT = """
def program(x):
    y = torch.where(x.sum() > 0, x * 2, x - 1)
    return y
"""
QUICK = ("eager", "aot_eager")


def judge(
    pair, before, after, predicates=(), inputs=INPUTS, level=Level.RELAXED, run=QUICK, function="program"
):
    made = pair(HEAD + before + inputs, HEAD + after + inputs, [function])
    predicates = [Predicate("program", *texts) for texts in predicates]
    evidence = whole(made.program, made.original, made.mended, predicates, level=level, backends=run)
    return evidence, {check.name: check for check in evidence.checks}


def failures(checks):
    return {name: check.detail for name, check in checks.items() if check.passed is False}


def test_a_right_rewrite_is_verified(pair):
    evidence, checks = judge(pair, BRANCH, SELECT, [("x.sum() > 0", "x.sum() > 0")])
    assert evidence.verified, [c for c in evidence.checks if not c.passed]
    assert checks["recount, default mode"].detail.startswith("no graph break")
    assert checks["recount, fullgraph=True"].passed and checks["recount, second call"].passed
    assert {"eager: gradients", "aot_eager: gradients"} <= set(checks)
    assert evidence.inputs > 10


def test_marks_that_the_compiler_leaves_on_a_module_are_no_change_of_state(pair):
    module = """
class Program(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("scale", torch.ones(3))
        self.linear = torch.nn.Linear(3, 3)

    def forward(self, x):
        return self.linear(x * self.scale)

program = Program()
"""
    evidence, checks = judge(pair, module, module + "\n", function="Program.forward")
    assert evidence.verified and "alike" not in checks["eager: state"].detail


def test_a_break_that_is_left_fails_the_recount_with_its_place(pair):
    after = SELECT.replace("return y", "torch._dynamo.graph_break()\n    return y")
    _, checks = judge(pair, BRANCH, after)
    assert set(failures(checks)) == {"recount, default mode", "recount, fullgraph=True"}
    assert ".py:9" in failures(checks)["recount, default mode"]


def test_a_wrong_rewrite_stops_at_the_first_stage_and_the_rest_is_unverified(pair):
    _, checks = judge(pair, BRANCH, SELECT.replace("x * 2", "x * 3"))
    assert "uncompiled: outputs" in failures(checks)
    assert all(checks[name].passed is None for name in ("eager", "aot_eager", "recount"))


COMPILED_WRONG = {
    "outputs": "x = x + 1",
    "stdout": "return y",
    "state": "SEEN.append(0)",
    "gradients": "x = x.detach()",
}


@pytest.mark.parametrize("aspect", COMPILED_WRONG)
def test_what_goes_wrong_only_when_compiled_is_caught(pair, aspect):
    before = "def program(x):\n    y = x * 2\n    return y\n"
    after = f"""
def program(x):
    if torch.compiler.is_compiling():
        {COMPILED_WRONG[aspect].replace("return y", "x = x")}
    y = x * 2
    return y
"""
    if aspect == "stdout":
        before = "def program(x):\n    y = x * 2\n    print('said')\n    return y\n"
        after = before.replace("    print", "    if not torch.compiler.is_compiling():\n        print")
    _, checks = judge(pair, before, after)
    assert f"eager: {aspect}" in failures(checks)


def test_dropping_a_print_when_compiled_is_a_note_at_level_lossy(pair):
    before = "def program(x):\n    y = x * 2\n    print('said')\n    return y\n"
    after = before.replace("    print", "    if not torch.compiler.is_compiling():\n        print")
    _, checks = judge(pair, before, after, level=Level.LOSSY)
    assert not failures(checks) and checks["eager: stdout"].detail.startswith("lossy: ")


def test_an_exception_that_changes_its_type_when_compiled_is_relaxed(pair):
    before = "def program(x):\n    if x.isnan().any():\n        raise ValueError('bad x')\n    return x * 2\n"
    after = """
def program(x):
    if torch.compiler.is_compiling():
        torch.ops.aten._assert_async.msg(~x.isnan().any(), 'bad x')
    elif x.isnan().any():
        raise ValueError('bad x')
    return x * 2
"""
    inputs = "def inputs():\n    return [(torch.tensor([1.0, float('nan')]),), (torch.ones(2),)]\n"
    _, relaxed = judge(pair, before, after, inputs=inputs)
    assert not failures(relaxed)
    assert relaxed["eager: exceptions"].detail.startswith("relaxed: "), relaxed["eager: exceptions"]
    _, exact = judge(pair, before, after, inputs=inputs, level=Level.EXACT)
    assert "eager: exceptions" in failures(exact)


def test_what_the_compiler_does_to_the_original_alike_is_not_ours(pair):
    text = "def program(x):\n    y = x * (3 if torch.compiler.is_compiling() else 2)\n    return y\n"
    _, checks = judge(pair, text, text.replace("y = ", "z = ").replace("return y", "return z"))
    assert not failures(checks)
    assert "differs alike without our change" in checks["eager: outputs"].detail


def test_an_arm_that_no_input_reaches_is_forced_in_the_compiled_program(pair):
    before = BRANCH.replace("x.sum() > 0", "x.sum() < x.numel() * -9999")
    after = """
def program(x):
    pred = x.sum() < x.numel() * -9999
    one = 1 if torch.compiler.is_compiling() else 2
    y = torch.where(pred, x * 2 * one / one * one / one + (one - 2) * x, x - 1)
    return y
"""
    _, checks = judge(pair, before, after, [("x.sum() < x.numel() * -9999", "pred")])
    assert "forced to True" in failures(checks)["forced arms: outputs"]


def test_a_warning_said_once_is_said_once_in_the_second_run(pair):
    before = """
import functools
@functools.lru_cache(None)
def once(text):
    log.warning(text)

def program(x):
    y = x * 2
    once("careful")
    return y
"""
    after = before.replace('    once("careful")', '    log.warning("careful")')
    _, checks = judge(pair, before, after)
    assert "again" in failures(checks).get("eager: logs", ""), failures(checks)


def test_recorded_calls_of_several_signatures(pair):
    inputs = "def inputs():\n    return [(torch.randn(n, 2),) for n in (3, 4)]\n"
    evidence, _ = judge(pair, BRANCH, SELECT, inputs=inputs)
    assert evidence.verified, [c for c in evidence.checks if not c.passed]


def test_a_program_without_recorded_calls_is_unverified(pair):
    evidence, checks = judge(pair, BRANCH, SELECT, inputs="def inputs():\n    return []\n")
    assert checks["inputs"].passed is None and not evidence.verified


def test_nothing_is_left_behind(pair):
    text = "def program(x):\n    SEEN.append(1)\n    y = x * 2\n    return y\n"
    made = pair(HEAD + text + INPUTS, HEAD + text + "\n" + INPUTS)
    state, code = torch.get_rng_state(), made.module.program.__code__
    whole(made.program, made.original, made.mended, backends=QUICK)
    assert made.module.SEEN == [] and made.module.program.__code__ is code
    assert torch.equal(torch.get_rng_state(), state)


def test_without_a_compiler_for_inductor_it_is_unverified(pair, monkeypatch):
    monkeypatch.setattr(backends.shutil, "which", lambda name: None)
    evidence, checks = judge(pair, BRANCH, SELECT, run=("eager", "inductor"))
    assert checks["inductor"].passed is None and "C++ compiler" in checks["inductor"].detail
    assert not evidence.verified and not failures(checks)


def test_inductor_agrees_forward_and_backward_with_dropout(pair):
    before = "def program(x):\n    y = torch.nn.functional.dropout(x * 2, 0.5)\n    return y\n"
    evidence, checks = judge(pair, before, before + "\n", run=("inductor",))
    assert evidence.verified, [c for c in evidence.checks if not c.passed]
    assert checks["inductor: gradients"].passed and checks["recount, fullgraph=True"].passed


@pytest.mark.parametrize(
    ("ours", "theirs", "allowed"),
    [
        ([0.001], [0.001], True),
        ([0.002], [0.001], True),
        ([0.0021], [0.001], False),  # further from eager than torch alone is
        ([None], [0.001], False),  # another shape or dtype is never torch's doing
        ([0.001, None], [0.001], False),
        ([0.001], [], False),  # the original agrees with eager
    ],
)
def test_only_numbers_as_far_from_eager_as_the_originals_are_put_down_to_torch(ours, theirs, allowed):
    assert _no_further(ours, theirs) is allowed


def test_who_asked_sees_the_recount_and_can_end_it_there(pair):
    made = pair(HEAD + BRANCH + INPUTS, HEAD + SELECT + INPUTS, ["program"])
    seen = []
    for answer in (True, False):
        evidence = whole(
            made.program,
            made.original,
            made.mended,
            backends=QUICK,
            goes_on=lambda trace, answer=answer: seen.append(trace) or answer,
        )
        assert evidence.verified is answer
    assert [len(trace.graphs) for trace in seen] == [1, 1] and not seen[0].breaks and seen[0].error is None
    ended = {check.name: check.passed for check in evidence.checks}
    assert ended["recount, default mode"] is True and ended["eager"] is None and ended["aot_eager"] is None
    assert "recount, fullgraph=True" not in ended


def test_a_break_that_is_left_is_in_the_recount_that_is_shown(pair):
    made = pair(HEAD + BRANCH + INPUTS, HEAD + BRANCH.replace("x * 2", "x + x") + INPUTS, ["program"])
    seen = []
    whole(
        made.program,
        made.original,
        made.mended,
        backends=QUICK,
        goes_on=lambda trace: bool(seen.append(trace)),
    )
    assert [each.gb_type for each in seen[0].breaks if not each.consequence]


def test_an_arm_that_only_uncompiled_runs_reach_is_forced_in_the_compiled_program(pair):
    """A helper may be another program while compiling: here it takes one arm for both."""
    before = """
def program(x):
    skip = torch.rand([]) < 0.5
    if skip:
        return x * 1
    return x * 2
"""
    after = """
def _pick(skip, kept, made):
    if not torch.compiler.is_compiling():
        return kept if skip else made
    return torch.where(skip, made, made)

def program(x):
    skip = torch.rand([]) < 0.5
    return _pick(skip, x * 1, x * 2)
"""
    _, checks = judge(pair, before, after, [("skip", "skip")])
    assert checks["both arms: skip in program"].detail == "True by inputs, False by inputs"
    assert any("forced arms" in name or "eager" in name for name in failures(checks))
