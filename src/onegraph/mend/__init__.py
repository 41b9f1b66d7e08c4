"""Mend: from findings to a program without graph breaks, each decision with its reason."""

from __future__ import annotations

from collections.abc import Sequence

from onegraph.mend import loop
from onegraph.mend.look import findings_of, look
from onegraph.mend.loop import Tools
from onegraph.mend.tools import standard
from onegraph.model import Findings, FixResult, Level, Program

__all__ = ["Tools", "findings_of", "look", "mend"]


def mend(
    program: Program,
    findings: Findings,
    *,
    level: Level = Level.RELAXED,
    select: Sequence[str] = (),
    ignore: Sequence[str] = (),
    tools: Tools | None = None,
) -> FixResult:
    """Mend the sites in ``findings``, and those behind them, up to ``level``; see ``loop.mend``."""
    return loop.mend(program, findings, tools=tools or standard(), level=level, select=select, ignore=ignore)
