"""Runs: twice in a row, or of one text with its conditions under our hand."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from onegraph.rewrite.swap import swapped
from onegraph.rewrite.workspace import Workspace
from onegraph.state import Observation, World
from onegraph.verify.forcing import NAME, Condition, Forcing, Instrument
from onegraph.verify.variations import Variation

Twice = tuple[Observation, Observation]


def twice(target: Any, variation: Variation, world: World, seconds: float | None) -> Twice:
    """Two runs, the second in the state that the first left (a warning said once, a list that grows)."""
    first = variation.run(target, world, restore=False, seconds=seconds)
    if first.endless:
        world.restore()
        return first, first
    return first, variation.run(target, world, seconds=seconds)


@dataclass(frozen=True, slots=True)
class Run:
    """One planned run: a way to call, and what conditions are forced to."""

    variation: Variation
    outcomes: tuple[tuple[int, bool], ...] = ()

    def name(self, known: Sequence[Condition]) -> str:
        forced = [f"{known[number]} forced to {outcome}" for number, outcome in self.outcomes]
        return ", ".join([self.variation.name, *forced])


@contextmanager
def instrumented(
    text: Workspace, paths: Iterable[str], known: tuple[Condition, ...], *, after: bool
) -> Iterator[tuple[Forcing, set[int]]]:
    """Run a text with its conditions under our hand."""
    forcing = Forcing()
    instrument = Instrument(known, after=after)
    with swapped(text, instrument=dict.fromkeys(paths, instrument), inject={NAME: forcing}, reset=False):
        yield forcing, instrument.found
