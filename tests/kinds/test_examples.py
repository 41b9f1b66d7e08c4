"""What every kind promises by its own examples and near misses."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from onegraph.kinds import registry
from onegraph.kinds.base import Example, Kind, Untouched
from onegraph.model import Candidate, Declined, Level
from onegraph.observe import observe
from onegraph.state import Observation, World, run_call
from onegraph.torch_private import dynamo
from onegraph.verify.compare import allows, compare

from .conftest import Load, Loaded

MOST_SITES = 12  # in one example

EXAMPLES = [
    pytest.param(kind, example, id=f"{kind.NAME}: {example.title}")
    for kind in registry.all_kinds()
    for example in kind.EXAMPLES
]
UNTOUCHED = [
    pytest.param(kind, near_miss, id=f"{kind.NAME}: {near_miss.title}")
    for kind in registry.all_kinds()
    for near_miss in kind.UNTOUCHED
]


@pytest.mark.parametrize(("kind", "example"), EXAMPLES)
def test_before_breaks_and_is_recognised(load: Load, kind: Kind, example: Example) -> None:
    assert kind.NAME in [site.kind for site in load(example.before).findings().sites]


@pytest.mark.parametrize(("kind", "example"), EXAMPLES)
def test_the_repair_gives_after_byte_for_byte(load: Load, kind: Kind, example: Example) -> None:
    text = example.before
    for _ in range(MOST_SITES):
        loaded = load(text)
        if kind.NAME not in [site.kind for site in loaded.findings().sites]:
            break
        first = _first(loaded.repairs(kind.NAME, example.level), example.level)
        assert isinstance(first, Candidate), first
        assert allows(example.level, first.level)
        assert first.text != text, "a repair that changes nothing"
        text = first.text
    assert text == example.after


def _first(proposed: list[Candidate | Declined], level: Level) -> Candidate | Declined:
    """What would be tried first; what is lossy comes when the others have failed."""
    lossy = (each for each in proposed if isinstance(each, Candidate) and each.level is Level.LOSSY)
    return next(lossy, proposed[0]) if level is Level.LOSSY else proposed[0]


@pytest.mark.parametrize(("kind", "example"), EXAMPLES)
@pytest.mark.parametrize("fullgraph", [False, True], ids=["default mode", "fullgraph"])
def test_after_is_one_graph(load: Load, kind: Kind, example: Example, fullgraph: bool) -> None:
    trace = observe(load(example.after).program, fullgraph=fullgraph)
    assert not trace.breaks
    assert not trace.frames_given_up
    assert not dynamo.is_compiler_error(trace.error) if trace.error else True
    assert len(trace.graphs) == 1 + len(trace.recompiles)


@pytest.mark.parametrize(("kind", "example"), EXAMPLES)
def test_before_and_after_agree_uncompiled(load: Load, kind: Kind, example: Example) -> None:
    before, after = load(example.before), load(example.after)
    _assert_alike(before, after, after.program.target, example, exact=True)


@pytest.mark.parametrize(("kind", "example"), EXAMPLES)
def test_after_compiled_agrees_with_eager(load: Load, kind: Kind, example: Example) -> None:
    before, after = load(example.before), load(example.after)
    torch._dynamo.reset()
    compiled = torch.compile(after.program.target, backend="aot_eager")
    _assert_alike(before, after, compiled, example, exact=False)


@pytest.mark.parametrize(("kind", "near_miss"), UNTOUCHED)
def test_near_miss_stays_untouched(load: Load, kind: Kind, near_miss: Untouched) -> None:
    loaded = load(near_miss.text)
    kinds = [site.kind for site in loaded.findings().sites]
    if not near_miss.reason:
        assert kind.NAME not in kinds
        return
    assert kind.NAME in kinds
    proposed = loaded.repairs(kind.NAME, Level.RELAXED)
    assert proposed, "neither a repair nor a reason"
    declined = [each for each in proposed if isinstance(each, Declined)]
    tried = [each for each in proposed if isinstance(each, Candidate)]
    assert all(each.symbols for each in tried), "proposes a repair"
    assert all(_fails(load(each.text)) for each in tried), "a symbol is a repair here"
    assert near_miss.reason in " ".join(each.reason for each in declined)
    assert all(each.next_step for each in declined)


def _fails(loaded: Loaded) -> bool:
    """Whether a symbol of the graph is to no avail: the program breaks elsewhere, or inductor gives up."""
    found = loaded.findings()
    return bool(found.sites) or found.trace.error is not None


def _assert_alike(before: Loaded, after: Loaded, target: object, example: Example, *, exact: bool) -> None:
    """Each recorded call on each side, from the same state: results, gradients, effects, exceptions."""
    here, there = before.program, after.program
    worlds = World(here), World(there)
    for world in worlds:
        world.snapshot()
    for mine, other in zip(here.calls, there.calls, strict=True):
        expected = run_call(here.target, mine, grad=example.grad, world=worlds[0])
        actual = run_call(target, other, grad=example.grad, world=worlds[1])  # type: ignore[arg-type]
        expected, actual = _in_one_module(expected, before), _in_one_module(actual, after)
        seen = compare(expected, actual, exact=exact, rounding=example.rounding)
        assert not seen.failures(example.level)


def _in_one_module(seen: Observation, loaded: Loaded) -> Observation:
    """Places of state under one name: each text is imported as a module of its own."""
    name = loaded.module.__name__
    return replace(seen, state={place.replace(name, "program"): value for place, value in seen.state.items()})
