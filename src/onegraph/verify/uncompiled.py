"""The text after a repair against the text before it, both uncompiled, bit for bit: milliseconds, and most
faults show.

Every recorded call and variation runs in both texts. Then every condition of the repair is forced to the
outcome that no input gave it, in both texts: arms that no input reaches are compared too.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace

from onegraph.model import Check, Evidence, Level, Predicate, Program
from onegraph.rewrite.swap import SwapError, swapped
from onegraph.rewrite.workspace import Workspace
from onegraph.state import Observation, Reach, World
from onegraph.verify.compare import Comparison, compare
from onegraph.verify.elsewhere import accepted, differing
from onegraph.verify.forcing import Condition, Forcing, conditions
from onegraph.verify.input_types import MANY, elements, input_types
from onegraph.verify.ledger import Ledger
from onegraph.verify.runs import Run, instrumented
from onegraph.verify.variations import Variation, recorded, variations

_NAMED = 3  # runs


@dataclass(slots=True)
class Before:
    """What the text before did: the runs that count, in order, and which arms they reached."""

    runs: dict[Run, Observation] = field(default_factory=dict)
    by_input: dict[int, set[bool]] = field(default_factory=dict)
    by_force: dict[int, set[bool]] = field(default_factory=dict)
    by_run: dict[Variation, dict[int, set[bool]]] = field(default_factory=dict)
    found: set[int] = field(default_factory=set)
    checks: list[Check] = field(default_factory=list)  # about the whole: the swap, the arms
    others: dict[Run, Observation] = field(default_factory=dict)  # with inputs of other types
    differing: tuple[str, ...] = ()  # what of them comes out differently, in words

    def unreached(self, count: int, runs: Iterable[Variation]) -> list[int]:
        """The conditions, of ``count``, that these runs alone don't give both outcomes."""
        seen = [self.by_run.get(run, {}) for run in runs]
        return [
            n for n in range(count) if set().union(*(each.get(n, set()) for each in seen)) != {True, False}
        ]


def uncompiled(
    program: Program,
    before: Workspace,
    after: Workspace,
    predicates: Iterable[Predicate] = (),
    *,
    level: Level = Level.RELAXED,
    rounding: bool = False,
    endless: set[str] | None = None,
) -> Evidence:
    """Compare two texts of ``program``, uncompiled.

    ``level`` is what may differ: at "exact" nothing; at "relaxed" aliasing, strides, a zero gradient for
    None, and the grad_fn of a printed tensor; at "lossy" words that are dropped too. ``rounding``: a relaxed
    repair that computes the same in other operations, so that numbers agree within torch.testing's tolerances
    only, and a NaN may come out elsewhere. ``endless`` has the names of runs that did not end, in an earlier
    comparison; more are added. Nothing of the program's state moves.
    """
    start = time.perf_counter()
    try:
        world = world_of(program, before, after)
    except (SwapError, SyntaxError) as error:
        return Evidence((Check("uncompiled: swap", False, f"the text can't run: {error}"),))
    ledger = Ledger("uncompiled", level)
    known = conditions(predicates)
    ways = input_types(program, world)
    seen = compare_texts(program, before, after, known, world, ledger, rounding, ways, endless)
    checks = [*ledger.checks(), *seen.checks]
    if all(check.passed is not False for check in checks):
        checks.insert(0, _on_other_types(program, world, seen))
    return Evidence(
        checks=tuple(checks),
        inputs=ledger.runs,
        max_abs=ledger.max_abs,
        max_rel=ledger.max_rel,
        seconds=time.perf_counter() - start,
        differing=seen.differing,
    )


def _on_other_types(program: Program, world: World, seen: Before) -> Check:
    """A remark, whatever came out: the recorded calls are what a repair has to get right."""
    name = "uncompiled: inputs of other types"
    if program.calls and (count := elements(program, world)) > MANY:
        return Check(name, True, f"not tried: the program holds {count:,} elements")
    accepted = len({run.variation for run in seen.others})
    if not seen.differing:
        return Check(name, True, f"{accepted} accepted, all agree")
    return Check(name, True, f"{len(seen.differing)} of {accepted} differ: {'; '.join(seen.differing[:3])}")


def world_of(program: Program, *texts: Workspace) -> World:
    """A snapshot of everything that the program can change with any of the texts. Raises SwapError."""
    walks = []
    for text in texts:
        if not text.changes():
            continue  # the world's own walk
        with swapped(text, reset=False):
            walks.append(Reach(program))
    world = World(program)
    world.snapshot(*walks)
    return world


def compare_texts(
    program: Program,
    before: Workspace,
    after: Workspace,
    known: tuple[Condition, ...],
    world: World,
    ledger: Ledger,
    rounding: bool = False,
    others: Iterable[Variation] = (),
    endless: set[str] | None = None,
    varied: Sequence[Variation] | None = None,
) -> Before:
    """Run both texts and enter every run in the ledger; ``world`` holds a snapshot. The text that runs first
    says which runs there are: the recorded calls and variations of them (``varied``, else the usual ones).
    What differs on the ``others`` is noted apart. A run that has no end in the text that runs first is none, and
    its name goes to ``endless``; in the other text it is a difference.
    """
    endless = set() if endless is None else endless
    paths = {change.path for text in (before, after) for change in text.changes()} if known else set()
    seen = Before()
    try:
        varied = variations(program, world) if varied is None else varied
        _run_before(program, before, paths, known, world, ledger, seen, varied, others, endless)
        with instrumented(after, paths, known, after=True) as (forcing, found):
            for run, expected in seen.runs.items():
                forcing.start(dict(run.outcomes))
                actual = run.variation.run(program.target, world, seconds=world.patience.seconds)
                comparison = compare(expected, actual, exact=True, rounding=rounding)
                if rounding:
                    comparison = _without_noise(run, known, comparison, ledger)
                ledger.add(run.name(known), comparison)
            if not ledger.failed:
                aspects = ledger.unstable_aspects
                seen.differing = differing(
                    seen.others, program, world, forcing, ledger.level, rounding, aspects
                )
            seen.checks += [*_arms(known, seen, found), *_without_end(endless, ledger.name)]
    except (SwapError, SyntaxError) as error:
        seen.checks.append(Check("uncompiled: swap", False, f"the text can't run: {error}"))
    finally:
        world.restore()
    return seen


def _without_noise(
    run: Run, known: tuple[Condition, ...], comparison: Comparison, ledger: Ledger
) -> Comparison:
    """Noted, not wrong: other operations may carry a NaN to other elements (a kernel of attention does), and where the
    gradients of large numbers cancel, they leave what rounding leaves."""
    noise = [
        difference
        for difference in comparison.differences
        if difference.distance is not None
        and (run.variation.nan or (run.variation.large and difference.aspect == "gradients"))
    ]
    for difference in noise:
        ledger.note(difference.aspect, f"{run.name(known)}: {difference.words}")
    return replace(comparison, differences=tuple(d for d in comparison.differences if d not in noise))


def _run_before(
    program: Program,
    text: Workspace,
    paths: Iterable[str],
    known: tuple[Condition, ...],
    world: World,
    ledger: Ledger,
    seen: Before,
    varied: Sequence[Variation],
    others: Iterable[Variation],
    endless: set[str],
) -> None:
    calls = recorded(program)
    with instrumented(text, paths, known, after=False) as (forcing, found):
        for variation in (*calls, *varied):
            if variation.name in endless:
                continue
            observed = _observe(Run(variation), program, world, forcing)
            if observed.endless or forcing.ran_away:
                endless.add(variation.name)
                continue
            if variation.resized and observed.error is not None:
                continue
            seen.runs[Run(variation)] = observed
            seen.by_run[variation] = dict(forcing.seen)
            for number, outcomes in forcing.seen.items():
                seen.by_input.setdefault(number, set()).update(outcomes)
        for variation in calls:
            again = _observe(Run(variation), program, world, forcing)
            ledger.unstable(compare(seen.runs[Run(variation)], again, exact=True))
        for variation in (*(v for v in varied if v.gradients), *calls):
            _force(variation, program, world, forcing, seen, known, endless)
        seen.others = accepted(others, known, program, world, forcing, endless)
        seen.found = found


def _observe(run: Run, program: Program, world: World, forcing: Forcing) -> Observation:
    forcing.start(dict(run.outcomes), varied=run.variation.varied)
    if run.variation.varied or run.outcomes:
        return run.variation.run(program.target, world, seconds=world.patience.seconds)
    with world.patience.learning():
        return run.variation.run(program.target, world)


def _force(
    variation: Variation,
    program: Program,
    world: World,
    forcing: Forcing,
    seen: Before,
    known: Sequence[Condition],
    endless: set[str],
) -> None:
    """Force every condition both ways, where an earlier call did not yet.

    One in an arm not taken is reached by forcing the others.
    """
    count = len(known)
    for number, outcome in itertools.product(range(count), (True, False)):
        if outcome in seen.by_force.get(number, ()):
            continue
        others = [other for other in range(count) if other != number]
        for rest in ({}, dict.fromkeys(others, True), dict.fromkeys(others, False)):
            run = Run(variation, tuple(sorted({**rest, number: outcome}.items())))
            if run.name(known) in endless:
                continue
            observed = seen.runs.get(run) or _observe(run, program, world, forcing)
            if observed.endless or forcing.ran_away:
                endless.add(run.name(known))
                continue
            if run in seen.runs or number in forcing.seen:
                seen.runs[run] = observed
                seen.by_force.setdefault(number, set()).add(outcome)
                break


def _arms(known: Sequence[Condition], seen: Before, found_after: set[int]) -> Iterator[Check]:
    """Which arms ran, by inputs or by force only."""
    for number, condition in enumerate(known):
        name = f"both arms: {condition}"
        if number not in seen.found or number not in found_after:
            where = "before" if number not in seen.found else "after"
            yield Check(name, None, f"the condition was not found in the text {where} the repair")
            continue
        real, forced = seen.by_input.get(number, set()), seen.by_force.get(number, set())
        if real | forced != {True, False}:
            yield Check(name, None, "no input and no forced condition leads here")
            continue
        words = [f"{arm} {'by inputs' if arm in real else 'by force only'}" for arm in (True, False)]
        yield Check(name, True, ", ".join(words))


def _without_end(endless: Iterable[str], name: str) -> Iterator[Check]:
    """A remark: the program itself does not end there, so that nothing can be compared."""
    if names := sorted(endless):
        more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
        words = f"the program does not come to an end with: {', '.join(names[:_NAMED])}{more}"
        yield Check(f"{name}: runs without end", True, f"{words}. Nothing was compared there.")
