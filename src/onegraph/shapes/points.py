"""Which sizes are run: few, pairwise different, primes and powers of two, the ends of the range, 0 and 1 last."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import product

from onegraph.shapes.axes import Axis, Sizes

_TRIED = (3, 8, 5, 16, 7, 32, 13, 64, 2, 31, 128, 17)
MOST = 4096  # sizes asked of the guards, above which a fixed sample stands for the rest


def to_run(axes: Sequence[Axis], recorded: Sizes, limit: int = 10) -> tuple[Sizes, ...]:
    """Each axis alone first, then all together with sizes that differ from each other; 0 and 1 at the end."""
    found: list[dict[str, int]] = []
    values = {axis.name: _values(axis, recorded[axis.name]) for axis in axes}
    for axis in axes:
        found += [{**recorded, axis.name: size} for size in values[axis.name][:2]]
    longest = max((len(each) for each in values.values()), default=0)
    for turn in range(longest):
        sizes = {
            axis.name: values[axis.name][(turn + 3 * shift) % len(values[axis.name])]
            for shift, axis in enumerate(axes)
            if values[axis.name]
        }
        found.append({**recorded, **sizes})
    unique = [
        sizes for number, sizes in enumerate(found) if sizes not in found[:number] and sizes != recorded
    ]
    usual = [sizes for sizes in unique if min(sizes.values()) > 1]
    return (*usual[:limit], *_small(axes, recorded))


def _values(axis: Axis, recorded: int) -> list[int]:
    middle = [size for size in _TRIED if axis.low < size < axis.high]
    values = dict.fromkeys((*middle[:2], axis.high, *middle[2:], axis.low))
    return [size for size in values if size != recorded and size > 1]


def _small(axes: Sequence[Axis], recorded: Sizes) -> list[Sizes]:
    return [{**recorded, axis.name: size} for axis in axes for size in (1, 0) if size in axis.sizes]


def product_of(axes: Sequence[Axis], most: int = MOST) -> tuple[tuple[Sizes, ...], bool]:
    """All combinations of sizes, smallest first, and whether they are all: else every size of each axis with
    evenly spread sizes of the others."""
    total = 1
    for axis in axes:
        total *= len(axis.sizes)
    names = [axis.name for axis in axes]
    if total <= most:
        chosen: Iterator[tuple[int, ...]] = product(*(axis.sizes for axis in axes))
        return tuple(dict(zip(names, sizes, strict=True)) for sizes in chosen), True
    longest = max(len(axis.sizes) for axis in axes)
    each = max(2, most // longest)
    found = []
    for turn in range(each):
        for step in range(longest):
            found.append(
                {
                    axis.name: axis.sizes[(step + turn * (number * 7 + 1) * number) % len(axis.sizes)]
                    for number, axis in enumerate(axes)
                }
            )
    unique = {tuple(sizes.values()): sizes for sizes in found}
    return tuple(unique[key] for key in sorted(unique)), False
