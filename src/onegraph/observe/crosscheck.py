"""Two witnesses of one run: the hooks and torch's structured trace. What only one of them saw is put in
words.

Dynamo writes the reason of a break into both, word for word. Breaks are therefore counted by the beginning
of their reason; recompiles and failed frames by their number.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

_INTRO = "Graph Break Reason: "
_LENGTH = 240


class CrossCheck:
    """Collects from both sides; ``disagreements`` compares."""

    def __init__(self) -> None:
        self._hooked: Counter[str] = Counter()
        self._traced: Counter[str] = Counter()

    def hooked_break(self, reason: str) -> None:
        self._hooked[f"break: {_beginning(reason)}"] += 1

    def hooked_recompile(self) -> None:
        self._hooked["recompile"] += 1

    def hooked_failure(self) -> None:
        self._hooked["frame that failed to compile"] += 1

    def traced(self, name: str, payload: Any) -> None:
        """One record of the structured trace."""
        if name == "recompile_reasons":
            self._traced["recompile"] += 1
        elif name == "dynamo_graph_break_reason" and _INTRO in payload:
            self._traced[f"break: {_beginning(payload.split(_INTRO, 1)[1])}"] += 1
        elif name == "compilation_metrics" and payload.get("fail_type"):
            self._traced["frame that failed to compile"] += 1

    def disagreements(self) -> tuple[str, ...]:
        keys = sorted(self._hooked.keys() | self._traced.keys())
        return tuple(
            f"{key}: the hooks saw {self._hooked[key]}, torch's structured trace {self._traced[key]}"
            for key in keys
            if self._hooked[key] != self._traced[key]
        )


def _beginning(reason: str) -> str:
    """The first lines of a reason on one line, without the operator name that the trace adds to some."""
    head = reason[:_LENGTH].split("\n  Explanation:", 1)[0].split("\n  Higher Order Operator:", 1)[0]
    return " ".join(head.split("\n\nUser code traceback", 1)[0].split())
