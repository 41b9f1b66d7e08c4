"""What a kind is: one module in this package with the names that ``Kind`` lists."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

from onegraph.model import Break, Candidate, Declined, Level
from onegraph.rewrite.request import Request


@dataclass(frozen=True, slots=True)
class Example:
    """A small module before and after its repair; tests and the docs page are made from it.

    ``before``/``after`` are whole module texts that define ``program`` (a function or Module instance) and
    ``inputs()`` returning a list of argument tuples. ``after`` is compared byte for byte.
    """

    title: str
    before: str
    after: str
    level: Level
    grad: bool = False
    rounding: bool = False  # the same in other operations: equal up to rounding


@dataclass(frozen=True, slots=True)
class Untouched:
    """A near miss: a module that must come back unchanged. ``reason`` is a part of the text of the decline,
    or "" where nothing breaks."""

    title: str
    text: str
    reason: str


@runtime_checkable
class Kind(Protocol):
    """The module-level names of a kind's file."""

    NAME: str  # the pattern in the user's words: "branch_on_tensor"
    TITLE: str  # one line for tables and docs
    GB_IDS: tuple[str, ...]  # torch's registry ids: "GB0170"
    EXAMPLES: tuple[Example, ...]
    UNTOUCHED: tuple[Untouched, ...]
    recognises: Callable[
        [Break, ast.AST | None], bool
    ]  # the break and the innermost statement or expression at it
    repairs: Callable[[Request], Iterator[Candidate | Declined]]  # best first


def is_kind(module: Any) -> bool:
    return isinstance(module, Kind)
