"""The listener that turns what the hooks tell into the records of a Trace."""

from __future__ import annotations

import dis
import inspect
import re
import time
from dataclasses import replace
from types import CodeType

from onegraph.model import Attempt, Break, Frame, Graph, Outcome, Recompile
from onegraph.observe import positions
from onegraph.observe.crosscheck import CrossCheck
from onegraph.torch_private.records import Raised

INTENDED = frozenset(
    (
        "Call to `torch._dynamo.graph_break()`",
        "Call to `torch._dynamo.skip_frame()`",
        "Skip calling `torch.compiler.disable()`d function",
        "Skip inlining `torch.compiler.disable()`d function",
    )
)
# What Dynamo reports only because another break came before.
_CONSEQUENCES = frozenset(("graph break in loop", "Graph break under GenericContextWrappingVariable"))
_AFTERMATH = frozenset(
    ("Missing tp_iternext", "Read uninitialized cell", "Generator reconstruction with mutations")
)
_NAME = re.compile(r"[A-Za-z_]\w*")


class Recorder:
    """Implements ``torch_private.records.Listener``."""

    def __init__(self) -> None:
        self.breaks: list[Break] = []
        self.graphs: list[Graph] = []
        self.recompiles: list[Recompile] = []
        self.given_up: list[str] = []
        self.limits: list[str] = []
        self.faults: list[str] = []
        self.attempts = 0
        self.timeline: list[Attempt] = []
        self._start = time.perf_counter()
        self._told = 0, 0, 0  # graphs, breaks and recompiles that belong to an attempt already
        self.check = CrossCheck()

    def compiled(self, code: CodeType, failed: bool, resumed: bool, began: float) -> None:
        self.attempts += 1
        if failed:
            self.check.hooked_failure()
        self._close(code, resumed, began)

    def _close(self, code: CodeType, resumed: bool, began: float) -> None:
        """What was told since the last attempt belongs to this one."""
        graphs, breaks, recompiles = self._told
        self._told = len(self.graphs), len(self.breaks), len(self.recompiles)
        self.timeline.append(
            Attempt(
                function=code.co_qualname,
                file=code.co_filename,
                line=code.co_firstlineno,
                start=began - self._start,
                seconds=time.perf_counter() - began,
                resumed=resumed,
                graphs=tuple(range(graphs, len(self.graphs))),
                breaks=tuple(range(breaks, len(self.breaks))),
                recompile=recompiles if len(self.recompiles) > recompiles else None,
            )
        )

    def broke(self, raised: Raised, outcome: Outcome, reason: str) -> None:
        self.check.hooked_break(reason)
        self._add(raised, outcome, None)

    def frame_ended(self, code: CodeType, raised: Raised, logged: bool, swallowed: bool) -> None:
        if code.co_flags & inspect.CO_GENERATOR:
            self.attempts += 1  # Dynamo refuses a generator before it starts on it
        if not logged:
            before = len(self.breaks)
            self._add(raised, Outcome.FRAME_SKIPPED, code)
            self._belongs_to_last(code, before)
        if swallowed:
            self.given_up.append(_place(code))

    def _belongs_to_last(self, code: CodeType, first: int) -> None:
        """A break told after its attempt was closed."""
        last = self.timeline[-1] if self.timeline else None
        if last is not None and (last.file, last.line) == (code.co_filename, code.co_firstlineno):
            more = tuple(range(first, len(self.breaks)))
            self.timeline[-1] = replace(last, breaks=last.breaks + more)
            self._told = len(self.graphs), len(self.breaks), len(self.recompiles)

    def limit_reached(self, code: CodeType) -> None:
        if _place(code) not in self.limits:
            self.limits.append(_place(code))

    def graph(self, code: CodeType, nodes: int) -> None:
        self.graphs.append(Graph(code.co_qualname, code.co_filename, code.co_firstlineno, nodes))

    def recompiling(self, code: CodeType, resumed: bool, reasons: tuple[str, ...]) -> None:
        self.check.hooked_recompile()
        caused = resumed and any(_handed_over(code, reason) for reason in reasons)
        self.recompiles.append(
            Recompile(code.co_qualname, code.co_filename, code.co_firstlineno, reasons, caused)
        )

    def fault(self, where: str, error: Exception) -> None:
        self.faults.append(f"hook at {where} failed: {type(error).__name__}: {error}")

    def read(self, name: str, payload: object) -> None:
        """A record of the structured trace."""
        try:
            self.check.traced(name, payload)
        except Exception as error:  # noqa: BLE001  (runs inside the user's program)
            self.fault(f"structured trace, {name}", error)

    def _add(self, raised: Raised, outcome: Outcome, code: CodeType | None) -> None:
        """The true cause first, then what only wraps it."""
        if raised.cause is not None:
            self._add(raised.cause, outcome, code)
        stack = tuple(positions.frame(each) for each in raised.frames)
        if not stack and code is not None:
            stack = (_whole_function(code),)
        self.breaks.append(as_break(raised, outcome, stack, self._follows(raised)))

    def _follows(self, raised: Raised) -> bool:
        return raised.cause is not None or follows(
            raised.gb_type, any(not each.consequence for each in self.breaks)
        )


def follows(gb_type: str, known: bool) -> bool:
    """Whether Dynamo reports a break of this type only because of another one; ``known``: there was one that it may
    come from."""
    return gb_type in _CONSEQUENCES or (known and gb_type in _AFTERMATH)


def as_break(raised: Raised, outcome: Outcome, stack: tuple[Frame, ...], consequence: bool = False) -> Break:
    return Break(
        gb_type=raised.gb_type,
        message=raised.message,
        outcome=outcome,
        stack=stack,
        context=raised.context,
        explanation=raised.explanation,
        hints=raised.hints,
        locals=raised.locals,
        consequence=consequence,
        intended=raised.gb_type in INTENDED,
    )


def _place(code: CodeType) -> str:
    return f"{code.co_qualname} ({code.co_filename}:{code.co_firstlineno})"


def _whole_function(code: CodeType) -> Frame:
    return Frame(positions.definition(code.co_filename, code.co_firstlineno), code.co_qualname, code)


def _handed_over(code: CodeType, reason: str) -> bool:
    """Whether a failed guard reads a value that exists only because a break handed it to a resume function:
    a stack value, or a local that the function computes itself. ``code`` is the original function."""
    guard = reason.split("#", 1)[0]
    arguments = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
    computed = set(code.co_varnames) - (set(arguments) - _assigned(code))
    return "___stack" in guard or any(name in computed for name in _NAME.findall(guard))


def _assigned(code: CodeType) -> set[str]:
    return {each.argval for each in dis.get_instructions(code) if each.opname.startswith("STORE_FAST")}
