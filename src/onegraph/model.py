"""What flows between the stages: frozen dataclasses, no logic.

``Program`` goes in; ``observe`` makes a ``Trace``; ``diagnose`` makes ``Findings``; kinds propose ``Candidate``
texts; ``verify`` makes ``Evidence``; ``mend`` keeps each decision as a ``Repair``; the end is a ``FixResult``.

Lines are counted from 1. Columns are UTF-8 byte offsets from 0, as in ``ast`` and ``code.co_positions()``;
only the report adds 1 to a column.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from types import CodeType
from typing import Any

MENDED = "<onegraph>"  # code compiled from a mended text has this before its real path as its file name


class Level(StrEnum):
    """What a repair may change; see docs/levels.md. Ordered: exact, relaxed, lossy."""

    EXACT = "exact"
    RELAXED = "relaxed"
    LOSSY = "lossy"


class Outcome(StrEnum):
    """How the graph ends at a break."""

    RESUMED = "resumed"  # a new graph starts behind it
    REST_EAGER = "rest of the frame eager"  # compiled up to an earlier point, the rest of the frame is eager
    FRAME_SKIPPED = "whole frame skipped"  # nothing of the frame is compiled
    HIDDEN = "hidden"  # not reached by the compiler yet: it stands behind another break (probe mode)


class Owner(StrEnum):
    """Whose code a site stands in."""

    USER = "user"
    DEPENDENCY = "dependency"
    STDLIB = "stdlib"
    TORCH = "torch"


@dataclass(frozen=True, slots=True)
class Span:
    """A range of source text."""

    file: str
    line: int
    column: int
    end_line: int
    end_column: int


@dataclass(frozen=True, slots=True)
class Frame:
    """One Python frame on the stack of a break: the user's function, never a resume function."""

    span: Span
    function: str  # qualified name, as ``code.co_qualname`` of the function that the user wrote
    code: CodeType | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Value:
    """What Dynamo knew about one local variable. ``shape`` holds ints, or symbol names for dynamic sizes."""

    type: str
    shape: tuple[int | str, ...] | None = None
    dtype: str | None = None
    device: str | None = None
    requires_grad: bool | None = None
    constant: str | None = None  # repr of a Python constant


@dataclass(frozen=True, slots=True)
class Break:
    """One graph break as Dynamo reported it. ``stack`` runs from the outermost frame to the innermost."""

    gb_type: str
    message: str
    outcome: Outcome
    stack: tuple[Frame, ...]
    context: str = ""
    explanation: str = ""
    hints: tuple[str, ...] = ()
    locals: Mapping[str, Value] = field(default_factory=dict)
    consequence: bool = False  # follows from another break ("graph break in loop", "Missing tp_iternext")
    intended: bool = False  # torch.compiler.disable, torch._dynamo.graph_break: the author asked for it


@dataclass(frozen=True, slots=True)
class Graph:
    """One FX graph handed to the backend."""

    function: str
    file: str
    line: int
    nodes: int  # number of call nodes


@dataclass(frozen=True, slots=True)
class Recompile:
    """One recompile and the guard that failed."""

    function: str
    file: str
    line: int
    reasons: tuple[str, ...]
    caused_by_break: bool = False  # a guard on a value that exists only because a break handed it over


@dataclass(frozen=True, slots=True)
class Attempt:
    """One frame that Dynamo compiled or tried to, in time order. ``graphs``, ``breaks`` and ``recompile`` are
    positions in the lists of the trace."""

    function: str
    file: str
    line: int
    start: float  # seconds since the watch began
    seconds: float
    resumed: bool  # the part of the function behind a break
    graphs: tuple[int, ...] = ()
    breaks: tuple[int, ...] = ()
    recompile: int | None = None


@dataclass(frozen=True, slots=True)
class Trace:
    """Everything seen while a program ran under torch.compile."""

    breaks: tuple[Break, ...] = ()
    graphs: tuple[Graph, ...] = ()
    recompiles: tuple[Recompile, ...] = ()
    frames_given_up: tuple[str, ...] = ()  # "function (file:line)", run eagerly as a whole
    limits_reached: tuple[str, ...] = ()  # "function (file:line)", recompile limit: eager from then on
    disagreements: tuple[str, ...] = ()  # hooks against structured trace, in words
    compiled_calls: int = 0  # frames that Dynamo tried to compile; 0 means "nothing was compiled"
    error: BaseException | None = None  # raised by the program itself, or by the compiler
    seconds: float = 0.0
    attempts: tuple[Attempt, ...] = ()
    unseen: tuple[str, ...] = ()  # where looking behind the breaks ended early, in words


@dataclass(frozen=True, slots=True)
class Site:
    """One source statement or expression where the graph breaks; one row of the report."""

    kind: str
    span: Span
    source: str  # text in the span (first line)
    function: str
    outcome: Outcome
    owner: Owner
    package: str  # "transformers 4.52.4" for a dependency, "" for the user's code
    count: int  # number of break events
    recompiles: int  # recompiles that this site causes
    intended: bool
    reason: str  # one sentence in the user's terms
    breaks: tuple[Break, ...] = ()


@dataclass(frozen=True, slots=True)
class Findings:
    """A diagnosed trace: sites worst first, and the totals."""

    sites: tuple[Site, ...]
    trace: Trace

    @property
    def nothing_compiled(self) -> bool:
        return not self.trace.graphs and not self.sites


@dataclass(frozen=True, slots=True)
class Call:
    """The arguments of one call."""

    args: tuple[Any, ...] = ()
    kwargs: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Program:
    """A callable (function or nn.Module) with real inputs and the user's own torch.compile keywords."""

    name: str
    target: Callable[..., Any]
    calls: tuple[Call, ...]
    options: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Predicate:
    """A tensor condition before and after a repair, as source text, so that verification can force it.

    ``before`` is a test (or a conjunct of a test) in ``function`` of the text before the repair; ``after`` is the
    first argument of the ``torch.where``/``torch.cond`` (or helper) call in the text after it. Both are normalised
    by ``ast.unparse``.
    """

    function: str
    before: str
    after: str
    endless: bool | None = None  # the outcome on which a loop in the graph would never end


@dataclass(frozen=True, slots=True)
class Candidate:
    """A proposed repair of one site: the whole new text of one file."""

    kind: str
    level: Level
    title: str  # what it does, in one short sentence
    text: str  # new text of the whole file
    functions: tuple[str, ...]  # qualified names of the functions whose bodies changed
    notes: tuple[str, ...] = ()  # what moves, for level relaxed and lossy
    predicates: tuple[Predicate, ...] = ()
    rounding: bool = False  # computes the same in other operations: equal within torch.testing's tolerances
    partial: bool = False  # a first step: the same site is worked on again in the new text
    gives_way: bool = False  # to the next candidate, where inputs of other types come out differently
    symbols: bool = (
        False  # a number or size becomes a symbol of the graph (u0): to no avail where Python asks for it
    )


@dataclass(frozen=True, slots=True)
class Declined:
    """Why a kind proposes nothing (more) for a site, and what the user can do."""

    kind: str
    reason: str
    next_step: str


@dataclass(frozen=True, slots=True)
class Check:
    """One thing that verification looked at. ``passed`` is None when it could not be verified."""

    name: str  # "gradients", "recount, default mode", "inductor", ...
    passed: bool | None
    detail: str = ""


@dataclass(frozen=True, slots=True)
class Evidence:
    """What was run and seen. It is verified when every check passed and none is unverified."""

    checks: tuple[Check, ...] = ()
    inputs: int = 0  # calls compared, variations included
    max_abs: float = 0.0
    max_rel: float = 0.0
    seconds: float = 0.0
    differing: tuple[
        str, ...
    ] = ()  # calls with inputs of other types than recorded that come out differently

    @property
    def verified(self) -> bool:
        return bool(self.checks) and all(check.passed for check in self.checks)


class Status(StrEnum):
    """What became of a repair."""

    APPLIED = "applied"  # part of the mended program
    DECLINED = "declined"  # no kind proposes a repair, or the level asked for forbids it
    REJECTED = "rejected"  # every candidate was tried and failed; ``reason`` says how


@dataclass(frozen=True, slots=True)
class Repair:
    """The decision on one site. ``reason`` tells why it was declined or rejected, or what a relaxed one moves."""

    site: Site
    status: Status
    kind: str
    level: Level | None
    title: str
    reason: str
    notes: tuple[str, ...] = ()
    next_step: str = ""
    evidence: Evidence = field(default_factory=Evidence)
    rounding: bool = False  # as of the candidate that was applied


@dataclass(frozen=True, slots=True)
class FileChange:
    """One file before and after mending. ``functions`` are the qualified names of the changed functions."""

    path: str
    original: str
    mended: str
    functions: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class FixResult:
    """The end of the pipeline."""

    program: str
    before: Findings
    after: Findings
    repairs: tuple[Repair, ...]
    changes: tuple[FileChange, ...]
    evidence: Evidence
    seconds: Mapping[str, float] = field(default_factory=dict)  # stage -> seconds
    predicates: tuple[Predicate, ...] = ()  # of the repairs applied


@dataclass(frozen=True, slots=True)
class Key:
    """What a site is called from one run to the next, and in the baseline: edits elsewhere don't change it."""

    kind: str
    file: str
    function: str
    statement: str
    occurrence: int  # among equal statements of one function


class Standing(StrEnum):
    """How the gate takes a break."""

    NEW = "new"  # counts against the limit
    BASELINED = "baselined"
    SUPPRESSED = "suppressed"  # by a comment with a reason
    IGNORED = "ignored"  # by pyproject.toml
    INTENDED = "intended"


@dataclass(frozen=True, slots=True)
class Judged:
    """One site and how the gate takes it; ``note`` says why it passes."""

    site: Site
    key: Key
    standing: Standing
    note: str


@dataclass(frozen=True, slots=True)
class Limits:
    """How much passes. ``recompiles`` is None where they are not limited."""

    breaks: int = 0
    recompiles: int | None = None


@dataclass(frozen=True, slots=True)
class Verdict:
    """What the gate says about one run."""

    judged: tuple[Judged, ...]
    gone: tuple[Key, ...]  # entries of the baseline whose break is no more
    unused: tuple[str, ...]  # "file:line" of suppressions that matched nothing
    faulty: tuple[str, ...]  # suppressions that can't be understood, and why
    recompiles: int  # those that count
    limits: Limits
    compiled: bool
    problems: tuple[str, ...]  # why the run doesn't pass, a sentence each
    keys: tuple[Key, ...] = ()  # of everything seen: what a baseline would hold
    other_torch: tuple[str, ...] = ()  # the baseline has this target for these versions of torch only

    @property
    def new(self) -> tuple[Judged, ...]:
        return tuple(each for each in self.judged if each.standing is Standing.NEW)

    @property
    def passed(self) -> bool:
        return not self.problems
