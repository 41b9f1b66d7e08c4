"""Inputs of other types than the recorded ones: dtype, dimensions, layout, Python type, None; one at a time.

A program may never be called so. Where the original takes such a call, the repair should do the same with it.
"""

from __future__ import annotations

import inspect
import itertools
from collections.abc import Callable, Iterator
from typing import Any

import torch

from onegraph.model import Call, Program
from onegraph.state import World, map_tensors, tensors_in
from onegraph.verify.variations import Variation

LIMIT = 24
MANY = 2**23  # elements of the program's tensors, above which these runs would cost more than they tell

Change = tuple[str, Callable[[torch.Tensor], torch.Tensor]]


def input_types(program: Program, world: World) -> tuple[Variation, ...]:
    """At most ``LIMIT`` variations of the first call, every argument in turn; always the same ones.

    Each of them counts only where the original accepts it.
    """
    if not program.calls or elements(program, world) > MANY:
        return ()
    call = program.calls[0]
    bound = _bound(program.target, call)
    names = list(bound.signature.parameters) if bound is not None else []
    arguments: list[Iterator[Variation]] = []
    if bound is not None:
        arguments += [_values(bound, name) for name in names]
    tensors = [(_name(path, names), tensor) for path, tensor in tensors_in(call, "")]
    several = sum(tensor.is_floating_point() for _, tensor in tensors) > 1
    arguments += [_tensors(call, name, tensor, alone=several) for name, tensor in tensors]
    turns = itertools.zip_longest(*arguments)
    return tuple(itertools.islice((each for turn in turns for each in turn if each is not None), LIMIT))


def elements(program: Program, world: World) -> int:
    """How much there is to compute with: elements of the arguments, parameters and buffers."""
    arguments = [tensor for _, tensor in tensors_in(program.calls[0], "")]
    return sum(tensor.numel() for tensor in (*arguments, *world.tensors().values()))


def _bound(target: Callable[..., Any], call: Call) -> inspect.BoundArguments | None:
    """The arguments by the names of their parameters, with defaults."""
    try:
        function = target.forward if isinstance(target, torch.nn.Module) else target
        bound = inspect.signature(function).bind(*call.args, **call.kwargs)
    except (TypeError, ValueError):
        return None
    bound.apply_defaults()
    return bound


def _name(path: str, names: list[str]) -> str:
    """``argument[0]['mask']`` as ``x['mask']``, ``['mask']`` as ``mask``."""
    if not path.startswith("argument["):
        key, _, rest = path.removeprefix("['").partition("']")
        return f"`{key}{rest}`"
    number, _, rest = path.removeprefix("argument[").partition("]")
    return f"`{names[int(number)]}{rest}`" if int(number) < len(names) else f"`{path}`"


# --- Python values ------------------------------------------------------------------------------------------


def _values(bound: inspect.BoundArguments, name: str) -> Iterator[Variation]:
    """One parameter that is a number, with numbers of other types; one that is optional, as None."""
    value = bound.arguments[name]
    for other in _other_numbers(value):
        yield _variation(f"`{name}` as {other!r} instead of {value!r}", _with(bound, name, other))
    if isinstance(value, torch.Tensor) and bound.signature.parameters[name].default is None:
        yield _variation(f"`{name}` as None instead of a tensor", _with(bound, name, None))


def _other_numbers(value: Any) -> tuple[Any, ...]:
    if isinstance(value, bool):
        return not value, 2, 0.5
    if type(value) is int:
        return value + 0.5, value + 1, True
    return (round(value) or 1, value + 0.25, True) if type(value) is float and value == value else ()


def _with(bound: inspect.BoundArguments, name: str, value: Any) -> Call:
    changed = inspect.BoundArguments(bound.signature, type(bound.arguments)({**bound.arguments, name: value}))
    return Call(changed.args, changed.kwargs)


# --- tensors ------------------------------------------------------------------------------------------------


def _tensors(call: Call, name: str, tensor: torch.Tensor, *, alone: bool) -> Iterator[Variation]:
    """``alone``: there are others that could require a gradient."""
    if tensor.layout is not torch.strided:
        return
    for words, change in _changes(tensor):
        yield _variation(f"{name} {words}", _replaced(call, tensor, change))
    if alone and torch.is_grad_enabled() and tensor.is_floating_point():
        called = map_tensors(call, lambda t: t.detach().requires_grad_(t is tensor) if _floats(t) else t)
        yield _variation(f"{name} alone requiring a gradient", called, gradients=True)


def _changes(tensor: torch.Tensor) -> Iterator[Change]:
    shape = list(tensor.shape)
    first, *rest = [*_dtypes(tensor)]
    yield first
    if shape and tensor.numel():
        yield f"of shape {shape[1:]} instead of {shape}", lambda t: t[0]
    yield from rest
    if len(shape) > 1:
        yield f"of shape [] instead of {shape}", lambda t: t.flatten()[0]
    if len(shape) > 1 and shape[0] > 1:
        yield f"of shape {[1, *shape[1:]]} instead of {shape}", lambda t: t[:1]
    yield f"of shape {[1, *shape]} instead of {shape}", lambda t: t[None]
    if shape and tensor.numel():
        yield "not contiguous", lambda t: torch.stack([t, t], -1)[..., 0]
        yield "expanded from one row", lambda t: t[:1].expand(t.shape)


def _dtypes(tensor: torch.Tensor) -> Iterator[Change]:
    """Another width first, then another sort of number."""
    yield from (_as(tensor.dtype, dtype) for dtype in _others(tensor.dtype))


def _others(dtype: torch.dtype) -> tuple[torch.dtype, ...]:
    if dtype.is_complex:
        return (torch.complex64 if dtype is torch.complex128 else torch.complex128,)
    if dtype.is_floating_point:
        return (torch.float32 if dtype is torch.float64 else torch.float64, torch.int64, torch.bfloat16)
    if dtype is torch.bool:
        return (torch.int64, torch.float32)
    return (torch.int32 if dtype is torch.int64 else torch.int64, torch.float32)


def _as(old: torch.dtype, new: torch.dtype) -> Change:
    def changed(tensor: torch.Tensor) -> torch.Tensor:
        whole = old.is_floating_point and not new.is_floating_point
        return (tensor * 10 if whole else tensor).to(new)  # fractions would all be zero

    words = [str(dtype).removeprefix("torch.") for dtype in (new, old)]
    return f"as {words[0]} instead of {words[1]}", changed


def _replaced(call: Call, tensor: torch.Tensor, change: Callable[[torch.Tensor], torch.Tensor]) -> Call:
    def changed(each: torch.Tensor) -> torch.Tensor:
        if each is not tensor:
            return each
        made = change(each.detach())
        return made.requires_grad_(each.requires_grad and (made.is_floating_point() or made.is_complex()))

    return map_tensors(call, changed)


def _floats(tensor: torch.Tensor) -> bool:
    return tensor.is_floating_point()


def _variation(name: str, call: Call, *, gradients: bool = False) -> Variation:
    return Variation(name, call, seed=5, resized=True, gradients=gradients, forward=not gradients)
