"""Which settings are tried, in order, until one artifact serves all sizes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial

import torch

from onegraph.model import Call, Program
from onegraph.shapes import points
from onegraph.shapes.axes import Axis, named_tensors, parse, size_of, suggest
from onegraph.shapes.result import ShapesResult, Trial
from onegraph.shapes.trial import course, trial
from onegraph.state import preserved
from onegraph.torch_private import marks

_DYNAMIC = "torch._dynamo.mark_dynamic"
_MAYBE = "torch._dynamo.maybe_mark_dynamic"
_UNBACKED = "torch._dynamo.decorators.mark_unbacked"


@dataclass(frozen=True, slots=True)
class _Setting:
    name: str
    code: tuple[str, ...] = ()
    mark: Callable[[Call], None] = lambda call: None
    dynamic: bool = False
    after_refusal: bool = False  # only where the setting before it is an error


def shapes(program: Program, vary: str = "") -> ShapesResult:
    """Run ``program`` over sizes, find every recompile and its cause, and the setting that avoids them.

    ``vary`` names sizes and ranges (``x:0=1..64,ids:1+mask:1=8..128``); without it the dimensions that eager
    lets vary are found, each from 2 to 64. Backend eager; state and random streams are as before afterwards.
    Raises AxisError for a ``vary`` that doesn't fit the program.
    """
    with preserved(program) as world:
        axes = parse(vary, program) if vary else suggest(program, world)
        world.restore()
        tensors = named_tensors(program, program.calls[0])
        recorded = {axis.name: size_of(axis, tensors) for axis in axes}
        way = course(program, axes, points.to_run(axes, recorded) if axes else (), world)
        trials: list[Trial] = []
        for setting in _settings(program, axes):
            if setting.after_refusal and not trials[-1].failed:
                continue
            options = {"dynamic": True} if setting.dynamic else {}
            trials.append(trial(way, world, setting.name, setting.code, setting.mark, options))
            if (
                trials[-1].shared or trials[0].breaks
            ):  # a break recompiles on its own account: that comes first
                break
        return ShapesResult(program.name, axes, tuple(trials), tuple(way.refused))


def _settings(program: Program, axes: Sequence[Axis]) -> Iterator[_Setting]:
    yield _Setting("as it is")
    if not axes:
        return
    small = [axis for axis in axes if axis.low < 2]
    large = [axis for axis in axes if axis not in small]
    yield _Setting("mark_dynamic", _lines(axes, _DYNAMIC), partial(_mark, program, axes, marks.dynamic))
    yield _Setting(
        "maybe_mark_dynamic",
        _lines(axes, _MAYBE),
        partial(_mark, program, axes, marks.maybe_dynamic),
        after_refusal=True,
    )
    if small:

        def mark(call: Call) -> None:
            _mark(program, small, marks.unbacked, call)
            _mark(program, large, marks.dynamic, call)

        yield _Setting("mark_unbacked", (*_lines(small, _UNBACKED), *_lines(large, _DYNAMIC)), mark)
    yield _Setting("dynamic=True", ("torch.compile(..., dynamic=True)",), dynamic=True)


def _mark(
    program: Program, axes: Sequence[Axis], mark: Callable[[torch.Tensor, int], None], call: Call
) -> None:
    tensors = named_tensors(program, call)
    for axis in axes:
        for name, dim in axis.places:
            if name in tensors and dim < tensors[name].dim():
                mark(tensors[name], dim)


def _lines(axes: Sequence[Axis], function: str) -> tuple[str, ...]:
    return tuple(f"{function}({name}, {dim})" for axis in axes for name, dim in axis.places)
