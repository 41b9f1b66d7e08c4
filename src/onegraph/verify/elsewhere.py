"""Calls unlike the recorded ones: what a repair does differently there is said, it doesn't fail the repair.

``torch.where`` gives both sides one dtype and one shape. On the recorded calls they agree; with another dtype,
they may not. Both outcomes of the conditions count for that: each call is made as it is, and with all forced.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from onegraph.model import Level, Program
from onegraph.state import Observation, World
from onegraph.verify.compare import compare
from onegraph.verify.forcing import Condition, Forcing
from onegraph.verify.runs import Run
from onegraph.verify.variations import Variation


def accepted(
    ways: Iterable[Variation],
    known: Sequence[Condition],
    program: Program,
    world: World,
    forcing: Forcing,
    endless: set[str],
) -> dict[Run, Observation]:
    """What the text that is installed does in each way that it accepts, on which it ends."""
    return {run: seen for way in ways for run, seen in _runs(way, known, program, world, forcing, endless)}


def differing(
    expected: Mapping[Run, Observation],
    program: Program,
    world: World,
    forcing: Forcing,
    level: Level,
    rounding: bool = False,
    unstable: Iterable[str] = (),
) -> tuple[str, ...]:
    """In words, where the text that is installed does otherwise. ``unstable``: aspects that nothing is known of."""
    found: dict[str, str] = {}
    for run, seen in expected.items():
        if run.variation.name in found:
            continue
        forcing.start(dict(run.outcomes), varied=True)
        actual = run.variation.run(program.target, world, seconds=world.patience.seconds)
        comparison = compare(seen, actual, exact=True, rounding=rounding)
        for difference in comparison.without(unstable).failures(level)[:1]:
            found[run.variation.name] = difference.words
    return tuple(f"called with {name}: {words}" for name, words in found.items())


def _runs(
    way: Variation,
    known: Sequence[Condition],
    program: Program,
    world: World,
    forcing: Forcing,
    endless: set[str],
) -> Iterator[tuple[Run, Observation]]:
    """As it is, then with all conditions forced to an outcome that they had not."""
    plans: list[tuple[tuple[int, bool], ...]] = [()]
    for outcomes in plans:
        run = Run(way, outcomes)
        if run.name(known) in endless:
            continue
        forcing.start(dict(outcomes), varied=True)
        observed = way.run(program.target, world, seconds=world.patience.seconds)
        if observed.endless or forcing.ran_away:
            endless.add(run.name(known))
        elif observed.error is None:
            yield run, observed
            if not outcomes and known:
                seen = set().union(*forcing.seen.values())
                plans += [tuple((n, o) for n in range(len(known))) for o in (True, False) if seen != {o}]
