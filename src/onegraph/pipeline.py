"""The stages on one page: observe → probe → diagnose → mend (which verifies) → a result to report and
deliver."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace

import torch

from onegraph import mend, observe, verify
from onegraph.bench import Result, arms, measure
from onegraph.cudagraphs import Prediction, predict
from onegraph.mend import findings_of, look
from onegraph.model import Evidence, Findings, FixResult, Level, Program, Trace
from onegraph.rewrite.workspace import Workspace
from onegraph.shapes import ShapesResult
from onegraph.shapes import shapes as shapes_of
from onegraph.state import preserved
from onegraph.state.copying import copy_call
from onegraph.state.run import run_call
from onegraph.targets import Recorded, Script, TargetFailed, recorded
from onegraph.targets.traceback import trimmed
from onegraph.together import evidence_together, one_result
from onegraph.torch_private import dynamo, traps, version
from onegraph.torch_private.quiet import quiet

Target = Program | Script
STAGES = ("observe", "mend", "verify")


def run(target: Target) -> Findings:
    """Where the graph breaks in ``target``, and what hides behind a break.

    A script runs as it is, with everything that it sends through torch.compile watched; a program is compiled
    with the user's own keywords, and its calls are made on copies. Raises TargetFailed where the target
    itself raises.
    """
    version.require()
    if isinstance(target, Script):
        trace, entries = _run_script(target)
        return findings_of(trace, _behind(trace, entries))
    with quiet():
        findings = look(target)
    error = findings.trace.error
    if error is not None and not dynamo.is_compiler_error(error):
        _raise_if_always(target)
    return findings


def fix(
    target: Target,
    *,
    level: Level = Level.RELAXED,
    select: Sequence[str] = (),
    ignore: Sequence[str] = (),
) -> FixResult:
    """Mend what breaks in ``target`` up to ``level``, and verify it.

    ``select`` and ``ignore`` are names of kinds. Of a script every compiled callable is mended, one after the
    other, with the inputs that the script gave it. Nothing is written: ``FixResult.changes`` go to
    ``deliver``.
    """
    version.require()
    if isinstance(target, Program):
        return _fix_program(target, level, select, ignore)
    trace, entries = _run_script(target)
    results = []
    for entry in entries:
        with entry.mode():
            results.append(_fix_program(entry.program, level, select, ignore))
    result = one_result(str(target), findings_of(trace), results)
    return replace(result, evidence=_verified_together(result, entries, results))


def shapes(target: Target, vary: str = "") -> tuple[ShapesResult, ...]:
    """Which sizes share one artifact: of a program, or of every callable that a script compiles.

    Raises AxisError for a ``vary`` that doesn't fit, TargetFailed where the target itself raises.
    """
    version.require()
    if isinstance(target, Program):
        _raise_if_always(target)
        with quiet():
            return (shapes_of(target, vary),)
    results = []
    for entry in _run_script(target)[1]:
        with entry.mode(), quiet():
            results.append(shapes_of(entry.program, vary))
    return tuple(results)


def as_compiled(target: Target) -> tuple[verify.AsCompiled, ...]:
    """Whether compiled calls of a program, or of every callable that a script compiles, do what eager does; nothing is
    rewritten. Raises TargetFailed where the target itself raises.
    """
    version.require()
    if isinstance(target, Program):
        _raise_if_always(target)
        with quiet(stderr=True):
            return (verify.as_compiled(target),)
    results = []
    for entry in _run_script(target)[1]:
        with entry.mode(), quiet(stderr=True):
            results.append(verify.as_compiled(entry.program))
    return tuple(results)


def cudagraphs(program: Program) -> Prediction:
    """What CUDA graphs would hold of the first call, predicted without running it."""
    version.require()
    with quiet(stderr=True):
        return predict(program)


def bench(program: Program, *, rounds: int, grad: bool) -> Result | None:
    """The program mended and measured beside itself; None where the mended one did not verify."""
    with torch.set_grad_enabled(grad), quiet(stderr=True):
        result = fix(program)
        if result.changes and not result.evidence.verified:
            return None
        return measure(program, arms(program, result), rounds=rounds)


@contextmanager
def watching() -> Iterator[Callable[[], Findings]]:
    """Watch everything compiled inside; the value gives the findings so far."""
    version.require()
    with observe.watch() as seen:
        yield lambda: findings_of(seen.trace())


def _fix_program(program: Program, level: Level, select: Sequence[str], ignore: Sequence[str]) -> FixResult:
    start = time.perf_counter()
    with traps.set_everywhere():
        findings = run(program)
    looking = time.perf_counter() - start
    with quiet(stderr=True), traps.set_everywhere():
        result = mend.mend(program, findings, level=level, select=select, ignore=ignore)
    seconds = {**result.seconds, "observe": looking + result.seconds.get("observe", 0.0)}
    return replace(result, seconds=dict(sorted(seconds.items(), key=lambda item: STAGES.index(item[0]))))


def _verified_together(
    result: FixResult, entries: Sequence[Recorded], alone: Sequence[FixResult]
) -> Evidence:
    """Each program was verified with its own changes; where others were merged in, it is verified again."""
    workspace = Workspace()
    for change in result.changes:
        workspace = workspace.with_text(change.path, change.mended, change.functions)
    evidence = []
    for entry, own in zip(entries, alone, strict=True):
        if own.changes and own.changes != result.changes:
            level, rounding = verify.allowed(result.repairs)
            with entry.mode(), quiet(stderr=True):
                evidence.append(
                    verify.whole(entry.program, Workspace(), workspace, level=level, rounding=rounding)
                )
        elif own.changes:
            evidence.append(own.evidence)
    return evidence_together(evidence)


def _run_script(script: Script) -> tuple[Trace, tuple[Recorded, ...]]:
    with observe.watch() as seen, recorded() as recording:
        try:
            script.run()
        except TargetFailed as failed:
            if not (dynamo.is_compiler_error(failed.error) and seen.trace().breaks):
                raise
            return replace(seen.trace(), error=failed.error), recording.entries()
    return seen.trace(), recording.entries()


def _behind(trace: Trace, entries: Sequence[Recorded]) -> list[observe.Probe]:
    probes = []
    for entry in entries if trace.breaks else ():
        with entry.mode(), quiet():
            probes.append(observe.explore(entry.program))
    return probes


def _raise_if_always(program: Program) -> None:
    """A program may raise on some inputs, and that is its behaviour. If it never does anything else, it is
    broken."""
    for call in program.calls:
        if run_call(program.target, call, grad=None).error is None:
            return
    raise TargetFailed(_eager_error(program))


def _eager_error(program: Program) -> BaseException:

    call = copy_call(program.calls[0])
    with preserved(program):
        try:
            program.target(*call.args, **call.kwargs)
        except Exception as error:  # noqa: BLE001 (shown to the user)
            return trimmed(error)
    return RuntimeError("the target raised only under torch.compile")
