"""Probe mode: all breaks in one trace, also those behind a skipped frame, in loops, in ``try``, in
generators."""

from __future__ import annotations

from dataclasses import dataclass

from onegraph.model import Break, Call, Outcome, Program
from onegraph.observe import positions
from onegraph.observe.recorder import as_break
from onegraph.state import copy_call, preserved
from onegraph.torch_private import probing
from onegraph.torch_private.quiet import muted
from onegraph.torch_private.records import Raised


@dataclass(frozen=True, slots=True)
class Probe:
    """``breaks`` in the order of the trace. ``stopped``: one sentence for each call whose trace ended early;
    what stands behind that place was not looked at."""

    breaks: tuple[Break, ...]
    stopped: tuple[str, ...] = ()


def probe(program: Program, *, residual: bool = False) -> tuple[Break, ...]:
    """Every break on the way of the program's calls, with outcome HIDDEN; see ``explore``."""
    return explore(program, residual=residual).breaks


def explore(program: Program, *, residual: bool = False) -> Probe:
    """Trace each call once, going on behind every break with the real values, on copies.

    ``residual``: only what breaks with scalars and data-dependent shapes captured. The trace runs operations
    of the program for real (prints are swallowed); its state is put back afterwards. Branches not taken are
    not seen.
    """
    capture = residual or bool(program.options.get("fullgraph"))
    found: dict[object, Break] = {}
    stopped: list[str] = []
    for number, call in enumerate(program.calls):
        seen = _trace(program, call, capture)
        for raised in (each for each in seen.breaks if each.frames):
            each = as_break(raised, Outcome.HIDDEN, tuple(positions.frame(frame) for frame in raised.frames))
            found.setdefault((each.gb_type, each.stack), each)
        if seen.stopped:
            where = _place(seen.breaks[-1]) if seen.breaks else program.name
            stopped.append(f"probe of call {number + 1} stopped at {where}: {seen.stopped}")
    return Probe(tuple(found.values()), tuple(dict.fromkeys(stopped)))


def _trace(program: Program, call: Call, capture: bool) -> probing.Probed:
    own = copy_call(call)
    with preserved(program), muted():
        return probing.trace(
            program.target, own.args, own.kwargs, capture=capture, dynamic=program.options.get("dynamic")
        )


def _place(raised: Raised) -> str:
    if not raised.frames:
        return "its beginning"
    frame = positions.frame(raised.frames[-1])
    return f"{frame.function} ({frame.span.file}:{frame.span.line})"
