"""Compare two values: what differs, where, and by how much."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import torch

from onegraph.model import Level
from onegraph.state import DELETED, children
from onegraph.verify import text


@dataclass(frozen=True, slots=True)
class Difference:
    """One thing that two runs do differently. ``allowed`` is the lowest level at which it may; None: at no
    level.
    """

    aspect: str
    words: str
    allowed: Level | None = None
    distance: float | None = None  # the largest absolute difference, where the numbers alone differ


@dataclass(slots=True)
class Measure:
    """How values are compared, and the largest numeric differences seen. ``exact``: bit for bit (NaN equals
    NaN); else with the tolerances of ``torch.testing``.
    """

    exact: bool
    aspect: str
    signed_zeros: bool = True
    rounding: bool = False  # with ``exact``: what agrees within the tolerances is relaxed, not wrong
    max_abs: float = 0.0
    max_rel: float = 0.0
    _open: set[int] = field(default_factory=set)

    def differences(self, expected: Any, actual: Any, path: str) -> Iterator[Difference]:
        """Every difference between two values, containers and attributes of objects included."""
        if isinstance(expected, torch.Tensor) and isinstance(actual, torch.Tensor):
            yield from self._tensors(expected, actual, path)
        elif _kind(expected) is not _kind(actual):
            yield self._says(f"{path} is {_describe(actual)}, eager gives {_describe(expected)}")
        elif isinstance(expected, (bool, int, float, complex)):
            if not self._same_number(expected, actual):
                yield self._says(f"{path} is {actual!r}, eager gives {expected!r}")
        elif isinstance(expected, str):
            for words, allowed in text.differences(expected, actual, self.exact):
                yield self._says(f"{path}: {words}", allowed)
        elif id(expected) not in self._open:
            self._open.add(id(expected))
            yield from self._containers(expected, actual, path)
            self._open.discard(id(expected))

    def _containers(self, expected: Any, actual: Any, path: str) -> Iterator[Difference]:
        if isinstance(expected, (set, frozenset)):
            if expected != actual:
                yield self._says(f"{path} is {_short(actual)}, eager gives {_short(expected)}")
            return
        before, after = dict(children(expected)), dict(children(actual))
        if not before and not after:
            if not _same_opaque(expected, actual):
                yield self._says(f"{path} is {_short(actual)}, eager gives {_short(expected)}")
            return
        for name in [*before, *(name for name in after if name not in before)]:
            if name not in after:
                yield self._says(f"{path}{name} is missing; eager gives {_describe(before[name])}")
            elif name not in before:
                yield self._says(f"{path}{name} is {_describe(after[name])}; eager has nothing there")
            else:
                yield from self.differences(before[name], after[name], path + name)
        if list(before) != list(after) and before.keys() == after.keys():
            yield self._says(f"{path} has its keys in another order")

    def _tensors(self, expected: torch.Tensor, actual: torch.Tensor, path: str) -> Iterator[Difference]:
        for what in ("shape", "dtype", "device", "layout"):
            ours, theirs = getattr(actual, what), getattr(expected, what)
            if ours != theirs:
                ours, theirs = (tuple(ours), tuple(theirs)) if what == "shape" else (ours, theirs)
                yield self._says(f"{path} has {what} {ours}, eager gives {theirs}")
                return
        if type(expected) is not type(actual):
            yield self._says(f"{path} is a {type(actual).__name__}, eager gives a {type(expected).__name__}")
        if self.aspect == "gradients":
            yield from self._numbers(expected, actual, path)
            return
        if expected.requires_grad and not actual.requires_grad:
            yield self._says(f"{path} does not require a gradient, eager's does")
        elif actual.requires_grad and not expected.requires_grad:
            yield self._says(f"{path} requires a gradient, eager's does not", Level.RELAXED)
        if expected.layout is torch.strided and _strides(expected) != _strides(actual):
            yield self._says(
                f"{path} has strides {actual.stride()}, eager gives {expected.stride()}", Level.RELAXED
            )
        yield from self._numbers(expected.detach(), actual.detach(), path)

    def _numbers(self, expected: torch.Tensor, actual: torch.Tensor, path: str) -> Iterator[Difference]:
        if expected.device.type == "meta" or _identical(expected, actual, self.signed_zeros):
            return
        expected, actual = _dense(expected), _dense(actual)
        largest, relative = _largest(expected, actual)
        close = _close(expected, actual)
        if not self.exact or close:
            self.max_abs, self.max_rel = max(self.max_abs, largest), max(self.max_rel, relative)
        if not self.exact and close:
            return
        if not close:
            words = f"{path} differs by {largest:.3g} (relative {relative:.3g}): {_first(expected, actual)}"
            yield Difference(self.aspect, words, distance=largest)
        elif self.rounding or self.aspect == "gradients":
            yield self._says(
                f"{path} agrees within torch.testing's tolerance (max {largest:.3g}), not bit for bit",
                Level.RELAXED,
            )
        else:
            yield self._says(f"{path} is not bit for bit eager's (max {largest:.3g})")

    def _same_number(self, expected: Any, actual: Any) -> bool:
        if expected == actual or (expected != expected and actual != actual):
            return True
        if self.exact or isinstance(expected, int):
            return False
        difference = abs(expected - actual)
        self.max_abs = max(self.max_abs, difference)
        self.max_rel = max(self.max_rel, difference / abs(expected) if expected else 0.0)
        return _close(torch.tensor(expected, dtype=torch.float32), torch.tensor(actual, dtype=torch.float32))

    def _says(self, words: str, allowed: Level | None = None) -> Difference:
        return Difference(self.aspect, words, allowed)


def _kind(value: Any) -> Any:
    return torch.Tensor if isinstance(value, torch.Tensor) else type(value)


def _strides(tensor: torch.Tensor) -> tuple[int, ...]:
    """Of dimensions that have a stride to speak of."""
    if not tensor.numel():
        return ()
    return tuple(step for step, size in zip(tensor.stride(), tensor.shape, strict=True) if size != 1)


def _dense(tensor: torch.Tensor) -> torch.Tensor:
    return tensor if tensor.layout is torch.strided else tensor.to_dense()


def _identical(expected: torch.Tensor, actual: torch.Tensor, signed_zeros: bool) -> bool:
    expected, actual = _dense(expected), _dense(actual)
    if torch.equal(expected, actual):
        return not signed_zeros or not expected.is_floating_point() or _same_signs(expected, actual)
    if not (expected.is_floating_point() or expected.is_complex()):
        return False
    same = (expected == actual) | (expected.isnan() & actual.isnan())
    return bool(same.all()) and (not signed_zeros or expected.is_complex() or _same_signs(expected, actual))


def _same_signs(expected: torch.Tensor, actual: torch.Tensor) -> bool:
    """A zero's sign counts where bits count; a NaN's does not."""
    return bool(((expected.signbit() == actual.signbit()) | expected.isnan()).all())


def _close(expected: torch.Tensor, actual: torch.Tensor) -> bool:
    try:
        torch.testing.assert_close(actual, expected, equal_nan=True, check_stride=False)
    except AssertionError:
        return False
    return True


def _largest(expected: torch.Tensor, actual: torch.Tensor) -> tuple[float, float]:
    """The largest absolute and relative difference; where one side alone is NaN or Inf, it is infinite.

    Where eager is zero there is no relative difference to speak of; the absolute one counts.
    """
    wide = torch.complex128 if expected.is_complex() else torch.float64
    left, right = expected.to(wide), actual.to(wide)
    agree = (left == right) | (left.isnan() & right.isnan())
    gap = (
        torch.where(agree, torch.zeros_like(left), left - right)
        .abs()
        .nan_to_num(nan=math.inf, posinf=math.inf)
    )
    if not gap.numel():
        return 0.0, 0.0
    relative = torch.where((gap == 0) | (left == 0), torch.zeros_like(gap), gap / left.abs())
    return float(gap.max()), float(relative.nan_to_num(nan=math.inf, posinf=math.inf).max())


def _first(expected: torch.Tensor, actual: torch.Tensor) -> str:
    apart = (expected != actual) & ~(expected.isnan() & actual.isnan())
    if not apart.any():
        return "signs of zeros"
    at = tuple(apart.nonzero()[0].tolist())
    return f"{actual[at].item()!r} for eager's {expected[at].item()!r} at {list(at)}"


def _same_opaque(expected: Any, actual: Any) -> bool:
    """Values without parts: the same object, an equal one, or one that prints alike."""
    if expected is actual:
        return True
    try:
        if bool(expected == actual):
            return True
    except (TypeError, ValueError, RuntimeError):
        pass
    return text.normal(repr(expected)) == text.normal(repr(actual))


def _describe(value: Any) -> str:
    if isinstance(value, torch.Tensor):
        return f"a tensor {tuple(value.shape)} {value.dtype}"
    if isinstance(value, str) and value == DELETED:
        return "deleted"
    if value is None or isinstance(value, (bool, int, float)):
        return repr(value)
    return f"a {type(value).__name__}"


def _short(value: Any) -> str:
    words = repr(value)
    return words if len(words) <= 60 else words[:57] + "..."
