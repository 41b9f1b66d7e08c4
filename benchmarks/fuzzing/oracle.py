"""Runs a program and says what can be seen of it; compares two such records. Knows nothing of onegraph."""

from __future__ import annotations

import contextlib
import copy
import importlib.util
import io
import itertools
import sys
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any

import torch
from torch import nn

Call = tuple[Any, ...]
_modules = itertools.count()
RECORDED = 3  # calls that the tool is given; the others it never saw


@dataclass
class Seen:
    """What one call left behind. ``gradients`` by name; ``error`` is its type and message."""

    output: Any = None
    error: tuple[str, str] | None = None
    gradients: dict[str, torch.Tensor | None] = field(default_factory=dict)
    backward_error: str | None = None
    state: dict[str, Any] = field(default_factory=dict)
    arguments: Any = None
    printed: str = ""
    random: torch.Tensor | None = None


@contextlib.contextmanager
def loaded(text: str, folder: Path) -> Iterator[ModuleType]:
    """The module of a text, imported from a file; parameters are always the same."""
    name = f"fuzzed_{next(_modules)}"
    path = folder / f"{name}.py"
    path.write_text(text)
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    torch.manual_seed(0)
    try:
        spec.loader.exec_module(module)
        yield module
    finally:
        del sys.modules[name]
        path.unlink()


def calls_of(arguments: Sequence[str], seed: int) -> list[Call]:
    """Calls on different sides of most conditions, of several sizes; the first ones (of two) are recorded."""
    generator = torch.Generator().manual_seed(seed)
    found = []
    shapes = [(3, 0.0, 1.0), (3, 1.0, 0.5), (5, -1.5, 1.0), (3, 3.0, 1.0), (5, -0.2, 0.1), (2, 0.4, 4.0), (7, 0.0, 0.0),
              (5, 0.3, 0.3)]  # fmt: skip
    for number, (batch, shift, scale) in enumerate(shapes):
        made = {
            "x": torch.randn(batch, 4, generator=generator) * scale + shift,
            "y": torch.randn(batch, 4, generator=generator) * scale - shift / 2,
            "v": torch.randn(4, generator=generator) + shift,
            "k": torch.randint(-2, 4, (batch, 4), generator=generator),
            "m": None if number % 2 else torch.randn(batch, 4, generator=generator),
            "n": 2 + number % 2,
            "a": [0.5, 2.0][number % 2],
        }
        found.append(tuple(made[name] for name in arguments))
    return found


def record(module: ModuleType, target: Callable[..., Any], calls: Sequence[Call]) -> list[Seen]:
    """Every call in turn, on one state. A call that raises leaves the state as it found it for the next one."""
    return [_call(module.f, target, call, number) for number, call in enumerate(calls)]


def _call(original: Any, target: Callable[..., Any], call: Call, seed: int) -> Seen:
    seen = Seen()
    before = _snapshot(original)
    arguments = [_argument(value) for value in call]
    leaves = {f"argument {i}": a for i, a in enumerate(arguments) if _is_leaf(a)}
    # A copy made by an op, so that the program may change its arguments in place.
    given = [value * 1 if _is_leaf(value) else value for value in arguments]
    if isinstance(original, nn.Module):
        original.zero_grad(set_to_none=True)
        leaves |= dict(original.named_parameters())
    torch.manual_seed(seed)
    printed = io.StringIO()
    try:
        with contextlib.redirect_stdout(printed), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            output = target(*given)
    except Exception as error:  # noqa: BLE001 (an exception is one of the results that are compared)
        seen.error = (type(error).__name__, str(error).partition("\n")[0])
        seen.printed = printed.getvalue()
        seen.state = _state(original)
        _restore(original, before)
        return seen
    seen.random = torch.get_rng_state()
    seen.printed = printed.getvalue()
    seen.output = _frozen(output)
    seen.state = _state(original)
    seen.arguments = _frozen(given)
    try:
        _backward(output)
    except RuntimeError as error:
        seen.backward_error = str(error).partition("\n")[0]
    seen.gradients = {n: None if leaf.grad is None else leaf.grad.clone() for n, leaf in leaves.items()}
    return seen


def _argument(value: Any) -> Any:
    if not isinstance(value, torch.Tensor):
        return value
    return value.clone().requires_grad_(value.is_floating_point())


def _is_leaf(value: Any) -> bool:
    return isinstance(value, torch.Tensor) and value.requires_grad


def _backward(output: Any) -> None:
    """The gradient of a sum in which every element has another weight."""
    total: Any = 0.0
    for tensor in _tensors(output):
        if tensor.requires_grad and tensor.is_floating_point():
            weights = torch.linspace(0.5, 1.5, tensor.numel(), dtype=tensor.dtype).view(tensor.shape)
            total = total + (tensor * weights).sum()
    if isinstance(total, torch.Tensor):
        total.backward()


def _tensors(value: Any) -> Iterator[torch.Tensor]:
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, dict):
        for each in value.values():
            yield from _tensors(each)
    elif isinstance(value, list | tuple):
        for each in value:
            yield from _tensors(each)


def _frozen(value: Any) -> Any:
    """A copy in plain containers; a tensor with whether it requires a gradient."""
    if isinstance(value, torch.Tensor):
        return value.detach().clone(), value.requires_grad
    if isinstance(value, dict):
        return {key: _frozen(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [type(value).__name__, *map(_frozen, value)]
    return value


_SKIPPED = frozenset({"_parameters", "_modules"})


def _state(original: Any) -> dict[str, Any]:
    """Attributes and buffers of a module."""
    if not isinstance(original, nn.Module):
        return {}
    own = {key: value for key, value in vars(original).items() if not key.startswith("_")}
    return {key: _frozen(value) for key, value in {**own, **dict(original.named_buffers())}.items()}


def _snapshot(original: Any) -> dict[str, Any]:
    if not isinstance(original, nn.Module):
        return {}
    own = {key: value for key, value in vars(original).items() if not key.startswith("_")}
    return {**{key: _copied(value) for key, value in own.items()},
            "_buffers": {key: _copied(value) for key, value in original._buffers.items()}}  # fmt: skip


def _copied(value: Any) -> Any:
    if isinstance(value, torch.Tensor):
        return value.detach().clone()
    return [_copied(each) for each in value] if isinstance(value, list) else copy.copy(value)


def _restore(original: Any, before: dict[str, Any]) -> None:
    for key, value in before.items():
        if key == "_buffers":
            original._buffers.update(value)
        else:
            setattr(original, key, value)


# --- comparison ---------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Allowed:
    """What may differ. ``zero``: a zero gradient for none, and a result that requires one for nothing.

    ``rounding``: numbers within torch.testing's tolerances. ``compiled``: a compiled program applies state
    and prints at other times when it raises, and its asserts raise RuntimeError.
    """

    zero: bool = True
    rounding: bool = False
    compiled: bool = False


def difference(expected: Sequence[Seen], actual: Sequence[Seen], allowed: Allowed) -> str | None:
    """The first thing that differs, in words."""
    for number, (one, other) in enumerate(zip(expected, actual, strict=True)):
        if words := _of_call(one, other, allowed):
            return f"call {number}: {words}"
    return None


def _of_call(one: Seen, other: Seen, allowed: Allowed) -> str | None:
    if one.error or other.error:
        if not _same_error(one.error, other.error, allowed):
            return f"raises {other.error} for {one.error}"
        if allowed.compiled:
            return None
        return _of_text(one, other) or _of_value(one.state, other.state, "state", allowed)
    if words := _of_value(one.output, other.output, "output", allowed):
        return words
    if words := _of_text(one, other):
        return words
    if words := _of_value(one.state, other.state, "state", allowed):
        return words
    if words := _of_value(one.arguments, other.arguments, "arguments", allowed):
        return words
    if one.random is not None and other.random is not None and not torch.equal(one.random, other.random):
        return "random stream after the call"
    if one.backward_error != other.backward_error:
        return f"backward raises {other.backward_error} for {one.backward_error}"
    for name, gradient in one.gradients.items():
        got = other.gradients[name]
        if gradient is None and got is not None and allowed.zero and not got.any():
            continue
        if (gradient is None) != (got is None):
            return f"gradient of {name}: {got} for {gradient}"
        if gradient is not None and got is not None and not _close(gradient, got):
            return f"gradient of {name}: {got.tolist()} for {gradient.tolist()}"
    return None


def _of_text(one: Seen, other: Seen) -> str | None:
    return None if one.printed == other.printed else f"prints {other.printed!r} for {one.printed!r}"


def _same_error(one: tuple[str, str] | None, other: tuple[str, str] | None, allowed: Allowed) -> bool:
    if one is None or other is None:
        return False
    if allowed.compiled and one[0] == "AssertionError" and other[0] == "RuntimeError":
        return True  # torch's own form of an assert
    return one == other


def _of_value(one: Any, other: Any, what: str, allowed: Allowed) -> str | None:
    if isinstance(one, tuple) and isinstance(other, tuple) and isinstance(one[0], torch.Tensor):
        return _of_tensor(one, other, what, allowed)
    if type(one) is not type(other):
        return f"{what}: {other} for {one}"
    if isinstance(one, dict):
        if list(one) != list(other):
            return f"{what}: keys {list(other)} for {list(one)}"
        return next(
            (w for key in one if (w := _of_value(one[key], other[key], f"{what} {key}", allowed))), None
        )
    if isinstance(one, list):
        if len(one) != len(other):
            return f"{what}: {other} for {one}"
        return next(
            (w for a, b in zip(one, other, strict=True) if (w := _of_value(a, b, what, allowed))), None
        )
    return None if one == other or one != one else f"{what}: {other!r} for {one!r}"


def _of_tensor(one: Any, other: Any, what: str, allowed: Allowed) -> str | None:
    (first, needs), (second, has) = one, other
    if not isinstance(second, torch.Tensor):
        return f"{what}: {second} for {first}"
    if (first.dtype, first.shape) != (second.dtype, second.shape):
        return f"{what}: {second.dtype} {list(second.shape)} for {first.dtype} {list(first.shape)}"
    if needs != has and (needs or not allowed.zero or what.startswith("state")):
        return f"{what}: requires_grad {has} for {needs}"
    same = _close(first, second) if allowed.rounding else _equal(first, second)
    return None if same else f"{what}: {second.tolist()} for {first.tolist()}"


def _equal(first: torch.Tensor, second: torch.Tensor) -> bool:
    return (
        torch.allclose(first, second, rtol=0, atol=0, equal_nan=True)
        if first.is_floating_point()
        else bool(torch.equal(first, second))
    )


def _close(first: torch.Tensor, second: torch.Tensor) -> bool:
    try:
        torch.testing.assert_close(second, first, equal_nan=True)
    except AssertionError:
        return False
    return True
