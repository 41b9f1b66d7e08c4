"""``onegraph.compile``: torch.compile that mends the program when it breaks the graph, or says what is left.

A call goes straight to the compiled program. Only an error of the compiler, raised before anything of the
program ran, starts the mending. So does a call of another sort than those that the mend was verified for (another
dtype, rank, Python type, mode; see ``state.sort``): it must be compiled anew in any case, and before that the mended
code is compared with the original on it.
"""

from __future__ import annotations

import functools
import inspect
import sys
import threading
import warnings
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from typing import Any

import torch

from onegraph.deliver.caller import STOPPED, caller
from onegraph.deliver.known import Known, UnknownSort
from onegraph.deliver.left import (
    GraphBreaksLeft,
    GraphBreaksLeftWarning,
    Left,
    description,
    elsewhere,
    failed,
    left,
    unproven,
)
from onegraph.deliver.private import private
from onegraph.mend import look, mend
from onegraph.model import Call, FixResult, Level, Program
from onegraph.rewrite.source import SourceUnavailable, code_of
from onegraph.rewrite.swap import code_map
from onegraph.rewrite.workspace import Workspace
from onegraph.state import World, children, copy_call, run_call
from onegraph.state.effects import listening
from onegraph.torch_private import optimized, substitute, traps
from onegraph.torch_private.tensors import without_saved_tensor_hooks
from onegraph.verify import later

Target = Callable[..., Any]
Fix = Callable[..., FixResult]  # (program, *, level)


def compile(
    f: Target | None = None,
    *,
    level: Level | str = Level.RELAXED,
    strict: bool = True,
    fix: Fix | None = None,
    **options: Any,
) -> Any:
    """``torch.compile`` that gives one graph: as a function (``compile(model)``) or a decorator.

    The program is mended on the first call that breaks the graph, with the arguments of that
    call, and again when a later call brings a new break, or is of another sort (dtype, rank, Python type) and the
    mended code is not right for it. The user's functions stay as they are; only the
    compiler reads the mended code. ``level`` says what repairs may change: "exact", "relaxed" or
    "lossy". Every keyword of ``torch.compile`` is passed on; ``fullgraph`` is True unless given (with
    False the default capture settings of torch apply, and a break is an error all the same). A first call whose break
    comes from something that is set up once (hooks of a library, a cache) is made in eager mode.

    Raises ``GraphBreaksLeft`` on a call whose breaks can't all be mended and verified. With ``strict=False``
    the program then runs with what could be mended, and warns once.
    """
    again = functools.partial(compile, level=level, strict=strict, fix=fix, **options)
    if f is None:
        return again
    if inspect.isclass(f) or not callable(f):
        what = f"the class {f.__name__}: compile an instance" if inspect.isclass(f) else type(f).__name__
        raise TypeError(f"onegraph.compile takes a function or a module, not {what}")
    level = Level(level)
    if options.get("disable"):
        return torch.compile(f, **options)
    target = optimized.unwrapped(f) if isinstance(f, torch.nn.Module) else substitute.innermost(f)
    program = _Mended(target, fix or _fix, level, strict, options)
    call = caller(program, target)
    if isinstance(target, torch.nn.Module):
        return optimized.CompiledModule(target, program.context(), call, again)
    functools.update_wrapper(call, target)
    substitute.mark_as_wrapper(call, target)
    return call


class _Mended:
    """One program and how far it is mended. ``compiled`` is replaced as a whole: a call sees one state."""

    def __init__(
        self, target: Target, fix: Fix, level: Level, strict: bool, options: Mapping[str, Any]
    ) -> None:
        self.target = target
        self.fix = fix
        self.level = level
        self.strict = strict
        self.options = {"fullgraph": True, **options}
        self.name = getattr(target, "__qualname__", type(target).__qualname__)
        self.calls: tuple[Call, ...] = ()  # copies of the arguments that the mends were made for
        self.result: FixResult | None = None  # the mend in use
        self.known = Known(target)  # the sorts of calls that it is right for
        self.hopeless: dict[tuple[str, ...], GraphBreaksLeft] = {}  # what a mend could not do, it can't again
        self.set_up: set[str] = set()  # breaks that were looked at as those of a first call alone
        self.lookup: substitute.Lookup = _as_it_is
        self.whole = True  # one graph or an error, so that nothing of the program ran before an error
        self.compiled = self.build()

    def context(self, *, whole: bool = True) -> Any:
        return optimized.context(self.options, whole=whole)

    def build(self, *, whole: bool = True) -> Target:
        """The program for the compiler, with the mended code so far."""
        compile = self.context(whole=whole)
        if self.result is None:
            compiled: Target = compile(self.root(substitute.unchecked))
            return compiled if whole else traps.set_for(compiled)
        compiled = compile(self.root(self.known.check))
        return compiled if whole else traps.set_for(self.known.at_every_call(compiled))

    def root(self, check: substitute.Check) -> Target:
        if isinstance(self.target, torch.nn.Module):
            return substitute.module_root(self.target, self.lookup, check)
        return substitute.root(self.target, self.lookup, check)

    @substitute.not_compiled
    def call(self, broken: Exception, tried: Target, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Do a call that broke the graph: mend for its arguments, then make it."""
        if not isinstance(broken, _BREAKS) and not self.may_be_ours(broken):
            raise broken
        call, result, right = Call(args, kwargs), None, False
        key = _key(broken, call)
        if key in self.hopeless:
            raise self.hopeless[key].again()
        with _lock:
            if self.compiled is tried:  # else another thread has mended it meanwhile
                with without_saved_tensor_hooks():
                    seen = run_call(self.target, call)
                    only_sets_up = bool(seen.created) and self.only_sets_up(broken, call)
                if seen.error is not None or only_sets_up:
                    # it raises, compiled or not: let the user see that; or no later call does what breaks the graph
                    return self.target(*args, **kwargs)
                try:
                    with without_saved_tensor_hooks():
                        right = isinstance(broken, UnknownSort) and self.is_right_for(call)
                        result = None if right else self.mend(call, broken)
                except SourceUnavailable as error:
                    return self.give_up(broken, (_without_source(self.target, error),), None, args, kwargs)
            compiled, known = self.compiled, self.known
        try:
            with known.learning() if right or self.result is result is not None else nullcontext():
                return compiled(*args, **kwargs)
        except STOPPED as error:
            broken = error
        except Exception as error:
            if not optimized.failed_to_capture(error):
                raise
            broken = error
        if result is None:
            return self.call(broken, compiled, args, kwargs)
        try:
            return self.give_up(broken, unproven(result) or left(result), result, args, kwargs)
        except GraphBreaksLeft as error:
            self.hopeless[key] = self.hopeless[_key(broken, call)] = error
            raise

    def may_be_ours(self, failure: Exception) -> bool:
        """Whether mended code may have brought a failure, or more captured than by default; and nothing of the
        program has run."""
        return self.whole and (bool(self.calls) or optimized.failed_to_capture(failure))

    def captured(self) -> Target:
        """The program as it is mended so far, captured as one graph that no backend compiles."""
        options = {name: value for name, value in self.options.items() if name in ("fullgraph", "dynamic")}
        compile = optimized.context({**options, "backend": "eager"}, whole=True)
        compiled: Target = compile(self.root(substitute.unchecked))
        return compiled

    def is_right_for(self, call: Call) -> bool:
        """Whether the mended code does what the original does, on a call of another sort."""
        assert self.result is not None
        with listening():
            program = Program(self.name, self.target, (copy_call(call),))
            evidence = later(program, self.result, self.level, self.captured())
        return all(check.passed is not False for check in evidence.checks)

    def only_sets_up(self, broken: Exception, call: Call) -> bool:
        """Whether the break is gone when the call is made a second time: the first one installs hooks, fills a cache.

        Asked once for a break: a program whose calls take turns would be run in eager mode for ever.
        """
        if isinstance(broken, UnknownSort) or str(broken) in self.set_up:
            return False
        self.set_up.add(str(broken))
        world = World(Program(self.name, self.target, (call,)))
        world.snapshot()
        run_call(self.target, call, world=world, restore=False)
        error = run_call(self.captured(), call, world=world).error
        return error is None or str(error.exception) != str(broken)

    def mend(self, call: Call, broken: Exception) -> FixResult:
        """Mend for this call and those before it, and take what came out.

        What torch captures with ``fullgraph=True`` alone may be another on each call (a list that has grown by a number
        is): then that is mended which breaks the graph without.
        """
        calls = (*self.calls, copy_call(call))
        options = dict(self.options)
        if optimized.recompiles_for_ever(broken):
            options["fullgraph"] = False
        # the program runs many times: what it prints then is not for the user
        with listening(), traps.set_everywhere():
            result = self.fix(Program(self.name, self.target, calls, options), level=self.level)
        if result.changes and not unproven(result):  # made from all the calls: they replace what was there
            codes = code_map(Workspace({change.path: private(change) for change in result.changes}))
            codes.install_helpers()
            self.lookup = codes.get
            self.calls = calls
            self.result = result
            self.known = Known(self.target)
            self.whole = True
            self.compiled = self.build()
        return result

    def give_up(
        self,
        broken: Exception,
        sites: tuple[Left, ...],
        result: FixResult | None,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
    ) -> Any:
        """Say what is left: an error, or a warning and the best partial result."""
        if isinstance(broken, UnknownSort):
            sites = sites or elsewhere(self.result)
        if not sites and (self.strict or not optimized.failed_to_capture(broken)):
            raise broken
        if self.strict:
            raise GraphBreaksLeft(self.name, sites, result)
        if not isinstance(broken, optimized.BREAKS):
            self.lookup, self.result = _as_it_is, None  # graph breaks don't help: it is not for this call
        self.whole = False
        self.compiled = self.build(whole=False)
        words = description(self.name, sites) if sites else failed(self.name, broken)
        if optimized.failed_to_capture(broken) and self.fails(Call(args, kwargs)):
            self.compiled = self.target
            words += "\nThe compiler fails also with graph breaks: it runs uncompiled from now on."
        warnings.warn(words, GraphBreaksLeftWarning, stacklevel=_depth())
        with self.known.learning():
            return self.compiled(*args, **kwargs)

    def fails(self, call: Call) -> bool:
        """Whether the compiled program raises on a copy of a call."""
        world = World(Program(self.name, self.target, (call,)))
        world.snapshot()
        with without_saved_tensor_hooks(), self.known.learning():
            return run_call(self.compiled, call, world=world).error is not None


_BREAKS = (*optimized.BREAKS, UnknownSort)
_lock = threading.RLock()  # one mend at a time in the process: it gives live functions other code


def _fix(program: Program, *, level: Level) -> FixResult:
    return mend(program, look(program), level=level)


def _key(broken: Exception, call: Call) -> tuple[str, ...]:
    return (broken.sort,) if isinstance(broken, UnknownSort) else (str(broken), *_signature(call))


def _signature(value: Any, path: str = "", depth: int = 6) -> tuple[str, ...]:
    """What the compiler goes by: metadata of tensors, values of Python scalars, types of the rest."""
    if isinstance(value, torch.Tensor):
        told = f"{tuple(value.shape)} {value.dtype} {value.device} {value.requires_grad}"
        return (f"{path}: {told}",)
    if value is None or isinstance(value, bool | int | float | str):
        return (f"{path}: {value!r}",)
    parts = children(value) if depth else ()  # objects may hold each other
    inner = [line for name, item in parts for line in _signature(item, path + name, depth - 1)]
    return (f"{path}: {type(value).__qualname__}", *inner)


def _as_it_is(code: object) -> None:
    return None


def _depth() -> int:
    """``warnings.warn``'s stacklevel for the line of the user that made the call."""
    depth, frame = 1, sys._getframe(1)
    while frame.f_back is not None and _is_machinery(frame.f_globals.get("__name__", "")):
        depth, frame = depth + 1, frame.f_back
    return depth


def _is_machinery(module: str) -> bool:
    return module.startswith(("onegraph.", "torch."))


def _without_source(target: Target, error: SourceUnavailable) -> Left:
    code = code_of(getattr(target, "forward", target))
    return Left(
        kind="other",
        file=code.co_filename,
        line=code.co_firstlineno,
        column=1,
        function=code.co_qualname,
        source=code.co_name,
        reason=error.reason,
        next_step=error.next_step,
    )
