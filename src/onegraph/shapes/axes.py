"""The sizes that vary: which dimensions of which arguments, tied together, and over which range."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from onegraph.model import Call, Program
from onegraph.state import World, map_tensors, run_call, tensors_in

LOW, HIGH = 2, 64  # of an axis that nobody gave a range; 0 and 1 are sizes that torch specialises
_PLACE = re.compile(r"(?P<name>[^:+=,]+):(?P<dim>-?\d+)")
_RANGE = re.compile(r"(?P<low>\d+)(?:\.\.(?P<high>\d+))?")
Sizes = Mapping[str, int]  # axis name -> size


class AxisError(ValueError):
    """A ``--vary`` that names what the program doesn't have. The message says what there is."""


@dataclass(frozen=True, slots=True)
class Axis:
    """One size of the inputs. ``places`` are the dimensions that have it, as (tensor, dimension)."""

    places: tuple[tuple[str, int], ...]
    low: int = LOW
    high: int = HIGH

    @property
    def name(self) -> str:
        return "+".join(f"{tensor}:{dim}" for tensor, dim in self.places)

    def __str__(self) -> str:
        return f"{self.name} = {self.low}..{self.high}"

    @property
    def sizes(self) -> range:
        return range(self.low, self.high + 1)


def named_tensors(program: Program, call: Call) -> dict[str, torch.Tensor]:
    """The tensors among the arguments, by the name of the parameter: ``x``, ``batch['ids']``."""
    arguments = _arguments(program.target, call)
    return {path: tensor for name, value in arguments.items() for path, tensor in tensors_in(value, name)}


def _arguments(target: Any, call: Call) -> dict[str, Any]:
    """By parameter name; what ``*args`` and ``**kwargs`` take keeps the name that the caller gave."""
    function = target.forward if isinstance(target, torch.nn.Module) else target
    try:
        signature = inspect.signature(function)
        bound = signature.bind(*call.args, **call.kwargs).arguments
    except (TypeError, ValueError):
        return {**{f"args[{n}]": value for n, value in enumerate(call.args)}, **call.kwargs}
    found: dict[str, Any] = {}
    for name, value in bound.items():
        kind = signature.parameters[name].kind
        if kind is inspect.Parameter.VAR_KEYWORD:
            found.update(value)
        else:
            found[name] = value
    return found


def given_names(program: Program) -> dict[str, str]:
    """What torch calls a positional argument of a wrapper (``args[0]``), and the user by its parameter."""
    call = program.calls[0]
    found = _arguments(program.target, call)
    by_id = {id(value): name for name, value in found.items()}
    return {f"args[{n}]": by_id[id(value)] for n, value in enumerate(call.args) if id(value) in by_id}


def size_of(axis: Axis, tensors: Mapping[str, torch.Tensor]) -> int:
    """The recorded size of an axis."""
    tensor, dim = axis.places[0]
    return tensors[tensor].shape[dim]


def resized(program: Program, call: Call, axes: Sequence[Axis], sizes: Sizes) -> Call:
    """The call with other sizes. Contents repeat, so that indices and masks stay valid; a size of 0 is empty."""
    tensors = named_tensors(program, call)
    wanted: dict[int, dict[int, int]] = {}
    for axis in axes:
        for name, dim in axis.places:
            if name in tensors:
                tensor = tensors[name]
                wanted.setdefault(id(tensor), {})[dim % tensor.dim()] = sizes[axis.name]

    def resize(tensor: torch.Tensor) -> torch.Tensor:
        made = tensor.detach().clone()
        for dim, size in wanted.get(id(tensor), {}).items():
            old = made.shape[dim]
            if old:
                made = made.index_select(dim, torch.arange(size, device=made.device) % old)
            elif size:
                made = made.new_zeros((*made.shape[:dim], size, *made.shape[dim + 1 :]))
        return made.requires_grad_(tensor.requires_grad)

    return map_tensors(call, resize)


def parse(text: str, program: Program) -> tuple[Axis, ...]:
    """``x:0=1..64,ids:1+mask:1=8..128``: dimensions joined by ``+`` change together.

    Raises AxisError for an argument, a dimension or a range that can't be.
    """
    tensors = named_tensors(program, program.calls[0])
    return tuple(_axis(part.strip(), tensors) for part in text.split(",") if part.strip())


def _axis(text: str, tensors: Mapping[str, torch.Tensor]) -> Axis:
    left, equals, right = text.partition("=")
    found = _RANGE.fullmatch(right.strip()) if equals else None
    if equals and found is None:
        raise AxisError(f"{right.strip()!r} is no range of sizes: write {left.strip()}=1..64")
    low, high = (int(found["low"]), int(found["high"] or found["low"])) if found else (LOW, HIGH)
    if low > high:
        raise AxisError(f"{text}: the range is empty, {low} is larger than {high}")
    return Axis(tuple(_place(part.strip(), tensors) for part in left.split("+")), low, high)


def _place(text: str, tensors: Mapping[str, torch.Tensor]) -> tuple[str, int]:
    match = _PLACE.fullmatch(text)
    if match is None:
        raise AxisError(f"{text!r} is no dimension of an argument: write NAME:DIM, for example x:0")
    name, dim = match["name"].strip(), int(match["dim"])
    if name not in tensors:
        known = ", ".join(tensors) or "none"
        raise AxisError(f"no tensor argument {name!r}; there are: {known}")
    rank = tensors[name].dim()
    if not -rank <= dim < rank:
        raise AxisError(f"{name} has {rank} dimensions, there is no dimension {dim}")
    return name, dim % rank


def suggest(program: Program, world: World) -> tuple[Axis, ...]:
    """The dimensions that eager lets vary, tied only where they must be: found on the first call."""
    call = program.calls[0]
    groups: dict[int, list[tuple[str, int]]] = {}
    for name, tensor in named_tensors(program, call).items():
        for dim, size in enumerate(tensor.shape):
            groups.setdefault(size, []).append((name, dim))
    found: list[Axis] = []
    for size, places in groups.items():
        found += _varying(program, world, places, size, set(groups))
    return tuple(sorted(found, key=lambda axis: min(dim for _, dim in axis.places)))


def _varying(
    program: Program, world: World, places: list[tuple[str, int]], size: int, taken: set[int]
) -> Iterator[Axis]:
    """One by one, then by dimension (one batch, one length), then all together. Of size 1 together first: alone,
    broadcasting would hide that they belong together."""
    left = list(places)
    for group in _groups(places, together_first=size == 1):
        if all(place in left for place in group) and _accepts(program, world, group, taken):
            left = [place for place in left if place not in group]
            yield Axis(tuple(group))
    if len(left) < len(places) and len(left) > 1 and _accepts(program, world, left, taken):
        yield Axis(tuple(left))


def _groups(places: list[tuple[str, int]], *, together_first: bool) -> Iterator[list[tuple[str, int]]]:
    by_dim: dict[int, list[tuple[str, int]]] = {}
    for name, dim in places:
        by_dim.setdefault(dim, []).append((name, dim))
    same_dim = [group for group in by_dim.values() if len(group) > 1]
    alone = [[place] for place in places]
    whole = [places] if len(places) > 1 else []
    yield from (*whole, *same_dim, *alone) if together_first else (*alone, *same_dim, *whole)


def _accepts(program: Program, world: World, places: list[tuple[str, int]], taken: set[int]) -> bool:
    """Whether eager runs with two other sizes there, as well as with the recorded one."""
    call, axis = program.calls[0], Axis(tuple(places))
    old = size_of(axis, named_tensors(program, call))
    if not world.patience.known:
        with world.patience.learning():
            run_call(program.target, call, world=world, backward=False)
    seconds = world.patience.seconds
    free = (size for size in range(max(2, old + 1), old + 50) if size not in taken)
    for size in (next(free), next(free)):
        other = resized(program, call, [axis], {axis.name: size})
        if run_call(program.target, other, world=world, backward=False, seconds=seconds).error is not None:
            return False
    return True
