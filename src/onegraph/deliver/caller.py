"""The function that the user calls in place of a compiled one: it must cost next to nothing.

It has the parameters of the target, so that a call is bound once and not packed into ``*args`` and
``**kwargs`` and unpacked again (a third of a microsecond, where a whole compiled call takes twenty).
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from types import CodeType, FunctionType
from typing import Any, Protocol

from onegraph.deliver.known import UnknownSort
from onegraph.torch_private import optimized, substitute

STOPPED: tuple[type[Exception], ...] = (*optimized.BREAKS, *optimized.FAILURES, UnknownSort)


class Compiled(Protocol):
    """A program that is compiled, and mended when it breaks the graph."""

    @property
    def compiled(self) -> Callable[..., Any]: ...

    def call(
        self, broken: Exception, tried: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Any:
        """Do a call that ``tried`` could not do because of ``broken``."""
        ...


def caller(program: Compiled, target: Callable[..., Any]) -> Callable[..., Any]:
    """A function with the signature of ``target`` that calls ``program``."""
    function = _exact(program, target) if type(target) is FunctionType else _general(program)
    substitute.skip(function)
    return function


def _general(program: Compiled) -> Callable[..., Any]:
    def call(*args: Any, **kwargs: Any) -> Any:
        tried = program.compiled
        try:
            return tried(*args, **kwargs)
        except STOPPED as error:
            broken = error
        except Exception as error:
            if not optimized.failed_to_capture(error):
                raise
            broken = error
        # Outside of the handler: an exception of the program must not get ours as its context.
        return program.call(broken, tried, args, kwargs)

    return call


_EXACT = """
def call({parameters}):
    try:
        return (_onegraph_tried := _onegraph_program.compiled)({arguments})
    except _onegraph_breaks as _onegraph_error:
        _onegraph_broken = _onegraph_error
    except _onegraph_any as _onegraph_error:
        if not _onegraph_failed_to_capture(_onegraph_error):
            raise
        _onegraph_broken = _onegraph_error
    return _onegraph_program.call(_onegraph_broken, _onegraph_tried, ({positional}), {{{named}}})
"""


def _exact(program: Compiled, target: FunctionType) -> Callable[..., Any]:
    positional, keyword, star, stars = _parameters(target.__code__)
    only = target.__code__.co_posonlyargcount
    parameters = [*positional[:only], *(["/"] if only else []), *positional[only:]]
    parameters += [f"*{star}"] if star else ["*"] if keyword else []
    parameters += [*keyword, *([f"**{stars}"] if stars else [])]
    spread, spreads = [f"*{star}"] if star else [], [f"**{stars}"] if stars else []
    text = _EXACT.format(
        parameters=", ".join(parameters),
        arguments=", ".join([*positional, *spread, *(f"{name}={name}" for name in keyword), *spreads]),
        positional="".join(f"{each}, " for each in [*positional, *spread]),
        named=", ".join([*(f"{name!r}: {name}" for name in keyword), *spreads]),
    )
    names: dict[str, Any] = {
        "__name__": __name__,
        "_onegraph_program": program,
        "_onegraph_breaks": STOPPED,
        "_onegraph_any": Exception,
        "_onegraph_failed_to_capture": optimized.failed_to_capture,
    }
    exec(compile(text, "<onegraph.compile>", "exec"), names)
    made: FunctionType = names["call"]
    functools.update_wrapper(made, target)
    made.__defaults__, made.__kwdefaults__ = target.__defaults__, target.__kwdefaults__
    return made


def _parameters(code: CodeType) -> tuple[list[str], list[str], str, str]:
    """Names of positional and keyword-only parameters, of ``*args`` and ``**kwargs`` ("" without)."""
    rest: Iterator[str] = iter(code.co_varnames)
    positional = [next(rest) for _ in range(code.co_argcount)]
    keyword = [next(rest) for _ in range(code.co_kwonlyargcount)]
    star = next(rest) if code.co_flags & 0x4 else ""
    stars = next(rest) if code.co_flags & 0x8 else ""
    return positional, keyword, star, stars
