"""A diagnosed run and a fix, made by hand."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import msgspec
import pytest

from onegraph.deliver import diff
from onegraph.gate import Baseline, Settings, judge, keys_of, torch_minor
from onegraph.model import (
    Attempt,
    Break,
    Check,
    Evidence,
    FileChange,
    Findings,
    FixResult,
    Frame,
    Graph,
    Level,
    Outcome,
    Owner,
    Recompile,
    Repair,
    Site,
    Span,
    Status,
    Trace,
)
from onegraph.report.rows import AnyReport, check_report, fix_report, run_report

SOURCE = """\
def step(x):
    if x.sum() > 0:
        x = x * 2
    print(x.shape)
    return x
"""


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "model.py"
    path.write_text(SOURCE)
    return str(path)


@pytest.fixture
def branch(file: str) -> Site:
    span = Span(file, 2, 7, 2, 18)
    event = Break("Data-dependent branching", "", Outcome.RESUMED, (Frame(span, "step"),))
    return Site(
        kind="branch_on_tensor",
        span=span,
        source="x.sum() > 0",
        function="make.<locals>.step",
        outcome=Outcome.FRAME_SKIPPED,
        owner=Owner.USER,
        package="",
        count=2,
        recompiles=1,
        intended=False,
        reason="Python decides on a tensor's value.",
        breaks=(event,),
    )


@pytest.fixture
def dependency() -> Site:
    return Site(
        kind="log_call",
        span=Span("/env/lib/python3.12/site-packages/lib/nn.py", 10, 0, 10, 20),
        source="logger.info('a')",
        function="Block.forward",
        outcome=Outcome.HIDDEN,
        owner=Owner.DEPENDENCY,
        package="lib 1.2",
        count=1,
        recompiles=0,
        intended=False,
        reason="A message has to be written.",
    )


@pytest.fixture
def findings(branch: Site, dependency: Site, file: str) -> Findings:
    trace = Trace(
        breaks=branch.breaks,
        graphs=(Graph("step", file, 1, 3),) * 2,
        recompiles=(
            Recompile("step", file, 1, ("0/0: tensor 'x' size mismatch at index 0. expected 2, actual 4",)),
            Recompile("step", file, 1, ("1/0: ___stack0 == 4.5  # torch_dynamo_resume_in_step_at_2",), True),
        ),
        frames_given_up=("step (model.py:1)",),
        limits_reached=("step (model.py:1)",),
        disagreements=("recompile: the hooks saw 1, torch's structured trace 2",),
        unseen=("probe of call 1 stopped at step (model.py:3): a generator",),
        compiled_calls=3,
        seconds=1.25,
        attempts=(
            Attempt("step", file, 1, 0.25, 0.5, False, (0,), (0,)),
            Attempt("step", file, 1, 0.75, 0.25, True, (1,)),
            Attempt("step", file, 1, 1.0, 0.125, False, recompile=0),
        ),
    )
    return Findings((branch, dependency), trace)


@pytest.fixture
def fixed(findings: Findings, branch: Site, dependency: Site, file: str) -> FixResult:
    evidence = Evidence(
        (
            Check("uncompiled: outputs", True),
            Check("inductor: gradients", True),
            Check("recount", False),
        ),
        inputs=6,
        seconds=0.5,
    )
    return FixResult(
        program="step",
        before=findings,
        after=Findings((dependency,), Trace(graphs=findings.trace.graphs[:1], compiled_calls=1)),
        repairs=(
            Repair(
                branch,
                Status.APPLIED,
                "branch_on_tensor",
                Level.RELAXED,
                "torch.where instead of the branch",
                "",
                notes=("both sides are evaluated",),
                evidence=evidence,
            ),
            Repair(
                dependency,
                Status.DECLINED,
                "log_call",
                None,
                "",
                "the logger is made inside",
                next_step="make it at module level",
            ),
        ),
        changes=(FileChange(file, SOURCE, SOURCE.replace("x * 2", "x * 3"), ("step",)),),
        evidence=evidence,
        seconds={"observe": 0.25, "mend": 1.0},
    )


@pytest.fixture
def reports(findings: Findings, fixed: FixResult, tmp_path: Path) -> dict[str, AnyReport]:
    """The same program in every kind of report, without what differs between machines."""
    baseline = Baseline().with_keys(torch_minor(), "model.py:make", keys_of(findings.sites[1:], tmp_path))
    verdict = judge(findings, Settings(tmp_path), baseline, "model.py:make", kinds=())
    clean = Findings((), Trace(graphs=findings.trace.graphs[:1], compiled_calls=1))
    passed = judge(clean, Settings(tmp_path), Baseline(), "model.py:make", kinds=())
    target = "model.py:make"
    found = {
        "run": run_report(findings, target),
        "check": check_report(findings, verdict, target, tmp_path),
        "fix": fix_report(fixed, target, diff(fixed.changes)),
        "clean": check_report(clean, passed, target, tmp_path),
        "nothing": run_report(Findings((), Trace()), target),
    }
    hidden = replace(
        fixed.repairs[1].site, span=Span(fixed.changes[0].path, 4, 4, 4, 18), source="print(x.shape)"
    )
    late = replace(
        fixed, repairs=(*fixed.repairs, replace(fixed.repairs[1], site=hidden, reason="shows late"))
    )
    found["late"] = fix_report(late, target, diff(fixed.changes))
    steady = {"onegraph": "0.1.0", "torch": "2.13.0", "python": "3.12.1", "platform": "Linux"}
    return {
        name: msgspec.structs.replace(report, **steady, arguments=["onegraph", name, target])
        for name, report in found.items()
    }
