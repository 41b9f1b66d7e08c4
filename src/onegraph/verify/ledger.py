"""Collects comparisons of many runs and sums them up: one check an aspect."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from onegraph.model import Check, Level
from onegraph.verify.compare import ASPECTS, Comparison
from onegraph.verify.values import Difference

_SHOWN = 3


class Ledger:
    """``name`` leads the name of every check ("uncompiled: gradients"). ``level`` is what may differ."""

    def __init__(self, name: str, level: Level) -> None:
        self.name = name
        self.level = level
        self.runs = 0
        self.max_abs = 0.0
        self.max_rel = 0.0
        self._failures: dict[str, list[str]] = {}
        self._notes: dict[str, dict[str, Level | None]] = {}
        self._unstable: dict[str, str] = {}
        self.instabilities: list[Comparison] = []

    def unstable(self, comparison: Comparison) -> None:
        """Eager compared with itself: what differs there can't be compared."""
        self.instabilities.append(comparison)
        for difference in comparison.differences:
            self._unstable.setdefault(difference.aspect, difference.words)

    def add(self, run: str, comparison: Comparison) -> bool:
        """Enter one run; whether it agrees at the level asked for."""
        self.runs += 1
        comparison = comparison.without(self._unstable)
        self.max_abs = max(self.max_abs, comparison.max_abs)
        self.max_rel = max(self.max_rel, comparison.max_rel)
        for difference in comparison.notes(self.level):
            assert difference.allowed is not None
            self._notes.setdefault(difference.aspect, {})[difference.words] = difference.allowed
        failures = comparison.failures(self.level)
        for difference in failures:
            self._failures.setdefault(difference.aspect, []).append(_located(run, difference))
        return not failures

    @property
    def failed(self) -> bool:
        return bool(self._failures)

    @property
    def unstable_aspects(self) -> frozenset[str]:
        """In which eager differs from itself."""
        return frozenset(self._unstable)

    def note(self, aspect: str, words: str) -> None:
        """A remark on an aspect that passes."""
        self._notes.setdefault(aspect, {})[words] = None

    def checks(self) -> Iterator[Check]:
        """One check for every aspect."""
        for aspect in ASPECTS:
            if aspect in self._failures:
                yield Check(f"{self.name}: {aspect}", False, _few(self._failures[aspect]))
            elif aspect in self._unstable:
                words = f"eager differs from itself: {self._unstable[aspect]}"
                yield Check(f"{self.name}: {aspect}", None, words)
            else:
                remarks = self._notes.get(aspect, {})
                notes = [f"{level}: {words}" if level else words for words, level in remarks.items()]
                yield Check(f"{self.name}: {aspect}", True, _few(notes) or f"{self.runs} runs agree")


def _located(run: str, difference: Difference) -> str:
    return f"{run}: {difference.words}"


def _few(words: Iterable[str]) -> str:
    all_ = list(dict.fromkeys(words))
    rest = f"; and {len(all_) - _SHOWN} more" if len(all_) > _SHOWN else ""
    return "; ".join(all_[:_SHOWN]) + rest
