"""The report of ``onegraph verify`` as JSON: the fields of the result, with the verdicts that it derives."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import metadata
from typing import Any

import msgspec

from onegraph.report.json import indented
from onegraph.verify import AsCompiled


def encoded(results: Sequence[AsCompiled], target: str) -> str:
    report = {
        "target": target,
        "torch": metadata.version("torch"),
        "onegraph": metadata.version("onegraph"),
        "programs": [_program(result) for result in results],
    }
    return indented(report)


def _program(result: AsCompiled) -> dict[str, Any]:
    fields: dict[str, Any] = msgspec.to_builtins(result)
    for divergence, each in zip(fields["divergences"], result.divergences, strict=True):
        divergence["layer"] = each.layer
    return {**fields, "same": result.same}
