"""The report of ``onegraph verify`` as JSON: the fields of the result, with the verdicts that it derives."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from onegraph.report.json import of_programs
from onegraph.verify import AsCompiled


def encoded(results: Sequence[AsCompiled], target: str) -> str:
    return of_programs(target, [_program(result) for result in results])


def _program(result: AsCompiled) -> dict[str, Any]:
    fields: dict[str, Any] = msgspec.to_builtins(result)
    for divergence, each in zip(fields["divergences"], result.divergences, strict=True):
        divergence["layer"] = each.layer
    return {**fields, "same": result.same}
