"""``torch.split(x, lengths.tolist())``: a tensor is cut into pieces whose lengths only the data gives.

What happens: Python needs the lengths to make the pieces, so the graph ends; where torch captures sizes, it still
must know how many there are, and kernels of attention ask whether a piece is empty.
What else it causes: everything that runs on a piece is compiled for pieces of that length.

Relaxed, equal up to rounding: attention within each piece becomes one attention on the whole, under a mask that keeps
positions apart that are not of one piece. Where the function called is not torch's own, it is measured that the mask
makes a difference.
Declined: other code on each piece; a call with one piece only, which shows nothing.

Memory: the mask has an element for each pair of positions.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from onegraph.kinds import data_dependent_shape, item_call, tree
from onegraph.kinds.base import Example, Untouched
from onegraph.kinds.split_examples import EXAMPLES as _EXAMPLES
from onegraph.kinds.split_examples import UNTOUCHED as _UNTOUCHED
from onegraph.lowering.asked import captured_or_op
from onegraph.lowering.captured_numbers import as_symbol
from onegraph.lowering.one_piece import in_one_piece, is_split
from onegraph.model import Break, Candidate, Declined
from onegraph.rewrite.request import Request

NAME = "split_by_lengths"
TITLE = "A tensor split by lengths that only the data gives"
GB_IDS: tuple[str, ...] = ()
ORDER = 39  # in front of item_call: the list of lengths is more than its numbers
EXAMPLES: tuple[Example, ...] = _EXAMPLES
UNTOUCHED: tuple[Untouched, ...] = _UNTOUCHED


def recognises(break_: Break, node: ast.AST | None) -> bool:
    """A break at a split, or where the list of its lengths is made."""
    if node is None or not (
        data_dependent_shape.recognises(break_, node) or item_call.recognises(break_, node)
    ):
        return False
    for part in (node, *tree.parents(node)):
        if is_split(part):
            return True
        if isinstance(part, ast.stmt):
            return isinstance(part, ast.Assign) and _gives_lengths(part)
    return False


def _gives_lengths(statement: ast.Assign) -> bool:
    """Whether a name that the statement binds is what something is split by."""
    function = next((p for p in tree.parents(statement) if isinstance(p, ast.FunctionDef)), None)
    names = {target.id for target in statement.targets if isinstance(target, ast.Name)}
    splits = [n for n in ast.walk(function) if is_split(n)] if function is not None and names else []
    return any(isinstance(n, ast.Name) and n.id in names for split in splits for n in ast.walk(split))


def repairs(request: Request) -> Iterator[Candidate | Declined]:
    yield from in_one_piece(request, NAME)
    yield from captured_or_op(request, NAME, as_symbol)
