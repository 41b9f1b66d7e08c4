"""One trial: the recorded calls and the other sizes, compiled with one setting, beside eager."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from types import CodeType
from typing import Any

import torch

from onegraph.diagnose.causes import Cause, cause_of, cause_of_refusal
from onegraph.model import Call, Program, Trace
from onegraph.observe import watch
from onegraph.shapes.axes import Axis, Sizes, given_names, resized
from onegraph.shapes.points import product_of
from onegraph.shapes.result import Proof, Step, Trial
from onegraph.state import Observation, World, copy_call, run_call
from onegraph.torch_private import dynamo, guards, marks
from onegraph.torch_private.hooks import listening
from onegraph.torch_private.quiet import without_guard_errors
from onegraph.verify import compare

Mark = Callable[[Call], None]
_BACKEND_ONLY = ("backend", "mode", "options", "fullgraph")
# What fullgraph=True captures besides; a break is no error here, it is told.
_CAPTURE = {"capture_scalar_outputs": True, "capture_dynamic_output_shape_ops": True}
_ASKED_OF_EAGER = 24  # sizes that the guards refuse, before we say that eager refuses them too


@dataclass(slots=True)
class Course:
    """The calls of every trial, in order, and what eager makes of them."""

    program: Program
    axes: tuple[Axis, ...]
    steps: list[tuple[str, Sizes, Call, Observation]] = field(default_factory=list)
    refused: list[Step] = field(default_factory=list)


def course(program: Program, axes: tuple[Axis, ...], points: Sequence[Sizes], world: World) -> Course:
    """Run everything in eager mode, state going on from call to call. What eager refuses is no step."""
    made = Course(program, axes)
    calls: list[tuple[str, Sizes, Call]] = [
        (f"call {n}", {}, call) for n, call in enumerate(program.calls, 1)
    ]
    calls += [(_words(sizes), sizes, resized(program, program.calls[0], axes, sizes)) for sizes in points]
    for name, sizes, call in calls:
        seen = _eager(program, call, world, bounded=bool(sizes))
        if sizes and seen.error is not None:
            made.refused.append(Step(name, sizes, error=f"{seen.error.type}: {seen.error.message}"))
        else:
            made.steps.append((name, sizes, call, seen))
    world.restore()
    return made


def _eager(program: Program, call: Call, world: World, *, bounded: bool) -> Observation:
    if bounded:
        seconds = world.patience.seconds
        return run_call(program.target, call, world=world, restore=False, backward=False, seconds=seconds)
    with world.patience.learning():
        return run_call(program.target, call, world=world, restore=False, backward=False)


def trial(
    course: Course, world: World, name: str, code: Sequence[str], mark: Mark, options: dict[str, Any]
) -> Trial:
    """The course under torch.compile (backend eager, the user's other keywords and ``options``)."""
    dynamo.reset()
    program = course.program
    kept = {key: value for key, value in program.options.items() if key not in _BACKEND_ONLY}
    backend = _Counting()
    compiled = torch.compile(program.target, backend=backend, **{**kept, **options})
    codes, names = _Codes(), given_names(program)
    steps: list[Step] = []
    captures = _CAPTURE if program.options.get("fullgraph") else {}
    with without_guard_errors(), dynamo.patched(**captures), watch() as watching, listening(codes):
        for step_name, sizes, call, expected in course.steps:
            own = copy_call(call)
            mark(own)
            before = len(watching.trace().recompiles)
            limit = world.patience.compiling if sizes else None
            seen = run_call(compiled, own, world=world, restore=False, backward=False, seconds=limit)
            difference, error = _differences(expected, seen)
            causes = _causes(watching.trace(), before, names)
            if error and (line := cause_of_refusal(error, names)) is not None:
                causes = (line,)
            steps.append(Step(step_name, sizes, causes, difference, error))
            if steps[-1].error:
                break
        trace = watching.trace()
    proof = _proof(course, trace, codes, names, world.patience.seconds)
    world.restore()
    made = Trial(
        name,
        tuple(code),
        backend.graphs,
        tuple(steps),
        bool(trace.limits_reached),
        sum(not each.consequence for each in trace.breaks),
        proof,
    )
    dynamo.reset()
    return made


class _Counting:
    """Backend eager, counted: a graph that a restart throws away never comes here."""

    def __init__(self) -> None:
        self.graphs = 0

    def __call__(self, gm: torch.fx.GraphModule, example_inputs: list[Any]) -> Any:
        self.graphs += 1
        return gm.forward


class _Codes:
    """The code objects that Dynamo compiled."""

    def __init__(self) -> None:
        self.seen: set[CodeType] = set()

    def compiled(self, code: CodeType, failed: bool, resumed: bool, began: float) -> None:
        if not failed:
            self.seen.add(code)

    def __getattr__(self, name: str) -> Any:
        return lambda *args: None  # the rest is for the recorder of the trace


def _causes(trace: Trace, before: int, names: Mapping[str, str]) -> tuple[Cause, ...]:
    found = [
        cause_of(reason, names, recompile.file)
        for recompile in trace.recompiles[before:]
        for reason in recompile.reasons
    ]
    return tuple(dict.fromkeys(found))


def _differences(expected: Observation, seen: Observation) -> tuple[str, str]:
    """What differs from eager, and the compiler's own error."""
    error = seen.error
    if error is not None and expected.error is None and _by_the_compiler(error.exception):
        return "", f"{error.type.rpartition('.')[2]}: {error.message}"
    differences = compare(expected, seen, exact=False).differences
    return next((each.words for each in differences if each.allowed is None), ""), ""


def _words(sizes: Sizes) -> str:
    return " ".join(f"{name}={size}" for name, size in sizes.items())


def _by_the_compiler(error: BaseException | None) -> bool:
    return error is not None and (dynamo.is_compiler_error(error) or isinstance(error, marks.REFUSED))


def _proof(course: Course, trace: Trace, codes: _Codes, names: Mapping[str, str], seconds: float) -> Proof:
    """In the state that the calls left behind, as in the user's process. A run of eager may take ``seconds``."""
    artifacts = guards.artifacts_of(course.program.target, codes.seen)
    if trace.breaks or artifacts is None:
        why = "the graph breaks; mend that first (onegraph fix)"
        return Proof(0, False, 0.0, missing=why if trace.breaks else "torch compiled more than one function")
    sizes, all_of_them = product_of(course.axes)
    first = course.program.calls[0]
    calls = [(each, resized(course.program, first, course.axes, each)) for each in sizes]
    began = time.perf_counter()
    refused = [(each, call) for each, call in calls if not artifacts.take(call)]
    took = time.perf_counter() - began
    code_file = next(iter(codes.seen)).co_filename
    for each, call in refused[:_ASKED_OF_EAGER]:
        if run_call(course.program.target, call, backward=False, seconds=seconds).error is None:
            reasons = artifacts.refusal(call)
            cause = cause_of(reasons[-1], names, code_file) if reasons else None
            return Proof(len(sizes), all_of_them, took, each, cause)
    return Proof(len(sizes), all_of_them, took, refused_by_eager=len(refused))
