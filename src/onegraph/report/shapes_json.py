"""The report of ``onegraph shapes`` as JSON: the fields of the result, with the verdicts that it derives."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from onegraph.report.json import of_programs
from onegraph.shapes import ShapesResult, Trial


def encoded(results: Sequence[ShapesResult], target: str) -> str:
    return of_programs(target, [_program(result) for result in results])


def _program(result: ShapesResult) -> dict[str, Any]:
    return {
        "program": result.program,
        "axes": [{"name": axis.name, "low": axis.low, "high": axis.high} for axis in result.axes],
        "one_artifact": result.best.shared,
        "best": result.best.name,
        "trials": [_trial(trial) for trial in result.trials],
        "refused_by_eager": msgspec.to_builtins(result.refused),
    }


def _trial(trial: Trial) -> dict[str, Any]:
    fields: dict[str, Any] = msgspec.to_builtins(trial)
    proof = {**fields["proof"], "holds": trial.proof.holds}
    return {**fields, "proof": proof, "one_artifact": trial.shared}
