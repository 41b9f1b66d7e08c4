"""The report of ``onegraph bench`` for people: one table, and what it says in a sentence."""

from __future__ import annotations

from importlib import metadata

from rich.table import Table
from rich.text import Text

from onegraph.bench import Measured, Result
from onegraph.report.text import Page, following
from onegraph.words import counted


def bench_text(result: Result, target: str) -> Page:
    head = Text.assemble(
        ("onegraph bench", "bold"),
        (f" · {target} · torch {metadata.version('torch')} · {result.device}", "dim"),
        (f"\n{result.step}, {counted(result.threads, 'thread')}, ", "dim"),
        (
            f"{len(result.arms[0].rounds)} rounds of {counted(result.calls_a_round, 'call')} each, in turns",
            "dim",
        ),
    )
    return head, _table(result), Text(verdict(result), style="bold"), following(_next_step(result, target))


def _table(result: Result) -> Table:
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="dim")
    for name in ("", "a call", "spread", "first call", "graphs", "breaks", "saved for backward"):
        table.add_column(name, justify="left" if not name else "right")
    gpu = any(arm.peak_bytes is not None for arm in result.arms)
    if gpu:
        table.add_column("peak memory", justify="right")
    for arm in result.arms:
        peak = [_bytes(arm.peak_bytes)] if gpu else []
        table.add_row(*_row(arm), *peak)
    return table


def _row(arm: Measured) -> tuple[str, ...]:
    return (
        arm.name,
        _time(arm.median),
        f"±{_time(arm.spread / 2)}",
        _time(arm.first_call),
        "" if arm.graphs is None else str(arm.graphs),
        "" if arm.breaks is None else str(arm.breaks),
        _bytes(arm.saved_bytes),
    )


def verdict(result: Result) -> str:
    """The gain over the program as it is compiled today, in one sentence; "no gain" is one."""
    names = [arm.name for arm in result.arms]
    if "mended" not in names:
        return "nothing was mended: " + _against_eager(result, "as it is")
    ratio = result.ratio("as it is", "mended")
    if not result.differ("as it is", "mended"):
        words = f"no gain at this size: mended and as it is differ by less than they scatter ({ratio:.2f}x)"
    elif ratio > 1:
        words = f"mended is {ratio:.2f}x as fast as it is compiled today"
    else:
        words = f"mended is slower than as it is compiled today ({ratio:.2f}x as fast): keep it only for one graph"
    return f"{words}; {_against_eager(result, 'mended')}"


def _against_eager(result: Result, name: str) -> str:
    ratio = result.ratio("eager", name)
    same = "" if result.differ("eager", name) else ", within the scatter"
    return f"{ratio:.2f}x as fast as eager{same}"


def _next_step(result: Result, target: str) -> str:
    if any(arm.name == "mended" for arm in result.arms):
        return f"onegraph fix {target} --diff"
    return f"onegraph run {target}"


def _time(seconds: float) -> str:
    for unit, scale in (("s", 1.0), ("ms", 1e-3)):
        if seconds >= scale:
            return f"{seconds / scale:.3g} {unit}"
    return f"{seconds * 1e6:.3g} µs"


def _bytes(number: int | None) -> str:
    if number is None:
        return ""
    return f"{number / 2**20:.1f} MiB" if number >= 2**20 else f"{number / 2**10:.1f} KiB"
