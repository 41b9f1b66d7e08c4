"""The ways to run a program that are compared. All are live at once, so that they can take turns."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

from onegraph.deliver import compile as mending_compile
from onegraph.model import Findings, FixResult, Level, Program


@dataclass(frozen=True, slots=True)
class Arm:
    """``target`` takes the arguments of the program; ``breaks`` are the statements that break its graph."""

    name: str
    target: Callable[..., Any]
    breaks: int | None  # None in eager mode


def arms(program: Program, result: FixResult) -> tuple[Arm, ...]:
    """Eager, compiled with the user's own keywords, and, where something was mended, the mended program with the
    same keywords. ``result`` is what ``fix`` made of the program."""

    def fixed(_: Program, *, level: Level) -> FixResult:
        return result

    found = [
        Arm("eager", program.target, None),
        Arm("as it is", torch.compile(program.target, **program.options), _breaks(result.before)),
    ]
    if result.changes:
        options = {"fullgraph": False, **program.options}
        mended = mending_compile(program.target, strict=False, fix=fixed, **options)
        found.append(Arm("mended", mended, _breaks(result.after)))
    return tuple(found)


def _breaks(findings: Findings) -> int:
    return sum(not site.intended for site in findings.sites)
