"""First calls, then calls in turns: every round times each arm once, and a round gives one ratio."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch.utils import _pytree as pytree
from torch.utils.benchmark import Timer

from onegraph.bench.arms import Arm
from onegraph.model import Call, Program
from onegraph.observe import watch
from onegraph.state import copy_call, preserved
from onegraph.torch_private import dynamo
from onegraph.torch_private.backends import fresh_compiler_cache


@dataclass(frozen=True, slots=True)
class Measured:
    """One arm. Times in seconds a call; ``saved_bytes`` is what autograd keeps between forward and backward."""

    name: str
    first_call: float
    median: float
    spread: float  # between the first and the third quartile of the rounds
    graphs: int | None  # None in eager mode, as for breaks
    breaks: int | None
    saved_bytes: int | None  # None where nothing requires grad
    peak_bytes: int | None  # on the GPU; None without one
    rounds: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class Result:
    program: str
    step: str  # "forward" or "training step"
    device: str
    threads: int
    calls_a_round: int
    arms: tuple[Measured, ...]

    def ratio(self, one: str, other: str) -> float:
        """Median over the rounds of the time of ``one`` over that of ``other``, taken side by side."""
        left, right = self._arm(one), self._arm(other)
        return statistics.median(a / b for a, b in zip(left.rounds, right.rounds, strict=True))

    def differ(self, one: str, other: str) -> bool:
        """Whether the two are apart by more than the rounds scatter: nine in ten rounds agree on the sign."""
        left, right = self._arm(one), self._arm(other)
        slower = sum(a > b for a, b in zip(left.rounds, right.rounds, strict=True))
        return not 0.1 < slower / len(left.rounds) < 0.9

    def _arm(self, name: str) -> Measured:
        return next(arm for arm in self.arms if arm.name == name)


def measure(program: Program, arms: Sequence[Arm], *, rounds: int = 15, seconds: float = 0.05) -> Result:
    """The first call of ``program`` with each arm, forward and, in gradient mode, backward too.

    Each compiled arm starts with an empty compiler cache. A round takes about ``seconds`` an arm. State and random
    streams are as before afterwards.
    """
    call = program.calls[0]
    with preserved(program):
        dynamo.reset()
        for arm in arms:
            _step(arm.target, copy_call(call))  # the mended one is mended here, once
        dynamo.reset()
        starts = [_start(arm, call) for arm in arms]
        backward = starts[0][2] is not None
        number = _calls_a_round(arms[0], call, seconds)
        times: list[list[float]] = [[] for _ in arms]
        for _ in range(rounds):
            for arm, found in zip(arms, times, strict=True):
                found.append(_timed(arm.target, call, number))
        peaks = [_peak(arm.target, call) for arm in arms]
        dynamo.reset()
    measured = [
        Measured(arm.name, first, *_summary(found), graphs, arm.breaks, saved, peak, tuple(found))
        for arm, (first, graphs, saved), found, peak in zip(arms, starts, times, peaks, strict=True)
    ]
    return Result(
        program.name,
        "training step" if backward else "forward",
        _device(call),
        torch.get_num_threads(),
        number,
        tuple(measured),
    )


def _start(arm: Arm, call: Call) -> tuple[float, int | None, int | None]:
    """Seconds of the first call, its graphs, and the bytes saved for the backward pass."""
    saved = _Saved()
    with watch() as watching, fresh_compiler_cache():
        begin = time.perf_counter()
        _step(arm.target, copy_call(call))
        _wait()
        first = time.perf_counter() - begin
    graphs = None if arm.breaks is None else len(watching.trace().graphs)
    with torch.autograd.graph.saved_tensors_hooks(saved.pack, lambda tensor: tensor):
        trained = _step(arm.target, copy_call(call))
    return first, graphs, saved.bytes if trained else None


class _Saved:
    """Bytes of the tensors that autograd keeps, each storage once."""

    def __init__(self) -> None:
        self.bytes = 0
        self._seen: set[int] = set()

    def pack(self, tensor: torch.Tensor) -> torch.Tensor:
        place = tensor.untyped_storage().data_ptr()
        if place not in self._seen and not isinstance(tensor, torch.nn.Parameter):
            self._seen.add(place)
            self.bytes += tensor.untyped_storage().nbytes()
        return tensor


def _step(target: Callable[..., Any], call: Call) -> bool:
    """Forward, and backward where a result requires grad; whether it did."""
    output = target(*call.args, **call.kwargs)
    results = [
        leaf for leaf in pytree.tree_leaves(output) if isinstance(leaf, torch.Tensor) and leaf.requires_grad
    ]
    if results:
        torch.autograd.backward([result.sum() for result in results])
    return bool(results)


def _calls_a_round(arm: Arm, call: Call, seconds: float) -> int:
    return max(1, round(seconds / max(_timed(arm.target, call, 3), 1e-9)))


def _timed(target: Callable[..., Any], call: Call, number: int) -> float:
    timer = Timer(
        "step(target, call)",
        globals={"step": _step, "target": target, "call": call},
        num_threads=torch.get_num_threads(),
    )
    return float(timer.timeit(number).mean)


def _summary(times: Sequence[float]) -> tuple[float, float]:
    first, middle, third = statistics.quantiles(times, n=4)
    return middle, third - first


def _peak(target: Callable[..., Any], call: Call) -> int | None:
    if not torch.cuda.is_available():
        return None
    torch.cuda.reset_peak_memory_stats()
    _step(target, call)
    _wait()
    return int(torch.cuda.max_memory_allocated())


def _wait() -> None:
    if torch.cuda.is_available():
        torch.cuda.synchronize()


def _device(call: Call) -> str:
    leaves = [
        leaf for leaf in pytree.tree_leaves((call.args, dict(call.kwargs))) if isinstance(leaf, torch.Tensor)
    ]
    return next((str(leaf.device.type) for leaf in leaves), "cpu")
