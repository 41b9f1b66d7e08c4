"""What a compiled program may hold fast although eager looks again on each call: Python numbers among the arguments,
and environment variables.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from torch.utils import _pytree as pytree

from onegraph.model import Call, Program
from onegraph.verify.variations import Variation

_LIMIT = 4  # numbers, and variables
_LOOKUP = ("os", "collections.abc")  # modules that a lookup goes through


def other_numbers(program: Program) -> Iterator[Variation]:
    """The first call with other ints and floats, one argument at a time.

    Two of each: on the second value the compiler makes a symbol of the number, and the third one runs on that. An int
    may be a size or an index that nothing else fits: it counts where eager accepts it.
    """
    call = program.calls[0]
    values, structure = pytree.tree_flatten((call.args, dict(call.kwargs)))
    numbers = [place for place, value in enumerate(values) if type(value) in (int, float)]
    for place in numbers[:_LIMIT]:
        old = values[place]
        for new in (old + 1, old + 2) if type(old) is int else (old * 1.5 + 0.25, old * 0.5 + 1.75):
            args, kwargs = pytree.tree_unflatten([*values[:place], new, *values[place + 1 :]], structure)
            yield Variation(f"{new} for {old}", Call(args, kwargs), seed=6, resized=True)


@dataclass(frozen=True, slots=True)
class Read:
    """An environment variable that the program asked for, and the line that asked."""

    name: str
    value: str | None
    place: str  # "file:line"

    @property
    def other(self) -> str:
        """Another value for it: a switch is turned."""
        if self.value in (None, "", "0"):
            return "1"
        return str(int(self.value) + 1) if self.value.isdigit() and self.value != "1" else "0"


@contextmanager
def environment_reads() -> Iterator[dict[str, Read]]:
    """What is read from ``os.environ`` inside, by name; what torch itself reads is left out."""
    reads: dict[str, Read] = {}
    kind: Any = type(os.environ)
    lookup = kind.__getitem__

    def noted(environ: Any, name: str) -> Any:
        place = _asked_by()
        if isinstance(name, str) and place and len(reads) < _LIMIT:
            value = lookup(environ, name) if name in set(environ) else None
            reads.setdefault(name, Read(name, value, place))
        return lookup(environ, name)

    kind.__getitem__ = noted
    try:
        yield reads
    finally:
        kind.__getitem__ = lookup


def _asked_by() -> str:
    """ "file:line" behind the lookup; "" where torch asks for itself."""
    frame = sys._getframe(2)
    while frame.f_back is not None and frame.f_globals.get("__name__") in _LOOKUP:
        frame = frame.f_back
    package = str(frame.f_globals.get("__name__")).partition(".")[0]
    return "" if package == "torch" else f"{frame.f_code.co_filename}:{frame.f_lineno}"


def with_variable(target: Callable[..., Any], name: str, value: str) -> Callable[..., Any]:
    """``target``, called while an environment variable has another value."""

    def called(*args: Any, **kwargs: Any) -> Any:
        before = os.environ.get(name)
        os.environ[name] = value
        try:
            return target(*args, **kwargs)
        finally:
            if before is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = before

    return called
