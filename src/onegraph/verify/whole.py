"""The mended program against the original, uncompiled and compiled: the last word before anything is
delivered.

In order of cost: both uncompiled; one capture in the user's mode that serves the recount and the backends
eager and aot_eager; one under ``fullgraph=True``; arms that no input reaches, forced in a compiled program;
inductor once. It stops at the first stage that disagrees; what was not run then is unverified, never passed.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

import torch

from onegraph.model import Check, Evidence, Level, Predicate, Program, Trace
from onegraph.observe import watch
from onegraph.rewrite.swap import SwapError, real_path, search_anew, swapped
from onegraph.rewrite.workspace import Workspace
from onegraph.state import Observation, World, tensors_in
from onegraph.torch_private import backends as engines
from onegraph.torch_private import dynamo
from onegraph.verify.compare import Comparison, compare
from onegraph.verify.forcing import NAME, CompiledForcing, Condition, Instrument, conditions
from onegraph.verify.ledger import Ledger
from onegraph.verify.runs import Run, Twice, instrumented, twice
from onegraph.verify.uncompiled import Before, compare_texts, world_of
from onegraph.verify.variations import Variation, other_size, recorded, variations
from onegraph.words import first_line

BACKENDS = ("eager", "aot_eager", "inductor")
_CAPTURE = {"capture_scalar_outputs": True, "capture_dynamic_output_shape_ops": True}
_NOT_OURS = ("backend", "mode", "options", "fullgraph", "disable")


@dataclass(slots=True)
class _Case:
    """What every stage needs. ``ledgers`` keep the numbers of all stages."""

    program: Program
    original: Workspace
    mended: Workspace
    known: tuple[Condition, ...]
    level: Level
    world: World
    checks: list[Check] = field(default_factory=list)
    ledgers: list[Ledger] = field(default_factory=list)
    unstable: list[Comparison] = field(default_factory=list)
    goes_on: Callable[[Trace], bool] | None = None
    rounding: bool = False
    endless: set[str] = field(kw_only=True)

    def ledger(self, name: str) -> Ledger:
        made = Ledger(name, self.level)
        for comparison in self.unstable:
            made.unstable(comparison)
        self.ledgers.append(made)
        return made


def whole(
    program: Program,
    original: Workspace,
    mended: Workspace,
    predicates: Iterable[Predicate] = (),
    *,
    level: Level = Level.RELAXED,
    backends: Sequence[str] = BACKENDS,
    goes_on: Callable[[Trace], bool] | None = None,
    rounding: bool = False,
    endless: set[str] | None = None,
) -> Evidence:
    """Compare the mended program with the original on every recorded call and on variations of them.

    Runs in the caller's gradient mode. ``level`` and ``rounding`` are what may differ, and ``endless`` which
    runs are not made, as in ``uncompiled``.
    Checks are named by stage: "uncompiled: ...", "recount, ...", "<backend>: ...", "forced arms: ...". State and random
    streams are as before afterwards; whatever was compiled is forgotten. ``goes_on`` is asked once, with what
    Dynamo did with the recorded calls in the user's own mode; where it says False, the rest is not run.
    """
    start = time.perf_counter()
    search_anew()
    if not program.calls:
        return Evidence((Check("inputs", None, "no call of the program was recorded"),))
    try:
        world = world_of(program, original, mended)
    except (SwapError, SyntaxError) as error:
        return Evidence((Check("swap", False, f"the mended text can't run: {error}"),))
    case = _Case(
        program,
        original,
        mended,
        conditions(predicates),
        level,
        world,
        goes_on=goes_on,
        rounding=rounding,
        endless=set() if endless is None else endless,
    )
    try:
        _stages(case, [name for name in BACKENDS if name in backends])
    except SwapError as error:
        case.checks.append(Check("swap", False, str(error)))
    finally:
        world.restore()
        dynamo.reset()
    return Evidence(
        checks=tuple(case.checks),
        inputs=sum(ledger.runs for ledger in case.ledgers),
        max_abs=max((ledger.max_abs for ledger in case.ledgers), default=0.0),
        max_rel=max((ledger.max_rel for ledger in case.ledgers), default=0.0),
        seconds=time.perf_counter() - start,
    )


def _stages(case: _Case, backends: list[str]) -> None:
    ledger = case.ledger("uncompiled")
    texts = case.original, case.mended
    seen = compare_texts(
        case.program, *texts, case.known, case.world, ledger, case.rounding, endless=case.endless
    )
    case.unstable = ledger.instabilities
    case.checks += [*ledger.checks(), *seen.checks]
    runs = _compiled_runs(case)
    expected = _expected(case, runs)
    first = [name for name in backends if name != "inductor"] or ["eager"]
    if not _agree(case):
        _unverified(case, [*backends, "recount"], "the uncompiled texts differ already")
        return
    clean = _user_mode(case, expected, first)
    if clean is None:
        _unverified(case, backends, "the recount is not as it should be")
        return
    _forced_arms(case, seen, runs)
    why = engines.inductor_missing() if _agree(case) else "an earlier stage disagrees"
    both = clean and not why and "inductor" in backends
    if not both:
        _fullgraph(case, [run for run in expected if not run.varied])
    if "inductor" in backends and why:
        _unverified(case, ["inductor"], why)
    elif "inductor" in backends:
        _inductor(case, expected, fullgraph=both)


def _agree(case: _Case) -> bool:
    """Whether nothing is wrong so far; graph breaks that are left are not wrong."""
    return all(check.passed is not False or check.name.startswith("recount") for check in case.checks)


def _unverified(case: _Case, stages: Iterable[str], why: str) -> None:
    case.checks += [Check(stage, None, f"not run: {why}") for stage in stages]


# --- what runs ----------------------------------------------------------------------------------------------


def _compiled_runs(case: _Case) -> tuple[Variation, ...]:
    """The recorded calls; with gradients where the user's call has no leaf at all; one other size.

    A loop in the graph is for calls without gradients (its repair says so): others stay with Python, uncompiled.
    """
    calls = recorded(case.program)
    runs = list(calls)
    inputs = [t for call in case.program.calls for t in _leaves(call)]
    loop = "torch.while_loop("
    looped = any(loop in c.mended and loop not in c.original for c in case.mended.changes())
    if torch.is_grad_enabled() and not inputs and not case.world.leaves() and not looped:
        runs += [v for v in variations(case.program, case.world) if v.gradients]
    shapes = {_signature(variation) for variation in calls}
    if case.program.options.get("dynamic") is not False and len(shapes) < 2:
        other = other_size(case.program)
        runs += [other] if other is not None else []
    return tuple(runs)


def _leaves(call: Any) -> Iterator[torch.Tensor]:
    return (tensor for _, tensor in tensors_in(call, "") if tensor.requires_grad)


def _signature(variation: Variation) -> tuple[tuple[int, ...], ...]:
    return tuple(tuple(tensor.shape) for _, tensor in tensors_in(variation.call, ""))


def _compiled_results(
    case: _Case, target: Any, runs: Iterable[Variation], *, seconds: float | None = None
) -> dict[Variation, Twice]:
    """Of a compiled text. Where one run has no end, no other is waited for: they come out like it."""
    results: dict[Variation, Twice] = {}
    endless: Observation | None = None
    for run in runs:
        if endless is None:
            results[run] = twice(target, run, case.world, seconds or case.world.patience.compiling)
            endless = next((seen for seen in results[run] if seen.endless), None)
        else:
            results[run] = endless, endless
    return results


def _expected(case: _Case, runs: Sequence[Variation]) -> dict[Variation, Twice]:
    """Eager's own runs. A size that eager rejects is left out, and inputs on which it does not end."""
    seconds = case.world.patience.seconds
    with swapped(case.original, reset=False):
        seen = {
            run: twice(case.program.target, run, case.world, seconds if run.varied else None)
            for run in runs
            if run.name not in case.endless
        }
    return {
        run: (first, second)
        for run, (first, second) in seen.items()
        if not ((run.resized and first.error) or (run.varied and (first.endless or second.endless)))
    }


@contextmanager
def _compiled(case: _Case, text: Workspace, backend: Any, *, fullgraph: bool = False) -> Iterator[Any]:
    """The program of a text under torch.compile with the user's keywords."""
    options = {name: value for name, value in case.program.options.items() if name not in _NOT_OURS}
    captures = _CAPTURE if case.program.options.get("fullgraph") else {}
    with swapped(text), dynamo.patched(**captures), engines.comparable_inductor():
        yield torch.compile(case.program.target, backend=backend, fullgraph=fullgraph, **options)


# --- stages -------------------------------------------------------------------------------------------------


def _user_mode(case: _Case, expected: dict[Variation, Twice], names: list[str]) -> bool | None:
    """Recount, and agreement on each of the backends, with one capture; whether no break is left. None: the
    caller does not want to go on.
    """
    switch = engines.Switch(names)
    results: dict[str, dict[Variation, Twice]] = {}
    with _compiled(case, case.mended, switch) as target:
        with watch() as watching:
            results[names[0]] = _compiled_results(case, target, [run for run in expected if not run.varied])
            trace = _with_error(watching.trace(), expected, results[names[0]])
            if case.goes_on is not None and not case.goes_on(trace):
                case.checks.append(_recount("recount, default mode", trace, switch.graphs))
                return None
            for name in names:
                switch.current = name
                seen = results.setdefault(name, {})
                seen |= _compiled_results(case, target, [run for run in expected if run not in seen])
        with watch() as again:
            for run in expected:
                run.run(target, case.world, seconds=case.world.patience.compiling)
    recount = _recount("recount, default mode", watching.trace(), switch.graphs)
    case.checks.append(recount)
    case.checks.append(_no_recompile(again.trace()))
    for name in names:
        _judge(case, name, expected, results[name])
    return recount.passed is True


def _with_error(trace: Trace, expected: dict[Variation, Twice], seen: dict[Variation, Twice]) -> Trace:
    """With the first error of the compiler in a run in which eager raises nothing."""
    errors = (twice[0].error for run, twice in seen.items() if expected[run][0].error is None)
    raised = (error.exception for error in errors if error is not None and error.exception is not None)
    return replace(trace, error=next(filter(dynamo.is_compiler_error, raised), None))


def _fullgraph(case: _Case, runs: Sequence[Variation]) -> None:
    switch = engines.Switch(("eager",))
    with _compiled(case, case.mended, switch, fullgraph=True) as target, watch() as watching:
        seen = [run.run(target, case.world, seconds=case.world.patience.compiling) for run in runs]
    _recount_fullgraph(case, watching.trace(), switch, seen)


def _recount_fullgraph(
    case: _Case, trace: Trace, switch: engines.Switch, seen: Iterable[Observation]
) -> None:
    """An error of Dynamo before any graph was made is a break too, of a sort that only fullgraph=True
    reports.
    """
    name = "recount, fullgraph=True"
    errors = [each.error for each in seen if each.error is not None and each.error.exception is not None]
    refused = [e for e in errors if e.exception and dynamo.is_compiler_error(e.exception)]
    if refused and not trace.breaks and not switch.graphs:
        case.checks.append(Check(name, False, first_line(refused[0].message)))
    else:
        case.checks.append(_recount(name, trace, switch.graphs))


def _forced_arms(case: _Case, seen: Before, runs: Sequence[Variation]) -> None:
    """All conditions that the compiled runs did not give both outcomes, at once True, then False, compiled.

    Uncompiled runs that did say nothing here: a helper such as ``_cond`` is another program while compiling."""
    unreached = [number for number in seen.unreached(len(case.known), runs) if number in seen.found]
    if not unreached or not _agree(case):
        return
    ledger = case.ledger("forced arms")
    variation = next((run for run in runs if run.gradients), runs[0])
    plans = [
        Run(variation, tuple((n, outcome) for n in unreached if outcome not in case.known[n].endless))
        for outcome in (True, False)
    ]
    paths = {change.path for change in case.mended.changes()}
    with instrumented(case.original, paths, case.known, after=False) as (forcing, _):
        eager = []
        for plan in plans:
            forcing.start(dict(plan.outcomes))
            seconds = case.world.patience.seconds
            eager.append(variation.run(case.program.target, case.world, seconds=seconds))
    compiled = CompiledForcing(len(case.known))
    instrument = dict.fromkeys(paths, Instrument(case.known, after=True))
    with swapped(case.mended, instrument=instrument, inject={NAME: compiled.function()}):
        target = torch.compile(case.program.target, backend="eager")
        for plan, wanted in zip(plans, eager, strict=True):
            compiled.start(dict(plan.outcomes))
            actual = variation.run(target, case.world, seconds=case.world.patience.compiling)
            comparison = compare(wanted, actual, exact=False)
            if wanted.error and actual.error:  # an arm that the data does not fit fails at another place
                comparison = comparison.without(("exceptions", "state", "random state", "arguments"))
            ledger.add(plan.name(case.known), comparison)
    case.checks += ledger.checks()


def _inductor(case: _Case, expected: dict[Variation, Twice], *, fullgraph: bool) -> None:
    """With ``fullgraph`` the capture for inductor is the recount under fullgraph=True as well."""
    wanted = {run: twice for run, twice in expected.items() if not run.resized}
    switch = engines.Switch(("inductor",), _inductor_options(case.program))
    with _compiled(case, case.mended, switch, fullgraph=fullgraph) as target, watch() as watching:
        results = _compiled_results(case, target, wanted, seconds=case.world.patience.generating)
    if fullgraph:
        _recount_fullgraph(case, watching.trace(), switch, [first for first, _ in results.values()])
    _judge(case, "inductor", wanted, results)


def _inductor_options(program: Program) -> dict[str, Any]:
    options = program.options.get("options")
    return {k: v for k, v in options.items() if k != "guard_filter_fn"} if isinstance(options, dict) else {}


# --- judgement ----------------------------------------------------------------------------------------------


def _judge(case: _Case, name: str, expected: dict[Variation, Twice], actual: dict[Variation, Twice]) -> None:
    """Enter the runs of one backend. What disagrees is looked for in the original on that backend first."""
    ledger = case.ledger(name)
    compared = [
        (f"{run.name}{', again' if number else ''}", compare(wanted, seen, exact=False), (run, number))
        for run in expected
        for number, (wanted, seen) in enumerate(zip(expected[run], actual[run], strict=True))
    ]
    if any(comparison.failures(case.level) for _, comparison, _ in compared):
        alike = _torchs_own(case, name, expected, actual)
        for label, comparison, (run, number) in compared:
            own = alike[run][number]
            for difference in comparison.failures(case.level):
                if difference.aspect in own:
                    ledger.note(difference.aspect, f"{difference.words}: it differs alike without our change")
            ledger.add(label, comparison.without(own))
    else:
        for label, comparison, _ in compared:
            ledger.add(label, comparison)
    case.checks += ledger.checks()


def _torchs_own(
    case: _Case, name: str, expected: dict[Variation, Twice], actual: dict[Variation, Twice]
) -> dict[Variation, list[set[str]]]:
    """The aspects in which the original on that backend differs from eager just as the mended one does."""
    switch = engines.Switch((name,), _inductor_options(case.program) if name == "inductor" else None)
    with _compiled(case, case.original, switch) as target:
        original = _compiled_results(case, target, expected)
    found: dict[Variation, list[set[str]]] = {}
    for run in expected:
        found[run] = []
        for wanted, ours, theirs in zip(expected[run], actual[run], original[run], strict=True):
            apart = {d.aspect for d in compare(theirs, ours, exact=False).failures(case.level)}
            theirs_off = _by_aspect(compare(wanted, theirs, exact=False), case.level)
            ours_off = _by_aspect(compare(wanted, ours, exact=False), case.level)
            alike = {a for a, off in ours_off.items() if _no_further(off, theirs_off.get(a, []))}
            found[run].append((theirs_off.keys() - apart) | alike)
    return found


def _by_aspect(comparison: Comparison, level: Level) -> dict[str, list[float | None]]:
    found: dict[str, list[float | None]] = {}
    for difference in comparison.failures(level):
        found.setdefault(difference.aspect, []).append(difference.distance)
    return found


def _no_further(ours: list[float | None], theirs: list[float | None]) -> bool:
    """Both are off by numbers alone, and ours by no more than twice as much.

    One graph is fused otherwise than several, so that in half precision the two round at different places.
    They can't agree to the last bit, but the mended program must not be further from eager. Twice is the
    margin that torch's own accuracy check allows a compiled model over eager, against a reference in double.
    """
    ours_off = [distance for distance in ours if distance is not None]
    theirs_off = [distance for distance in theirs if distance is not None]
    if len(ours_off) < len(ours) or not theirs_off:
        return False
    return max(ours_off) <= 2 * max(theirs_off)


def _recount(name: str, trace: Trace, graphs: int) -> Check:
    breaks = [each for each in trace.breaks if not each.consequence]
    problems = [f"{_where(each)}: {first_line(each.message or each.gb_type)}" for each in breaks]
    problems += [f"run eagerly as a whole: {frame}" for frame in trace.frames_given_up]
    problems += [f"recompile limit reached: {frame}" for frame in trace.limits_reached]
    if problems:
        more = f"; and {len(problems) - 2} more" if len(problems) > 2 else ""
        return Check(name, False, "; ".join(dict.fromkeys(problems[:2])) + more)
    if not trace.compiled_calls:
        return Check(name, None, "nothing was compiled")
    return Check(name, True, f"no graph break, {graphs} graph{'s' if graphs != 1 else ''}")


def _no_recompile(trace: Trace) -> Check:
    """The same call in the same state must run on what is compiled."""
    if trace.recompiles:
        reasons = "; ".join(trace.recompiles[0].reasons)
        return Check("recount, second call", False, f"recompiles: {reasons}")
    if trace.compiled_calls:
        return Check("recount, second call", False, "a frame is compiled again")
    return Check("recount, second call", True, "no recompile")


def _where(each: Any) -> str:
    if not each.stack:
        return "unknown place"
    span = each.stack[-1].span
    return f"{real_path(span.file)}:{span.line}"
