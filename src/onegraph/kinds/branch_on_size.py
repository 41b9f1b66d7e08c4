"""``if rows.numel() == 0: continue``, ``if len(hits) > 1``: Python decides on a size that only the data gives.

What happens: the size of what ``nonzero``, ``x[mask]`` or ``torch.where`` gives is not known while the graph is
captured, so the graph ends at the test, also under ``fullgraph=True``.
What else it causes: in a loop the whole frame runs eagerly.

Relaxed: a shortcut for an empty selection is dropped, where recorded calls take it and go past it, and the same comes
out without it; or where what it guards only writes into the selected rows.
Parameters that an empty selection leaves out get zeros in place of None as their gradient.
Relaxed: code that only computes becomes an op (see ``data_dependent_shape``).
Declined: any other shortcut that no recorded call takes; any other use of the size.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from onegraph.kinds import tree
from onegraph.kinds.base import Example, Untouched
from onegraph.kinds.size_examples import EXAMPLES as _EXAMPLES
from onegraph.kinds.size_examples import UNTOUCHED as _UNTOUCHED
from onegraph.lowering.empty_shortcut import is_size, without_empty_shortcut
from onegraph.lowering.written import written_in_op
from onegraph.model import Break, Candidate, Declined
from onegraph.rewrite.request import Request

NAME = "branch_on_size"
TITLE = "A branch on a size that only the data gives"
GB_IDS: tuple[str, ...] = ()
ORDER = 38  # in front of raise_on_tensor and loop_on_tensor: a size is no tensor
EXAMPLES: tuple[Example, ...] = _EXAMPLES
UNTOUCHED: tuple[Untouched, ...] = _UNTOUCHED


def recognises(break_: Break, node: ast.AST | None) -> bool:
    if node is None or "data-dependent branch" not in break_.gb_type.lower():
        return False
    return _tested(node) is not None


def repairs(request: Request) -> Iterator[Candidate | Declined]:
    module = tree.parse(request.text)
    tested = _tested(tree.innermost(module, request.site.span) if module is not None else None)
    if isinstance(tested, ast.If):
        yield from without_empty_shortcut(request, tested, NAME)
    yield from written_in_op(request, NAME)


def _tested(node: ast.AST | None) -> ast.If | ast.IfExp | None:
    """The innermost ``if`` around a node whose test asks a size, and nothing else."""
    for part in (node, *tree.parents(node)) if node is not None else ():
        if isinstance(part, ast.If | ast.IfExp):
            leaves = any(isinstance(inner, ast.Raise | ast.Break) for inner in ast.walk(part))
            return part if is_size(part.test) and not leaves else None
        if isinstance(part, ast.FunctionDef | ast.Lambda):
            return None
    return None
