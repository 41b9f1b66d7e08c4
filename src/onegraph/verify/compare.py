"""The difference between two runs, aspect by aspect, in words."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import torch

from onegraph.model import Level
from onegraph.state import Observation, Raised, same_random_state
from onegraph.state.observation import Warned
from onegraph.verify import text
from onegraph.verify.values import Difference, Measure
from onegraph.words import first_line

ASPECTS = (
    "exceptions",
    "outputs",
    "aliasing",
    "gradients",
    "arguments",
    "state",
    "random state",
    "stdout",
    "stderr",
    "logs",
    "warnings",
    "order of output",
)
_ORDER = (Level.EXACT, Level.RELAXED, Level.LOSSY)
# What torch says when a tensor that requires grad is formatted or converted; like grad_fn, it goes with the graph.
_GRAD_TO_NUMBER = "Converting a tensor with requires_grad=True to a scalar"


@dataclass(frozen=True, slots=True)
class Comparison:
    """Every difference found, and the largest numeric ones (0 where all bits agree)."""

    differences: tuple[Difference, ...]
    max_abs: float = 0.0
    max_rel: float = 0.0

    def failures(self, level: Level) -> tuple[Difference, ...]:
        """What may not differ at ``level``."""
        return tuple(d for d in self.differences if not allows(level, d.allowed))

    def notes(self, level: Level) -> tuple[Difference, ...]:
        """What differs and may."""
        return tuple(d for d in self.differences if allows(level, d.allowed))

    def without(self, aspects: Iterable[str]) -> Comparison:
        """The same, with some aspects left out."""
        left_out = frozenset(aspects)
        kept = tuple(d for d in self.differences if d.aspect not in left_out)
        return Comparison(kept, self.max_abs, self.max_rel)


def allows(level: Level, needed: Level | None) -> bool:
    """Whether ``level`` permits what needs the level ``needed`` (None: nothing permits it)."""
    return needed is not None and _ORDER.index(level) >= _ORDER.index(needed)


def compare(expected: Observation, actual: Observation, *, exact: bool, rounding: bool = False) -> Comparison:
    """How ``actual`` differs from ``expected``, which is eager's run.

    ``exact`` compares bit for bit and word for word (two uncompiled runs); else numbers are compared with the
    tolerances of ``torch.testing``, printed numbers to their last digit, and the compiler's own warnings are
    not counted. ``rounding`` makes it relaxed where tensors differ within those tolerances though ``exact``.
    """
    outputs = Measure(exact, "outputs", rounding=rounding)
    gradients = Measure(exact, "gradients", signed_zeros=False)
    arguments = Measure(exact, "arguments", rounding=rounding)
    state = Measure(exact, "state", rounding=rounding)
    found = [
        *_errors(expected.error, actual.error, exact, "exceptions", "the run"),
        *_arguments(expected, actual, arguments),
        *_state(expected, actual, state),
        *_random(expected.random, actual.random),
        *_texts(expected, actual, exact),
    ]
    if expected.error is None and actual.error is None:
        found += [
            *outputs.differences(expected.output, actual.output, "output"),
            *_aliases(expected.aliases, actual.aliases),
            *_errors(expected.gradient_error, actual.gradient_error, exact, "gradients", "the backward pass"),
        ]
        if expected.gradient_error is None and actual.gradient_error is None:
            found += _gradients(expected.gradients, actual.gradients, gradients)
    measures = (outputs, gradients, arguments, state)
    return Comparison(
        tuple(sorted(found, key=lambda difference: ASPECTS.index(difference.aspect))),
        max(measure.max_abs for measure in measures),
        max(measure.max_rel for measure in measures),
    )


def _errors(
    expected: Raised | None, actual: Raised | None, exact: bool, aspect: str, what: str
) -> Iterator[Difference]:
    if expected is None and actual is None:
        return
    if actual is None:
        assert expected is not None
        yield Difference(aspect, f"{what} raises nothing, eager raises {_raised(expected)}")
    elif expected is None:
        yield Difference(aspect, f"{what} raises {_raised(actual)}, eager does not raise")
    elif exact or expected.type == actual.type:
        same_text = text.normal(expected.message) == text.normal(actual.message)
        if expected.type != actual.type or not same_text:
            yield Difference(aspect, f"{what} raises {_raised(actual)}, eager {_raised(expected)}")
    elif expected.message and text.normal(expected.message) in text.normal(actual.message):
        both = _short(expected.message)
        words = f"{what} raises {actual.type}, eager {expected.type}, both saying {both!r}"
        yield Difference(aspect, words, Level.RELAXED)
    else:
        yield Difference(aspect, f"{what} raises {_raised(actual)}, eager {_raised(expected)}")


def _raised(error: Raised) -> str:
    return f"{error.type}({_short(error.message)!r})"


def _short(message: str) -> str:
    line = first_line(message)
    return line if len(line) <= 100 else line[:97] + "..."


def _arguments(expected: Observation, actual: Observation, measure: Measure) -> Iterator[Difference]:
    yield from measure.differences(expected.inputs, actual.inputs, "")


def _state(expected: Observation, actual: Observation, measure: Measure) -> Iterator[Difference]:
    before, after = expected.state, actual.state
    for place in sorted(before.keys() | after.keys()):
        if place not in after:
            yield Difference("state", f"{place} is not changed, eager changes it")
        elif place in before:
            yield from measure.differences(before[place], after[place], place)
        elif (
            place in actual.created
        ):  # a memo: whether it is there shows in the next run, which is compared too
            yield Difference(
                "state", f"{place} is made already, eager makes it later or never", Level.RELAXED
            )
        else:
            yield Difference("state", f"{place} is changed, eager leaves it")


def _random(expected: Mapping[str, Any], actual: Mapping[str, Any]) -> Iterator[Difference]:
    for stream in sorted(expected.keys() & actual.keys()):
        if not same_random_state(expected[stream], actual[stream]):
            yield Difference(
                "random state", f"another number of values is drawn from {stream}'s random stream"
            )


def _aliases(
    expected: frozenset[tuple[str, str, str]], actual: frozenset[tuple[str, str, str]]
) -> Iterator[Difference]:
    """A copy where eager returns an alias may be wanted (relaxed); an alias where eager copies never is."""
    shared = {(place, other) for place, _, other in actual}
    was_shared = {(place, other) for place, _, other in expected}
    for place, how, other in sorted(expected - actual):
        now = "only shares its memory" if (place, other) in shared else "is a copy"
        yield Difference("aliasing", f"{place} {now}, in eager it {how} {other}", Level.RELAXED)
    for place, how, other in sorted(actual - expected):
        if (place, other) not in was_shared:
            yield Difference("aliasing", f"{place} {how} {other}, in eager it does not")


def _gradients(
    expected: Mapping[str, torch.Tensor | None], actual: Mapping[str, torch.Tensor | None], measure: Measure
) -> Iterator[Difference]:
    for leaf in [*expected, *(leaf for leaf in actual if leaf not in expected)]:
        theirs, ours = expected.get(leaf), actual.get(leaf)
        if theirs is not None and ours is not None:
            yield from measure.differences(theirs, ours, f"the gradient of {leaf}")
        elif ours is not None:
            if bool((ours == 0).all()):
                words = f"{leaf} has a zero gradient where eager leaves None"
                yield Difference("gradients", words, Level.RELAXED)
            else:
                yield Difference("gradients", f"a gradient reaches {leaf}, in eager none does")
        elif theirs is not None:
            if bool((theirs == 0).all()):
                words = f"the gradient of {leaf} is None where eager gives zeros"
                yield Difference("gradients", words, Level.RELAXED)
            else:
                yield Difference("gradients", f"no gradient reaches {leaf}, in eager one does")


def _texts(expected: Observation, actual: Observation, exact: bool) -> Iterator[Difference]:
    for channel in ("stdout", "stderr"):
        for words, allowed in text.differences(getattr(expected, channel), getattr(actual, channel), exact):
            lost = _only_lost(getattr(expected, channel).splitlines(), getattr(actual, channel).splitlines())
            yield Difference(channel, words, allowed or _if_lost(lost))
    logs = [f"{r.logger} {r.level}: {r.message}" for r in expected.logs]
    yield from _records("logs", logs, [f"{r.logger} {r.level}: {r.message}" for r in actual.logs], exact)
    theirs = [f"{w.category}: {w.message}" for w in expected.warnings]
    ours = [f"{w.category}: {w.message}" for w in actual.warnings]
    if not exact:
        ours = _without_more(ours, [w.torch for w in actual.warnings], theirs)
        theirs = _without_more(theirs, [_of_a_kernel(w) for w in expected.warnings], ours)
    if not exact and (gone := [words for words in theirs if _GRAD_TO_NUMBER in words and words not in ours]):
        theirs = [words for words in theirs if words not in gone]
        words = "torch doesn't warn that a tensor which requires grad becomes a number: an op gets it without grad"
        yield Difference("warnings", words, Level.RELAXED)
    yield from _records("warnings", theirs, ours, exact)
    if expected.order != actual.order and set(expected.order) == set(actual.order):
        yield Difference(
            "order of output", f"{' '.join(actual.order)}, eager: {' '.join(expected.order)}", _moved(exact)
        )


def _of_a_kernel(warning: Warned) -> bool:
    """Whether C++ code of torch gave it: how often depends on which kernels run, and where in the graph."""
    return warning.torch and "(Triggered internally at " in warning.message


def _without_more(warnings: list[str], torchs: list[bool], others: list[str]) -> list[str]:
    """Without those of torch's own that the other run does not have, or not as often: a graph has other places to
    warn.
    """
    left = Counter(others)
    kept = []
    for words, own in zip(warnings, torchs, strict=True):
        if not own or left[words] > 0:
            kept.append(words)
        left[words] -= 1
    return kept


def _records(aspect: str, expected: list[str], actual: list[str], exact: bool) -> Iterator[Difference]:
    if len(expected) == len(actual):
        paired = [list(text.differences(a, b, exact)) for a, b in zip(expected, actual, strict=True)]
        if all(allowed is not None for found in paired for _, allowed in found):
            yield from (Difference(aspect, words, allowed) for found in paired for words, allowed in found)
            return
    lost, new = Counter(expected) - Counter(actual), Counter(actual) - Counter(expected)
    if not lost and not new:
        yield Difference(
            aspect, f"in another order: {actual[0]!r} comes first, in eager {expected[0]!r}", _moved(exact)
        )
    for record in lost:
        yield Difference(aspect, f"eager's {record!r} is missing", _if_lost(_only_lost(expected, actual)))
    for record in new:
        yield Difference(aspect, f"{record!r} is not in eager's")


def _moved(exact: bool) -> Level | None:
    """Order may move in a compiled program; two uncompiled runs of right texts have the same order."""
    return None if exact else Level.RELAXED


def _only_lost(expected: list[str], actual: list[str]) -> bool:
    """Whether every line is one of eager's, in eager's order."""
    rest = iter(expected)
    return all(line in rest for line in actual)


def _if_lost(only_lost: bool) -> Level | None:
    """Words that are dropped, and nothing else, are what level lossy is about."""
    return Level.LOSSY if only_lost else None
