"""The program as the user compiles it, against eager: what torch.compile itself gets wrong, with nothing rewritten.

Known faults of this sort: an ``except`` that the compiled program never enters, an environment variable or a number
that is held fast, random numbers of another stream, gradients of a loop that makes no trip.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

import torch

from onegraph.model import Level, Program, Span, Trace
from onegraph.observe import watch
from onegraph.progress import say
from onegraph.state import Observation, World
from onegraph.torch_private import backends as engines
from onegraph.torch_private import dynamo
from onegraph.verify.compare import compare
from onegraph.verify.runs import Twice, twice
from onegraph.verify.surroundings import Read, environment_reads, other_numbers, with_variable
from onegraph.verify.variations import Variation, recorded, variations
from onegraph.words import first_line

# What each adds to the one before, so that the first one that differs names the culprit.
LAYERS = {"eager": "Dynamo", "aot_eager": "AOTAutograd", "inductor": "inductor"}
_OF_INDUCTOR = ("mode", "options")
_ARTIFACTS = 64  # every variation may need one


@dataclass(frozen=True, slots=True)
class Divergence:
    """One aspect in which compiled calls differ from eager, and the first layer of the compiler that makes it so."""

    aspect: str
    backend: str
    runs: tuple[str, ...]
    words: str  # of the first run
    place: str = ""  # "file:line", where the line that is held fast is known

    @property
    def layer(self) -> str:
        return LAYERS.get(self.backend, self.backend)


@dataclass(frozen=True, slots=True)
class AsCompiled:
    """What was compared, and what differs. ``refused`` and ``missing`` were not compared, and say why."""

    program: str
    backends: tuple[str, ...]
    runs: int
    compiled: bool  # whether any frame was
    breaks: int  # places where the graph breaks
    divergences: tuple[Divergence, ...] = ()
    refused: tuple[str, ...] = ()  # the compiler raises where eager does not
    unstable: tuple[str, ...] = ()  # eager differs from itself
    missing: str = ""  # why inductor can't run here
    max_abs: float = 0.0
    max_rel: float = 0.0
    seconds: float = 0.0

    @property
    def same(self) -> bool:
        """Whether everything that was compared agrees."""
        return not self.divergences and not self.refused


@dataclass(frozen=True, slots=True, eq=False)
class _Plan:
    """One way to call the program, and an environment variable that has another value meanwhile."""

    variation: Variation
    read: Read | None = None

    @property
    def name(self) -> str:
        return self.variation.name if self.read is None else f"{self.read.name}={self.read.other}"

    def run(self, target: Callable[..., Any], world: World, seconds: float | None) -> Twice:
        if self.read is not None:
            target = with_variable(target, self.read.name, self.read.other)
        return twice(target, self.variation, world, seconds)


def as_compiled(program: Program) -> AsCompiled:
    """Run the recorded calls and variations of them, each twice, in eager mode and compiled with the user's keywords.

    Before the user's own backend, those that compile less: ``eager`` and ``aot_eager``. State and random streams are
    as before afterwards; whatever was compiled is forgotten. Inductor draws eager's random numbers meanwhile
    (``fallback_random``), so that dropout can be compared.
    """
    start = time.perf_counter()
    world = World(program)
    world.snapshot()
    judge = _Judge()
    missing, backends = "", []
    try:
        say("eager")
        expected = _expected(program, world, judge)
        for name, backend in _backends(program):
            if backend == "inductor" and (missing := engines.inductor_missing()):
                continue
            say(f"compiled by {name}")
            backends.append(name)
            with watch() as watching:
                judge.enter(name, expected, _results(program, world, backend, expected))
            judge.seen(watching.trace())
    finally:
        world.restore()
        dynamo.reset()
    return judge.verdict(
        program.name,
        tuple(backends),
        runs=len(expected),
        missing=missing,
        seconds=time.perf_counter() - start,
    )


def _backends(program: Program) -> Iterator[tuple[str, Any]]:
    own = program.options.get("backend") or "inductor"
    name = own if isinstance(own, str) else getattr(own, "__name__", type(own).__name__)
    yield from ((layer, layer) for layer in LAYERS if layer not in (name, "inductor"))
    yield name, own


# --- eager --------------------------------------------------------------------------------------------------


def _expected(program: Program, world: World, judge: _Judge) -> dict[_Plan, Twice]:
    """Eager's own runs. What eager rejects, and what has no end, is no run."""
    expected: dict[_Plan, Twice] = {}
    with environment_reads() as reads, world.patience.learning():
        for variation in recorded(program):
            plan = _Plan(variation)
            expected[plan] = plan.run(program.target, world, None)
    for plan, (first, _) in list(expected.items()):
        judge.unstable(first, plan.variation.run(program.target, world))
    others = chain(other_numbers(program), variations(program, world))
    call = recorded(program)[:1]
    switched = (_Plan(variation, read) for read in reads.values() for variation in call)
    for plan in (*switched, *map(_Plan, others)):
        seen = plan.run(program.target, world, world.patience.seconds)
        if not any(each.endless for each in seen) and not (plan.variation.resized and seen[0].error):
            expected[plan] = seen
    return expected


# --- compiled -----------------------------------------------------------------------------------------------


def _results(
    program: Program, world: World, backend: Any, expected: Mapping[_Plan, Twice]
) -> dict[_Plan, Twice]:
    options = {name: value for name, value in program.options.items() if name not in ("backend", "disable")}
    seconds = world.patience.compiling
    if backend in ("eager", "aot_eager"):
        options = {name: value for name, value in options.items() if name not in _OF_INDUCTOR}
    else:
        seconds = world.patience.generating
    dynamo.reset()
    limits = {"recompile_limit": _ARTIFACTS, "accumulated_recompile_limit": _ARTIFACTS * 4}
    with dynamo.patched(**limits), engines.comparable_inductor():
        target = torch.compile(program.target, backend=backend, **options)
        return {plan: plan.run(target, world, seconds) for plan in expected}


# --- judgement ----------------------------------------------------------------------------------------------


class _Judge:
    """Collects what differs, each thing for the first backend that shows it."""

    def __init__(self) -> None:
        self._unstable: dict[str, str] = {}
        self._known: set[tuple[str, str]] = set()  # run and aspect
        self._found: dict[tuple[str, str], list[tuple[_Plan, str, str]]] = {}  # by backend and aspect
        self._refused: dict[str, None] = {}
        self._compiled = False
        self._sites: set[Span] = set()
        self._max_abs = self._max_rel = 0.0

    def unstable(self, one: Observation, other: Observation) -> None:
        for difference in compare(one, other, exact=True).differences:
            self._unstable.setdefault(difference.aspect, difference.words)

    def seen(self, trace: Trace) -> None:
        self._compiled |= bool(trace.compiled_calls)
        self._sites |= {each.stack[-1].span for each in trace.breaks if each.stack and not each.consequence}

    def enter(self, backend: str, expected: Mapping[_Plan, Twice], actual: Mapping[_Plan, Twice]) -> None:
        for plan, wanted in expected.items():
            for number, (theirs, ours) in enumerate(zip(wanted, actual[plan], strict=True)):
                self._enter(backend, plan, f"{plan.name}{', again' if number else ''}", theirs, ours)

    def _enter(self, backend: str, plan: _Plan, run: str, wanted: Observation, seen: Observation) -> None:
        raised = seen.error.exception if seen.error is not None and wanted.error is None else None
        if raised is not None and dynamo.is_compiler_error(raised):
            self._refused.setdefault(f"{run}: {first_line(str(raised))}")
            return
        comparison = compare(wanted, seen, exact=False).without(self._unstable)
        failures = comparison.failures(Level.RELAXED)
        if not failures:
            self._max_abs = max(self._max_abs, comparison.max_abs)
            self._max_rel = max(self._max_rel, comparison.max_rel)
        for difference in failures:
            if (run, difference.aspect) not in self._known:
                self._found.setdefault((backend, difference.aspect), []).append((plan, run, difference.words))
        self._known |= {(run, difference.aspect) for difference in failures}

    def verdict(self, program: str, backends: Sequence[str], **known: Any) -> AsCompiled:
        divergences = []
        for (backend, aspect), found in self._found.items():
            plan, _, words = found[0]
            runs = tuple(dict.fromkeys(run for _, run, _ in found))
            place = plan.read.place if plan.read is not None else ""
            divergences.append(Divergence(aspect, backend, runs, words, place))
        return AsCompiled(
            program,
            tuple(backends),
            compiled=self._compiled,
            breaks=len(self._sites),
            divergences=tuple(divergences),
            refused=tuple(self._refused),
            unstable=tuple(f"{aspect}: {words}" for aspect, words in self._unstable.items()),
            max_abs=self._max_abs,
            max_rel=self._max_rel,
            **known,
        )
