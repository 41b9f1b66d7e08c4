"""The guards of what was compiled: would this artifact take these arguments? Asked without running it."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection, Mapping
from types import CodeType
from typing import Any

import torch
from torch._dynamo import external_utils
from torch._dynamo.eval_frame import _debug_get_cache_entry_list

from onegraph.model import Call


class Artifacts:
    """Everything compiled for one code object. ``scope`` makes the local variables of a call at its start."""

    def __init__(self, code: CodeType, scope: Callable[[Call], dict[str, Any]]) -> None:
        self._scope = scope
        self._managers = [entry.guard_manager for entry in _debug_get_cache_entry_list(code)]

    def take(self, call: Call) -> bool:
        """Whether one of them takes the call."""
        found = self._scope(call)
        return any(manager.check(found) for manager in self._managers)

    def refusal(self, call: Call) -> tuple[str, ...]:
        """The first guard that fails, for each artifact."""
        found = self._scope(call)
        answers = (manager.check_verbose(found) for manager in self._managers)
        return tuple(_failing(answer.verbose_code_parts, found) for answer in answers if not answer.result)


def artifacts_of(target: Any, codes: Collection[CodeType]) -> Artifacts | None:
    """What was compiled for ``target``, where it is all that was compiled (``codes``); else None."""
    function = _function_of(target)
    if function is None or len(codes) != 1:
        return None
    code = next(iter(codes))
    if code is getattr(function, "__code__", None):
        return Artifacts(code, _scope_of(function))
    if code is external_utils.wrap_inline(function).__code__:  # a module of torch's own is compiled in this
        scope = {"fn": target}
        return Artifacts(code, lambda call: {**scope, "args": call.args, "kwargs": dict(call.kwargs)})
    return None


def _failing(parts: list[str], found: Mapping[str, Any]) -> str:
    """Of guards that are checked as one, torch names all: the first that is false by itself."""
    scope = {"L": found, **found}
    for part in parts:
        try:
            if not eval(part.partition("  #")[0], {"__builtins__": {}}, scope):
                return part
        except Exception:  # noqa: BLE001  (a guard on what only torch's own namespace knows: it is not this one)
            continue
    return parts[0] if parts else ""


def _function_of(target: Any) -> Callable[..., Any] | None:
    """The Python function whose frame Dynamo compiles for a callable or module; None where it is none."""
    if isinstance(target, torch.nn.Module):
        target = target.forward
    elif not inspect.isroutine(target) and callable(target):
        target = target.__call__
    return target if hasattr(target, "__code__") or hasattr(target, "__func__") else None


def _scope_of(function: Callable[..., Any]) -> Callable[[Call], dict[str, Any]]:
    """What makes the local variables at the start of the frame, closures included."""
    signature = inspect.signature(function, follow_wrapped=False)
    plain = getattr(function, "__func__", function)
    cells = dict(zip(plain.__code__.co_freevars, plain.__closure__ or (), strict=True))
    fixed = {name: cell.cell_contents for name, cell in cells.items()}
    owner = getattr(function, "__self__", None)
    if owner is not None:
        fixed[plain.__code__.co_varnames[0]] = owner

    def scope(call: Call) -> dict[str, Any]:
        bound = signature.bind(*call.args, **call.kwargs)
        bound.apply_defaults()
        return {**fixed, **bound.arguments}

    return scope
