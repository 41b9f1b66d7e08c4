"""One run of a target on copies of one call's arguments, with everything about it recorded.

Random streams start at a seed, and clocks at a time of our own: the same program does the same.
"""

from __future__ import annotations

import inspect
import random
import sys
import zlib
from collections.abc import Callable, Iterator
from typing import Any

import torch

from onegraph.model import Call, Program
from onegraph.state.clock import own_clock
from onegraph.state.copying import Copier, copy_call
from onegraph.state.effects import listening
from onegraph.state.observation import ENDLESS, Observation, Raised
from onegraph.state.patience import Overrun, deadline
from onegraph.state.saved import random_state
from onegraph.state.walk import tensors_in
from onegraph.state.world import World
from onegraph.torch_private.tensors import has_plain_storage, storage_key


def run_call(
    target: Callable[..., Any],
    call: Call,
    *,
    seed: int = 0,
    grad: bool | None = None,
    world: World | None = None,
    restore: bool = True,
    backward: bool = True,
    seconds: float | None = None,
) -> Observation:
    """Run ``target`` once on copies of the arguments and say what it did. Never raises what the target
    raises.

    ``grad``: True computes gradients of a fixed weighted sum of every floating result with respect to every
    leaf (arguments, parameters, closures, globals); False runs under ``torch.no_grad``; None takes the mode
    of the caller. ``world`` is where changes of state are looked for, with its snapshot taken; without it one
    is made for ``target``. Pass the world of the *original* when ``target`` is a compiled wrapper.
    ``restore=False`` leaves the changed state there, for a second run that sees it.
    ``backward=False`` leaves the gradients out. ``seconds``: a run that takes longer is ended, and is
    ``endless``. KeyboardInterrupt passes through.
    """
    if world is None:
        world = World(Program("", target, (call,)))
        world.snapshot()
    grad = torch.is_grad_enabled() if grad is None else grad
    arguments = copy_call(call)
    try:
        return _run(target, arguments, seed, grad, world, backward, seconds)
    finally:
        if restore:
            world.restore()


def seed_all(seed: int) -> None:
    """Seed torch, ``random``, and numpy where it is loaded."""
    torch.manual_seed(seed)
    random.seed(seed)
    if "numpy" in sys.modules:
        sys.modules["numpy"].random.seed(seed % 2**32)


def _run(
    target: Callable[..., Any],
    call: Call,
    seed: int,
    grad: bool,
    world: World,
    backward: bool,
    seconds: float | None,
) -> Observation:
    output: Any = None
    error: Raised | None = None
    leaves = dict(_leaves(call, world)) if grad and backward else {}
    seed_all(seed)
    with listening() as said:
        with torch.enable_grad() if grad else torch.no_grad():
            try:
                with deadline(seconds), own_clock():
                    output = target(*call.args, **call.kwargs)
                    if inspect.isgenerator(output):
                        output = list(output)  # what it does, it does while it is consumed
            except Overrun:
                error = Raised(ENDLESS, f"the run did not end within {seconds:.0f} s")
            except (Exception, SystemExit) as raised:  # noqa: BLE001 (the target's own exception is a result)
                error = describe(raised)
        after = random_state()
        changed, created = world.changes(), world.created()
        copier = Copier()
        frozen = copier.copy((output, call, changed))
        aliases = frozenset(_aliases(output, call, world)) if error is None else frozenset()
        gradients, gradient_error = _gradients((output, call, changed), leaves)
    return Observation(
        output=frozen[0],
        aliases=aliases,
        gradients=gradients,
        gradient_error=gradient_error,
        inputs=frozen[1],
        created=created,
        state=frozen[2],
        random=after,
        stdout=said.out.getvalue(),
        stderr=said.err.getvalue(),
        logs=tuple(said.logs),
        warnings=said.warnings,
        order=said.order,
        error=error,
    )


def describe(error: BaseException) -> Raised:
    """The exception as comparable text."""
    kinds = [_name(kind) for kind in type(error).__mro__ if kind not in (object, BaseException, Exception)]
    return Raised(_name(type(error)), str(error), tuple(kinds[1:]), error.with_traceback(None))


def _name(kind: type) -> str:
    return kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"


def _leaves(call: Call, world: World) -> Iterator[tuple[str, torch.Tensor]]:
    seen: set[int] = set()
    named = [*tensors_in(call.args, "argument"), *tensors_in(dict(call.kwargs), ""), *world.leaves().items()]
    for path, tensor in named:
        if tensor.requires_grad and tensor.is_leaf and id(tensor) not in seen:
            seen.add(id(tensor))
            yield path, tensor


def _gradients(
    results: Any, leaves: dict[str, torch.Tensor]
) -> tuple[dict[str, torch.Tensor | None], Raised | None]:
    """Of a fixed weighted sum, so that no two elements can stand in for each other."""
    if not leaves:
        return {}, None
    output, call, changed = results
    terms = [
        (path, tensor)
        for path, tensor in (
            *tensors_in(output, "output"),
            *((path, tensor) for path, tensor in tensors_in((call, changed), "") if not tensor.is_leaf),
        )
        if tensor.requires_grad and tensor.numel()
    ]
    if not terms:
        return dict.fromkeys(leaves), None
    try:
        with torch.enable_grad():
            total = torch.stack([_weighted_sum(path, tensor) for path, tensor in terms]).sum()
            found = torch.autograd.grad(total, list(leaves.values()), allow_unused=True)
    except (Exception, SystemExit) as raised:  # noqa: BLE001 (the backward pass is the target's own code too)
        return {}, describe(raised)
    return {
        name: gradient if gradient is None else gradient.detach().clone()
        for name, gradient in zip(leaves, found, strict=True)
    }, None


def _weighted_sum(path: str, tensor: torch.Tensor) -> torch.Tensor:
    """Weights between 0.5 and 1.5 that depend on the place alone: a result that requires a gradient in one
    run only does not change the weights of the others."""
    stream = torch.Generator().manual_seed(zlib.crc32(path.encode()))
    weights = (torch.rand(tensor.shape, generator=stream, dtype=torch.float32) + 0.5).to(tensor.device)
    if tensor.is_complex():
        tensor = torch.view_as_real(tensor.resolve_conj()).sum(-1)
    if tensor.layout is not torch.strided:
        tensor = tensor.to_dense()
    return (tensor * weights.to(tensor.dtype)).sum().to(torch.float64).cpu()


def _aliases(output: Any, call: Call, world: World) -> Iterator[tuple[str, str, str]]:
    """Which tensor of the output is, or looks into the memory of, an argument, state, or an earlier
    output.
    """
    others = [
        *tensors_in(call.args, "argument"),
        *tensors_in(dict(call.kwargs), ""),
        *world.tensors().items(),
    ]
    same: dict[int, str] = {}
    memory: dict[int, str] = {}
    for path, tensor in others:
        same.setdefault(id(tensor), path)
        if has_plain_storage(tensor):
            memory.setdefault(storage_key(tensor), path)
    for path, tensor in tensors_in(output, "output"):
        plain = has_plain_storage(tensor) and tensor.numel() > 0
        if id(tensor) in same:
            yield path, "is", same[id(tensor)]
        elif plain and storage_key(tensor) in memory:
            yield path, "shares memory with", memory[storage_key(tensor)]
        same.setdefault(id(tensor), path)
        if plain:
            memory.setdefault(storage_key(tensor), path)
