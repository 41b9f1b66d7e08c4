"""What the pieces of lowering pass to each other."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import Enum

from onegraph.lowering.predicate import Force, Test
from onegraph.lowering.state import Change

RETURN = "return"  # the key of the value that both sides of a branch return


class Form(Enum):
    """How the sides are chosen between, in the order in which it is tried."""

    WHERE = "torch.where"
    # For inputs with which the sides differ in dtype or shape.
    CHECKED = "torch.where where the sides are alike"
    COND = "torch.cond"


@dataclass
class Side:
    """The statements of one side, the forced predicates that lead there, and the line of its header."""

    statements: list[ast.stmt]
    force: Force
    header: int
    changes: dict[str, Change] = field(default_factory=dict)


@dataclass(frozen=True)
class Agreed:
    """What both sides have in common about one value."""

    number: str | None = None  # "int", "float", "bool": a Python number that differs
    constant: bool = False  # one Python value, the same on both sides
    discrete: bool = False  # a tensor of integers or bools
    requires_grad: bool = True
    mixed: bool = False  # it requires a gradient on one side only
    laid_out: bool = False  # in another order of its dimensions in memory on each side
    known: bool = True  # False: nothing was measured on one of the sides


@dataclass
class Out:
    """One thing that a branch makes: a name, an attribute, a tensor changed in place, or the returned
    value."""

    key: str
    change: Change | None = None
    in_place: bool = False  # the storage has to be kept
    register: str | None = (
        None  # the register_buffer call that both sides write it with; \0 stands for the value
    )
    kinds: list[Agreed] = field(default_factory=list)
    inner: str = ""  # its name inside the closures that change it

    @property
    def number(self) -> str | None:
        """The type of a Python number."""
        return next((kind.number for kind in self.kinds if kind.number), None)

    @property
    def discrete(self) -> bool:
        """A tensor of integers or bools: torch.cond can't differentiate when it is returned next to
        others."""
        return any(kind.discrete for kind in self.kinds)

    @property
    def needs_grad(self) -> bool:
        return any(kind.requires_grad for kind in self.kinds)

    @property
    def mixed(self) -> bool:
        """Whether it requires a gradient on one side only: what chooses between the two gives one that does."""
        return any(kind.mixed for kind in self.kinds)

    @property
    def attribute(self) -> bool:
        return "." in self.key

    def assigned(self, value: str) -> str:
        """The line that writes the value back, in the manner of the user."""
        if self.in_place:
            return f"{self.key}.copy_({value})\n"
        return (
            f"{self.key} = {value}\n" if self.register is None else self.register.replace("\0", value) + "\n"
        )


@dataclass
class Branch:
    """One branch in canonical form: ``first`` runs where ``test.tensor`` is true."""

    node: ast.If | ast.IfExp
    test: Test
    first: Side
    second: Side
    target: str | None  # RETURN where both sides return
    comments: Sequence[str] = ()
