"""What ``onegraph shapes`` finds out."""

from __future__ import annotations

from dataclasses import dataclass

from onegraph.diagnose.causes import Cause
from onegraph.shapes.axes import Axis, Sizes


@dataclass(frozen=True, slots=True)
class Step:
    """One call of a trial. ``sizes`` is empty for a call as it was recorded."""

    name: str
    sizes: Sizes
    causes: tuple[Cause, ...] = ()  # of the recompile that it brought; the newest artifact's guard first
    difference: str = ""  # from eager, in words
    error: str = ""  # of the compiler


@dataclass(frozen=True, slots=True)
class Proof:
    """What the guards say of the asked ranges, without running the model.

    ``counterexample`` are the smallest sizes that no artifact takes though eager runs with them.
    """

    checked: int
    exhaustive: bool
    seconds: float
    counterexample: Sizes | None = None
    cause: Cause | None = None
    refused_by_eager: int = 0
    missing: str = ""  # why nothing could be proven

    @property
    def holds(self) -> bool:
        return not self.missing and self.counterexample is None


@dataclass(frozen=True, slots=True)
class Trial:
    """The program over all sizes, compiled with one setting."""

    name: str
    code: tuple[str, ...]  # the lines that a user writes for it
    artifacts: int
    steps: tuple[Step, ...]
    limit_reached: bool
    breaks: int
    proof: Proof

    @property
    def recompiles(self) -> tuple[Step, ...]:
        return tuple(step for step in self.steps if step.causes and not step.error)

    @property
    def wrong(self) -> tuple[Step, ...]:
        return tuple(step for step in self.steps if step.difference)

    @property
    def failed(self) -> tuple[Step, ...]:
        return tuple(step for step in self.steps if step.error)

    @property
    def shared(self) -> bool:
        """Whether one artifact serves everything that was asked, with the results of eager."""
        return self.artifacts == 1 and self.proof.holds and not (self.wrong or self.failed or self.breaks)


@dataclass(frozen=True, slots=True)
class ShapesResult:
    program: str
    axes: tuple[Axis, ...]
    trials: tuple[Trial, ...]  # the first one is the program as it is
    refused: tuple[Step, ...]  # sizes that eager itself refuses

    @property
    def best(self) -> Trial:
        """The first trial that needs one artifact; else the one that needs fewest and is right."""
        return next((trial for trial in self.trials if trial.shared), min(self.trials, key=_rank))


def _rank(trial: Trial) -> tuple[int, bool, int]:
    return len(trial.wrong) + len(trial.failed), not trial.proof.holds, trial.artifacts
