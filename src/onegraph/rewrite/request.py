"""What a kind is asked: one site in the current text of one file, and where to measure facts."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Protocol

from onegraph.model import Level, Site


@dataclass(frozen=True, slots=True)
class Fact:
    """Metadata of one value that an expression or name really had in an uncompiled run.

    ``type`` is the qualified type name ("torch.Tensor", "float", "NoneType", ...), or "<undefined>" for a
    name that was not bound at that point. ``value`` is the repr of None, bool, int, float and short str
    constants. ``storage`` is equal for two facts of one run whose tensors share storage."""

    type: str
    shape: tuple[int, ...] | None = None
    dtype: str | None = None  # "torch.float32"
    device: str | None = None
    requires_grad: bool | None = None
    stride: tuple[int, ...] | None = None
    value: str | None = None
    storage: int | None = None
    items: tuple[int, ...] | None = None  # of a tuple or list of ints, as first seen
    sizes: tuple[int, ...] | None = None  # of a NumPy array, as first seen; ``dtype`` is then NumPy's

    @property
    def is_tensor(self) -> bool:
        return self.shape is not None


UNDEFINED = "<undefined>"


class Facts(Protocol):
    """Measures the current text on the recorded inputs, uncompiled; results are cached.

    Nodes belong to any tree parsed from ``Request.text``; they are identified by their position.
    ``force`` gives predicates (expressions) a fixed outcome: the predicate is still evaluated, and its
    value replaced by a value of the same type and shape filled with the outcome. An expression that was
    never evaluated has no facts: an empty tuple."""

    def values(
        self, *nodes: ast.expr, force: Mapping[ast.expr, bool] | None = None
    ) -> tuple[tuple[Fact, ...], ...]:
        """The distinct facts of each expression, in order of first evaluation."""
        ...

    def names(
        self,
        at: ast.stmt,
        names: Iterable[str],
        *,
        after: bool = False,
        force: Mapping[ast.expr, bool] | None = None,
    ) -> Mapping[str, tuple[Fact, ...]]:
        """The distinct facts of local names just before (or just after) a statement."""
        ...


@dataclass(frozen=True, slots=True)
class Request:
    """One site to mend. ``site.span`` is a position in ``text``, the current text of the file ``path``.

    ``measure`` gives the facts of another text of the file, with the qualified names of the functions that
    changed: a repair that works in steps measures what the first step has made."""

    site: Site
    path: str
    text: str
    level: Level
    facts: Facts
    measure: Callable[[str, tuple[str, ...]], Facts] | None = None
