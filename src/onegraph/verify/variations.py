"""Few, fixed variations of the recorded inputs: gradients, other sizes, values, mode, seed."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from onegraph.model import Call, Program
from onegraph.state import Observation, World, map_tensors, run_call, tensors_in

LIMIT = 9
_MANY = 2**26  # elements of parameters, above which only the user's own calls keep gradients of them


@dataclass(frozen=True, slots=True, eq=False)
class Variation:
    """One way to run the program. ``training`` None leaves the modules' mode alone.

    ``resized``: the sizes differ from the recorded ones; such a run counts only if eager accepts it, for a
    size that the program does not allow says nothing about a repair.
    """

    name: str
    call: Call
    seed: int = 0
    training: bool | None = None
    resized: bool = False
    gradients: bool = False
    varied: bool = True
    nan: bool = False  # a NaN was put into the inputs
    large: bool = False  # floats so large that where they cancel only rounding is left
    forward: bool = False  # without gradients of what comes out

    @property
    def essential(self) -> bool:
        """Whether gradients are compared here even if they take much memory."""
        return self.gradients or not self.varied

    def run(
        self,
        target: Callable[..., Any],
        world: World,
        *,
        restore: bool = True,
        seconds: float | None = None,
    ) -> Observation:
        """Run ``target`` this way, in the caller's gradient mode; it is ended when it takes more ``seconds``."""
        if self.training is not None:
            for module in world.modules:
                module.training = self.training
        few = self.essential or sum(leaf.numel() for leaf in world.leaves().values()) <= _MANY
        backward = few and not self.forward
        return run_call(
            target,
            self.call,
            seed=self.seed,
            world=world,
            restore=restore,
            backward=backward,
            seconds=seconds,
        )


def recorded(program: Program) -> tuple[Variation, ...]:
    """The calls as the user made them."""
    return tuple(
        Variation(f"call {number}", call, varied=False) for number, call in enumerate(program.calls, 1)
    )


def variations(program: Program, world: World) -> tuple[Variation, ...]:
    """At most ``LIMIT`` variations of the first call, always the same ones for the same program."""
    if not program.calls:
        return ()
    return tuple(_all(program.calls[0], world))[:LIMIT]


def other_size(program: Program) -> Variation | None:
    """The first call with another batch size, for a compiled run."""
    return next(_sizes(program.calls[0]), None) if program.calls else None


def _all(call: Call, world: World) -> Iterator[Variation]:
    if torch.is_grad_enabled() and any(_wants_gradient(t) for _, t in _tensors(call)):
        call = map_tensors(call, lambda t: t.detach().requires_grad_() if _wants_gradient(t) else t)
        yield Variation("floats require gradients", call, gradients=True)
    yield from _sizes(call)
    yield from _smallest(call)
    if world.modules:
        training = any(module.training for module in world.modules)
        name = "eval() mode" if training else "train() mode"
        yield Variation(name, call, seed=1, training=not training)
    if any(t.is_floating_point() for _, t in _tensors(call)):
        yield Variation("floats negated", _floats(call, lambda t: -t))
        yield Variation("floats 1000 times larger", _floats(call, lambda t: t * 1000), large=True)
        yield Variation("floats with a NaN", _floats(call, _with_nan), nan=True)
    if any(_is_mask(t) for _, t in _tensors(call)):
        yield Variation("masks inverted", map_tensors(call, lambda t: _inverted(t) if _is_mask(t) else t))
    yield Variation("another seed", call, seed=2)


def _sizes(call: Call) -> Iterator[Variation]:
    """Another batch size, then another second dimension; a size changes alike in every argument."""
    shapes = [tuple(t.shape) for _, t in _tensors(call)]
    taken = {size for shape in shapes for size in shape}
    batch = next((shape[0] for shape in shapes if shape), None)
    if batch is not None:
        new = _unused(batch, taken)
        yield Variation(
            f"batch of {new} for {batch}", _resized(call, batch, new, slice(0, 1)), seed=3, resized=True
        )
    length = next((shape[1] for shape in shapes if len(shape) > 1), None)
    if length is not None:
        new = _unused(length, taken)
        name = f"second dimension of {new} for {length}"
        yield Variation(name, _resized(call, length, new, slice(1, None)), seed=4, resized=True)


def _smallest(call: Call) -> Iterator[Variation]:
    """One element of each: what is usually found (rows of every expert) is not found here."""
    shapes = [tuple(t.shape) for _, t in _tensors(call)]
    batch = next((shape[0] for shape in shapes if shape), 1)
    length = next((shape[1] for shape in shapes if len(shape) > 1), 1)
    if batch > 1 or length > 1:
        one = _resized(_resized(call, batch, 1, slice(0, 1)), length, 1, slice(1, None))
        yield Variation("sizes of one", one, seed=5, resized=True)


def _unused(size: int, taken: set[int]) -> int:
    """Different from every size there is, so that no two dimensions are equal by accident."""
    new = size + 1 if size > 1 else 3
    while new in taken:
        new += 1
    return new


def _resized(call: Call, old: int, new: int, where: slice) -> Call:
    def resize(tensor: torch.Tensor) -> torch.Tensor:
        grown = tensor.detach()
        for dim in range(tensor.dim())[where]:
            if tensor.shape[dim] == old and old > 0:
                grown = grown.index_select(dim, torch.arange(new, device=tensor.device) % old)
        return grown.requires_grad_(tensor.requires_grad)

    return map_tensors(call, resize)


def _floats(call: Call, change: Callable[[torch.Tensor], torch.Tensor]) -> Call:
    def changed(tensor: torch.Tensor) -> torch.Tensor:
        if not tensor.is_floating_point():
            return tensor
        return change(tensor.detach()).requires_grad_(tensor.requires_grad)

    return map_tensors(call, changed)


def _with_nan(tensor: torch.Tensor) -> torch.Tensor:
    spoiled = tensor.clone(memory_format=torch.contiguous_format)
    if spoiled.numel():
        spoiled.view(-1)[0] = torch.nan
    return spoiled


def _wants_gradient(tensor: torch.Tensor) -> bool:
    return (tensor.is_floating_point() or tensor.is_complex()) and not tensor.requires_grad


def _is_mask(tensor: torch.Tensor) -> bool:
    """A bool tensor, or integers that are all 0 or 1."""
    if tensor.dtype is torch.bool:
        return True
    if tensor.is_floating_point() or tensor.is_complex() or not tensor.numel():
        return False
    return bool(((tensor == 0) | (tensor == 1)).all())


def _inverted(mask: torch.Tensor) -> torch.Tensor:
    return ~mask if mask.dtype is torch.bool else 1 - mask


def _tensors(call: Call) -> Sequence[tuple[str, torch.Tensor]]:
    return list(tensors_in(call, ""))
