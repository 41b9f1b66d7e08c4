"""Python or C code that can't be captured: NumPy beyond what torch maps, ``random``, SciPy, extensions, clocks.

What happens: the call needs real values, or is written in C, so the graph ends there.
What else it causes: the code behind it is a graph of its own; random numbers of Python and NumPy that do get
captured would be drawn once, while compiling.

Relaxed: a call of a clock, of a random generator or of C code, with plain arguments, becomes an op that runs in
program order each time: same stream, same values. Or the whole function around it becomes the op, where it gets
tensors and plain values and gives a tensor or an array without gradient. What moves: a result of another size or type
than its arguments tell is an error. With arguments of a kind that was not recorded (another dtype, an int for a float)
the code runs as before, and the graph ends there.
A time with a name that is only subtracted, kept and shown stays a tensor without dimensions until then; a statement
that keeps it (``self.times[i] = time.perf_counter() - start``) is an ordered op.
Declined: the size of the result depends on values; it takes part in gradients; it gets objects, or
changes what it gets.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator

from onegraph.kinds import families, tree
from onegraph.kinds.base import Example, Untouched
from onegraph.kinds.opaque_examples import EXAMPLES as _EXAMPLES
from onegraph.kinds.opaque_examples import UNTOUCHED as _UNTOUCHED
from onegraph.lowering import host_op
from onegraph.lowering.clock_names import clock_named
from onegraph.lowering.drawn import drawn_in_op
from onegraph.lowering.drawn_apart import drawn_apart
from onegraph.lowering.effect_shapes import dotted
from onegraph.lowering.kept_numbers import kept
from onegraph.lowering.refused import Refused
from onegraph.lowering.seeding import seeded_in_op
from onegraph.model import Break, Candidate, Declined, Level
from onegraph.rewrite import text as edit
from onegraph.rewrite.request import Request

NAME = "opaque_call"
TITLE = "A call of code that can't be captured (NumPy, random, C)"
GB_IDS = ("GB0007", "GB0177", "GB0294", "GB0298", "GB0290")
ORDER = 60
EXAMPLES: tuple[Example, ...] = _EXAMPLES
UNTOUCHED: tuple[Untouched, ...] = _UNTOUCHED

_FAMILIES = frozenset({"opaque_call", "numpy", "clock", "rng"})
_SKIPPED = frozenset({"torch", "functools", "contextlib", "inspect", "typing", "copy", "logging", "warnings"})
_OTHER_KINDS = (
    "with arguments of another type, dtype or rank than the recorded ones the graph ends there as before"
)
_AT_ITS_PLACE = "it runs in Python when the compiled program gets there; a CUDA graph is split at it"


def recognises(break_: Break, node: ast.AST | None) -> bool:
    """A call of an imported function that torch does not know."""
    family = families.of_break(break_).name
    if break_.intended or family not in _FAMILIES or families.callee(break_).startswith("torch."):
        return False
    return _call(node) is not None


def repairs(request: Request) -> Iterator[Candidate | Declined]:
    """The function around it as an op; else the call alone."""
    module = tree.parse(request.text)
    call = _call(tree.innermost(module, request.site.span) if module is not None else None)
    found: list[Candidate | Declined] = [*kept(request, NAME), *clock_named(request, NAME)]
    found += whole_function(request)
    found += [*seeded_in_op(request, NAME), *drawn_in_op(request, NAME)]
    if call is not None:
        shown = " ".join(edit.segment(request.text, call.func).split())
        found += _proposed(lambda: host_op.of_call(request, call), f"Run `{shown}` as an op")
    if not any(isinstance(each, Candidate) for each in found):
        found += drawn_apart(request, NAME)
    yield from sorted(found, key=lambda each: isinstance(each, Declined))
    if not found:
        yield Declined(NAME, "There is no call of a function here.", "Move it into a function of its own.")


def whole_function(request: Request) -> Iterator[Candidate | Declined]:
    """The module's function that the site stands in as one op. Also the last resort of other kinds."""
    function = host_op.around(request)
    if function is None:
        return
    if host_op.has_one(function):
        yield Declined(
            NAME,
            f"`{function.name}` is an op for other kinds of arguments than these.",
            "Mend it from the start, with a call of each kind.",
        )
        return
    yield from _proposed(lambda: host_op.of_function(request, function), f"Run `{function.name}` as an op")


def runs_as_op(request: Request) -> bool:
    """Whether the function around the site is an op already while compiling."""
    function = host_op.around(request)
    return function is not None and host_op.has_one(function)


def draws(request: Request) -> bool:
    """Whether the function around the site draws from NumPy's or Python's random stream, which torch would replace
    by its own."""
    function = host_op.around(request)
    return function is not None and any(
        isinstance(node, ast.Call) and _draws(node) for node in ast.walk(function)
    )


def _draws(call: ast.Call) -> bool:
    """``np.random.rand(...)``, ``random.random()`` under their imported names."""
    path = dotted(call.func) or ""
    return bool({"random"} & set(path.split(".")[:-1])) and _is_imported(call)


def _proposed(make: Callable[[], host_op.Made], title: str) -> Iterator[Candidate | Declined]:
    try:
        made = make()
    except Refused as why:
        yield Declined(NAME, why.reason, why.next_step)
        return
    other = f"a result of another size or dtype than {made.fake} is an error in the compiled program"
    notes = (_AT_ITS_PLACE, other, _OTHER_KINDS)
    yield Candidate(NAME, Level.RELAXED, title, made.text, (made.function,), notes, made.conditions)


def _call(node: ast.AST | None) -> ast.Call | None:
    """The innermost call of a named function at or around a node, in one statement."""
    for each in (node, *tree.parents(node)) if node is not None else ():
        if isinstance(each, ast.Call) and _is_imported(each):
            return each
        if isinstance(each, ast.stmt):
            return None
    return None


def _is_imported(call: ast.Call) -> bool:
    """Whether the function comes from another module than torch, by an import of this file."""
    root = (dotted(call.func) or "").partition(".")[0]
    module = next((p for p in tree.parents(call) if isinstance(p, ast.Module)), None)
    for node in ast.walk(module) if module is not None and root else ():
        if isinstance(node, ast.Import):
            for alias in node.names:
                if (alias.asname or alias.name.partition(".")[0]) == root:
                    return alias.name.partition(".")[0] not in _SKIPPED
        if isinstance(node, ast.ImportFrom):
            for alias in node.names:
                if (alias.asname or alias.name) == root:
                    return not node.level and (node.module or "").partition(".")[0] not in _SKIPPED
    return False
