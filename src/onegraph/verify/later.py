"""A mended program on a later call, of another sort than those that it was verified for.

The texts are compared uncompiled, with every condition forced both ways: on the next call of this sort the other
arm may run, and nothing is compiled then. What is captured of the mended text is run too, where it can be captured.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from typing import Any

from onegraph.model import Check, Evidence, FixResult, Level, Program, Repair
from onegraph.rewrite.swap import SwapError
from onegraph.rewrite.workspace import Workspace
from onegraph.state import Observation, World
from onegraph.verify.compare import Comparison, compare
from onegraph.verify.forcing import conditions
from onegraph.verify.input_types import MANY, elements
from onegraph.verify.ledger import Ledger
from onegraph.verify.uncompiled import compare_texts, world_of
from onegraph.verify.variations import Variation, recorded, variations


def later(program: Program, result: FixResult, level: Level, captured: Callable[..., Any]) -> Evidence:
    """Compare what ``result`` made of ``program`` with the original on the one call of ``program``.

    ``level`` is what the user allows: a repair that was exact on other calls may be relaxed on this one, not lossy.
    ``captured`` is the mended program under torch.compile with the backend "eager". Of a program that holds much, the
    call itself is compared and no variation of it. Nothing of the program's state moves, and nothing is forgotten
    that was compiled.
    """
    start = time.perf_counter()
    texts = Workspace(), Workspace({change.path: change for change in result.changes})
    needed, rounding = allowed(result.repairs)
    order = list(Level).index
    level = max(needed, min(level, Level.RELAXED, key=order), key=order)
    try:
        world = world_of(program, *texts)
    except (SwapError, SyntaxError) as error:
        return Evidence((Check("swap", False, f"the mended text can't run: {error}"),))
    ledger = Ledger("uncompiled", level)
    varied = variations(program, world) if elements(program, world) <= MANY else ()
    known = conditions(result.predicates)
    seen = compare_texts(program, *texts, known, world, ledger, rounding, varied=varied)
    checks = [*ledger.checks(), *seen.checks]
    ledgers = [ledger]
    if seen.runs and all(check.passed is not False for check in checks):
        (call,) = recorded(program)
        expected = next(iter(seen.runs.values()))  # the call as it is ran first
        ledgers.append(_captured(call, expected, captured, world, level, ledger.instabilities))
        checks += ledgers[-1].checks()
    return Evidence(
        checks=tuple(checks),
        inputs=sum(each.runs for each in ledgers),
        max_abs=max(each.max_abs for each in ledgers),
        max_rel=max(each.max_rel for each in ledgers),
        seconds=time.perf_counter() - start,
    )


def allowed(repairs: Iterable[Repair]) -> tuple[Level, bool]:
    """What the repairs that were applied may change: their level, and whether numbers may be rounded otherwise."""
    applied = [repair for repair in repairs if repair.level is not None]
    level = max(
        (repair.level or Level.EXACT for repair in applied), key=list(Level).index, default=Level.EXACT
    )
    return level, any(repair.rounding for repair in applied)


def _captured(
    call: Variation,
    expected: Observation,
    captured: Callable[..., Any],
    world: World,
    level: Level,
    unstable: Iterable[Comparison],
) -> Ledger:
    """What can't be captured or run is no difference: the call itself will say so."""
    ledger = Ledger("captured", level)
    for comparison in unstable:
        ledger.unstable(comparison)
    try:
        actual = call.run(captured, world)
    finally:
        world.restore()
    if actual.error is None:
        ledger.add(call.name, compare(expected, actual, exact=False))
    return ledger
