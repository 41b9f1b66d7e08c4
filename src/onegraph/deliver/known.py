"""The sorts of calls that a mended program is known to be right for."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from onegraph.state import sort_of, tensors_in
from onegraph.torch_private import substitute
from onegraph.torch_private.tensors import can_be_copied


class UnknownSort(Exception):
    """The compiler was about to compile mended code for a call of a sort that nothing was compared for.
    Nothing of the program has run."""

    def __init__(self, sort: str) -> None:
        super().__init__("a call of another sort than those that the program was mended for")
        self.sort = sort


class Known:
    """Asked by the compiler, before it compiles the mended code; a call of compiled code asks nobody."""

    def __init__(self, target: Callable[..., Any]) -> None:
        self._target = target
        self._sorts: set[str] = set()
        self._here = threading.local()

    def check(self, arguments: Mapping[str, Any]) -> None:
        """Raise UnknownSort for a call of a new sort. Where nothing can be tried (fake tensors), all pass."""
        if all(can_be_copied(tensor) for _, tensor in tensors_in(dict(arguments), "")):
            self._check(sort_of(self._target, arguments))

    def at_every_call(self, compiled: Callable[..., Any]) -> Callable[..., Any]:
        """``compiled`` for a program in several graphs. When one behind a break is compiled, parts of the program
        have run, and the graphs before it may never have looked at an argument: so the call's own are looked at."""

        def call(*args: Any, **kwargs: Any) -> Any:
            self._check(sort_of(None, {"args": args, "kwargs": kwargs}))
            return compiled(*args, **kwargs)

        substitute.skip(call)
        return call

    def _check(self, sort: str) -> None:
        if getattr(self._here, "learning", False):
            self._sorts.add(sort)
        elif sort not in self._sorts:
            raise UnknownSort(sort)

    @contextmanager
    def learning(self) -> Iterator[None]:
        """A call made inside, in this thread, is of a sort that the program is right for."""
        self._here.learning = True
        try:
            yield
        finally:
            self._here.learning = False
