"""One program through the tool, and against the oracle."""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import ModuleType
from typing import Any

import torch

from fuzzing.grammar import Generated
from fuzzing.oracle import RECORDED, Allowed, Call, Seen, calls_of, difference, loaded, record
from fuzzing.watching import watched
from onegraph import mend, verify
from onegraph.mend import tools
from onegraph.mend.captures import settings_for
from onegraph.mend.look import findings_of
from onegraph.model import Call as ToolCall
from onegraph.model import Check, Evidence, FixResult, Level, Predicate, Program, Status, Trace
from onegraph.observe import observe
from onegraph.rewrite.swap import swapped
from onegraph.rewrite.workspace import Workspace
from onegraph.torch_private import dynamo
from onegraph.torch_private.quiet import quiet

ONE_GRAPH, DECLINED, REJECTED, WRONG, INVALID = "one graph", "declined", "rejected", "wrong", "invalid"
INTENDED = ("ValueError", "RuntimeError", "AssertionError")


@dataclass
class Outcome:
    """What became of a program. ``reason`` says why; ``stage`` is where a wrong result showed."""

    seed: int
    verdict: str
    reason: str = ""
    kind: str = ""
    text: str = ""
    mended: str = ""
    changed: bool = False
    seconds: dict[str, float] = field(default_factory=dict)


def tried(
    program: Generated, folder: Path, backends: tuple[str, ...] = ("eager",), *, quick: bool = True
) -> Outcome:
    """Mend a program and compare it on calls that the tool saw and on calls that it didn't.

    ``quick``: sites are found by running the program uncompiled. What then is no one graph is tried again with the
    tool's own observation.
    """
    calls = calls_of(program.arguments, program.seed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with loaded(program.text, folder) as module:
            expected = record(module, module.f, calls)
        if why := _invalid(expected):
            return Outcome(program.seed, INVALID, why, text=program.text)
        with loaded(program.text, folder) as module:
            outcome = _judged(program, module, calls, expected, folder, backends, quick)
    if quick and backends and outcome.verdict not in (ONE_GRAPH, INVALID):
        return tried(program, folder, backends, quick=False)
    return outcome


def _judged(
    program: Generated, module: ModuleType, calls: list[Call], expected: list[Seen], folder: Path,
    backends: tuple[str, ...], quick: bool,
) -> Outcome:  # fmt: skip
    result, whole = _mended(module, calls[:RECORDED], watched if quick else observe)
    outcome = Outcome(program.seed, ONE_GRAPH, text=program.text, mended=program.text)
    outcome.changed = bool(result.changes)
    if result.changes:
        outcome.mended = result.changes[0].mended
    left = [r for r in result.repairs if r.status is not Status.APPLIED and not settings_for(r.site)]
    if left:
        rejected = next((each for each in left if each.status is Status.REJECTED), None)
        chosen = rejected or left[0]
        outcome.verdict = REJECTED if rejected else DECLINED
        outcome.reason, outcome.kind = chosen.reason, chosen.kind
    elif (after := _left(result)) is not None:
        outcome.verdict, outcome.reason = DECLINED, after
    if wrong := _wrong(program, outcome.mended, calls, expected, folder, outcome, backends):
        # The tool's own judge may have refused it: that is a fault of the lowering, not a wrong result.
        refusal = whole.refusal(result)
        outcome.verdict = REJECTED if refusal else WRONG
        outcome.reason = f"{refusal} [{wrong}]" if refusal else wrong
    return outcome


def _left(result: FixResult) -> str | None:
    """What still breaks where torch captures all that it can, as ``fullgraph=True`` does."""
    if result.after.trace.error is not None:
        return str(result.after.trace.error)
    return next((site.reason for site in result.after.sites if not settings_for(site)), None)


def _wrong(
    program: Generated, mended: str, calls: list[Call], expected: list[Seen], folder: Path, outcome: Outcome,
    backends: tuple[str, ...],
) -> str | None:  # fmt: skip
    allowed = Allowed()
    if outcome.changed:
        with loaded(mended, folder) as module:
            actual = record(module, module.f, calls)
        if words := difference(expected, actual, allowed):
            return f"uncompiled: {words}"
    if outcome.verdict != ONE_GRAPH or not outcome.changed:
        return None
    for backend in backends:
        some = _some(calls, expected)
        with loaded(program.text, folder) as module:
            wanted = record(module, module.f, some)
        with loaded(mended, folder) as module, quiet():
            dynamo.reset()
            target = torch.compile(module.f, backend=backend, fullgraph=True)
            actual = record(module, target, some)
            dynamo.reset()
        if words := difference(wanted, actual, replace(allowed, rounding=backend != "eager", compiled=True)):
            return f"{backend}: {words}"
    return None


def _some(calls: list[Call], expected: list[Seen]) -> list[Call]:
    """Few calls for a compiled program: some of the recorded ones, some that nobody saw."""
    return [calls[i] for i in (0, 2, 3, 4, 7)]


def _invalid(expected: list[Seen]) -> str | None:
    """Why eager itself refuses the program."""
    for seen in expected:
        if seen.error and (
            seen.error[0] not in INTENDED or seen.error[1] not in ("out of range", "too large", "")
        ):
            return f"{seen.error}"
        if seen.backward_error:
            return seen.backward_error
    if all(seen.error for seen in expected[:RECORDED]):
        return "always raises"
    return None


# --- the tool -----------------------------------------------------------------------------------------------


class _Recount:
    """In place of the full judge: looks for what still breaks, and keeps what the judge would be asked."""

    def __init__(self, observing: Callable[[Program], Trace]) -> None:
        self.observing = observing
        self.asked: tuple[Any, ...] | None = None

    def __call__(
        self, program: Program, mended: Workspace, predicates: tuple[Predicate, ...], level: Level,
        backends: tuple[str, ...] | None = None, goes_on: Any = None, rounding: bool = False,
    ) -> Evidence:  # fmt: skip
        self.asked = (program, mended, predicates, level, rounding)
        with swapped(mended):
            trace = self.observing(program)
        clean = (goes_on is None or goes_on(trace)) and trace.error is None and not findings_of(trace).sites
        return Evidence((Check("recount, default mode", clean, _words(trace)),))

    def refusal(self, result: FixResult) -> str | None:
        """What the tool's full verification says of the result."""
        if self.asked is None:
            return None
        program, mended, predicates, level, rounding = self.asked
        with quiet(stderr=True):
            evidence = verify.whole(
                program, Workspace(), mended, predicates, level=level, rounding=rounding,
                backends=("eager", "aot_eager"),
            )  # fmt: skip
        failed = [check for check in evidence.checks if check.passed is False]
        return f"{failed[0].name}: {failed[0].detail}" if failed else None


def _words(trace: Trace) -> str:
    return str(trace.error) if trace.error is not None else f"{len(trace.breaks)} graph breaks"


def _mended(
    module: ModuleType, calls: list[Call], observing: Callable[[Program], Trace]
) -> tuple[FixResult, _Recount]:
    """The tool's own loop with the real kinds and trials; the full judge only recounts."""
    recorded = tuple(ToolCall(tuple(_leaf(value) for value in call)) for call in calls)
    program = Program("f", module.f, recorded)
    whole = _Recount(observing)
    with quiet(stderr=True):
        findings = findings_of(observing(program))
        used = replace(tools.standard(), whole=whole, observe=observing)
        if observing is watched:
            used = replace(used, residual=observing)
        result = mend.mend(program, findings, tools=used)
    return result, whole


def _leaf(value: Any) -> Any:
    """The leaf of a gradient, behind an op, so that the program may change it in place."""
    if isinstance(value, torch.Tensor) and value.is_floating_point():
        return value.clone().requires_grad_()
    return value.clone() if isinstance(value, torch.Tensor) else value


def counted(outcomes: list[Outcome]) -> Counter[str]:
    return Counter(outcome.verdict for outcome in outcomes)
