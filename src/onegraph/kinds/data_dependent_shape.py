"""``nonzero``, ``x[mask]``, ``unique``, ``repeat_interleave``: the size of a result depends on values.

What happens: nobody knows the size before the values exist, so the graph ends, and the code behind it starts a new one.
What else it causes: the host waits for the device, and the next graph is compiled again for other sizes.

Exact: code that only computes and writes into tensors of known size becomes one op that returns the new values of those
tensors. It has a backward pass, which runs the code once more. It still waits for the device.
Relaxed: the same where another tensor with a gradient goes into it: zeros where eager mode may leave None.
Relaxed: a loop over the places where a mask is set (``for expert in hit.nonzero()``) becomes one over all places, where
a trip only writes into rows that it selects by that mask; ``fullgraph=True`` captures how many rows there are.
Where torch captures sizes, such an op may give integers of a size that nobody knows (positions, lengths).
Exact: the expression itself becomes an op that makes its size a symbol of the graph (u0), in every mode of
``torch.compile``: ``x[mask]`` is indexed by the places of the mask. What follows stays in the graph.
Declined: where Python asks for the size (in a condition, as the trips of a loop) and no op can hold that code.
torch captures such sizes itself with ``torch.compile(..., fullgraph=True)``.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from onegraph.kinds.base import Example, Untouched
from onegraph.kinds.shape_examples import EXAMPLES as _EXAMPLES
from onegraph.kinds.shape_examples import UNTOUCHED as _UNTOUCHED
from onegraph.lowering.asked import captured_or_op
from onegraph.lowering.captured_sizes import with_symbols
from onegraph.lowering.every_place import over_every_place
from onegraph.lowering.handed import handed_along
from onegraph.lowering.one_piece import in_one_piece
from onegraph.lowering.padded_rows import padded_rows
from onegraph.model import Break, Candidate, Declined
from onegraph.rewrite.request import Request

NAME = "data_dependent_shape"
TITLE = "A result whose size depends on values"
GB_IDS = ("GB0036", "GB0037")
ORDER = 60
EXAMPLES: tuple[Example, ...] = _EXAMPLES
UNTOUCHED: tuple[Untouched, ...] = _UNTOUCHED

_NAMES = ("dynamic shape operator", "data dependent operator")


_ASKED = re.compile(r"data-dependent expression (.+?)(?: \(unhinted|\.\s|$)")


def recognises(break_: Break, node: ast.AST | None) -> bool:
    """An operator whose result has such a size; or, where sizes are captured, Python code that asks for one."""
    if _is_operator(break_):
        return True
    return break_.gb_type.startswith(("UserError", "GuardOnDataDependent")) and bool(
        _ASKED.search(break_.message)
    )


def _is_operator(break_: Break) -> bool:
    """An operator of torch whose result has such a size, as Dynamo or inductor names it."""
    name = break_.gb_type.lower()
    if name.startswith("backend compiler exception"):
        return "aten.nonzero" in break_.message + break_.context
    return name.startswith(_NAMES) or "data-dependent output shape" in name


def reason(break_: Break) -> str:
    """One sentence on what happens at a break."""
    asked = _ASKED.search(break_.message)
    if asked and not _is_operator(break_):
        return f"Python needs `{asked[1]}` to go on, a number or size that only the data gives (u0, u1, ...)."
    return "Nobody knows the size of the result before the values exist, so the graph ends."


def repairs(request: Request) -> Iterator[Candidate | Declined]:
    yield from padded_rows(request, NAME)
    yield from over_every_place(request, NAME)
    yield from in_one_piece(request, NAME)
    yield from handed_along(request, NAME)
    yield from captured_or_op(request, NAME, with_symbols)
