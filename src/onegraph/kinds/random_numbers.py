"""Random numbers from a generator, or from a seed that is set in the compiled function.

``torch.manual_seed(step)``, ``torch.Generator()``, ``fork_rng``, ``self.rng.normal(...)``: the state of a stream of
random numbers is read, set or used.

What happens: no graph holds the state of a generator, so it ends at each of these.
What else it causes: a ``with`` block (``fork_rng``) can't be resumed: the whole function runs without a graph.

Relaxed: statements that draw from a stream of their own (NumPy's, Python's, a ``torch.Generator``, torch's own under
``fork_rng``) become an op, which draws the same numbers when the compiled program gets there. What it gives takes no
part in gradients. A generator that an object keeps (``self.rng``) is found by the id of the object.
Relaxed: ``torch.manual_seed`` becomes an ordered op, where nothing was drawn in front of it. Inductor draws other
numbers than eager mode, as it always does; they follow the seed.
Declined: the state is set behind numbers that were drawn in the same graph; a list of drawn numbers that Python needs;
what is drawn belongs to the gradient.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from onegraph.kinds import families
from onegraph.kinds.base import Example, Untouched
from onegraph.kinds.random_examples import EXAMPLES as _EXAMPLES
from onegraph.kinds.random_examples import UNTOUCHED as _UNTOUCHED
from onegraph.lowering.drawn import drawn_in_op
from onegraph.lowering.drawn_apart import drawn_apart
from onegraph.lowering.kept_numbers import kept
from onegraph.lowering.seeding import seeded_in_op
from onegraph.model import Break, Candidate, Declined
from onegraph.rewrite.request import Request
from onegraph.silent import RANDOM

NAME = "random_numbers"
TITLE = "Random numbers from a generator, or from a seed set in the compiled function"
GB_IDS: tuple[str, ...] = ()
ORDER = 65
EXAMPLES: tuple[Example, ...] = _EXAMPLES
UNTOUCHED: tuple[Untouched, ...] = _UNTOUCHED

_STREAMS = ("torch._C.Generator", "torch.Generator", "(Generator)", "(RandomState)", "RandomVariable()")
_CALLS = frozenset((
    "fork_rng", "get_rng_state", "set_rng_state", "manual_seed", "initial_seed", "default_rng", "RandomState",
))  # fmt: skip


def recognises(break_: Break, node: ast.AST | None) -> bool:
    if break_.intended:
        return False
    if break_.gb_type == RANDOM or families.of_break(break_).name == "rng":
        return True
    if any(word in break_.context or word in break_.gb_type for word in _STREAMS):
        return True
    return any(isinstance(each, ast.Attribute | ast.Name) and _last(each) in _CALLS for each in _walk(node))


def _walk(node: ast.AST | None) -> Iterator[ast.AST]:
    """An expression, or the items of a ``with``."""
    if isinstance(node, ast.With):
        for item in node.items:
            yield from ast.walk(item.context_expr)
    elif isinstance(node, ast.expr):
        yield from ast.walk(node)


def _last(node: ast.Attribute | ast.Name) -> str:
    return node.attr if isinstance(node, ast.Attribute) else node.id


def repairs(request: Request) -> Iterator[Candidate | Declined]:
    """The statements that draw as an op; the statement that seeds as an ordered op."""
    found: list[Candidate | Declined] = [*seeded_in_op(request, NAME), *kept(request, NAME)]
    if not found:
        found = [*drawn_in_op(request, NAME), *drawn_apart(request, NAME)]
    yield from sorted(found, key=lambda each: isinstance(each, Declined))
    if not found:
        yield Declined(
            NAME,
            f"Line {request.site.span.line} works with the state of a random stream in a way that no op can take over.",
            "Draw the numbers in front of the compiled function, and pass them on.",
        )
