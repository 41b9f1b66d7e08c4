"""``if <tensor>:`` and its kin: Python decides on a value that only the running program has.

What happens: the graph ends at the test and a new one starts in the arm that the value picks; inside a
loop, a
``try`` or a ``with`` the whole frame runs eagerly. (GB0170 data-dependent branching.)
What else it causes: one more graph for each arm, a wait for the device, and no CUDA graph across it.

Exact: both sides become ``torch.where`` where running both is silent, cheap and harmless to gradients, else
``torch.cond`` through the helper ``_cond``, which is a plain branch in eager mode.
Relaxed: where a parameter or input is used on one side only, its gradient is zero instead of None when the
other
side runs; an attribute made on first use is made whichever side runs.
Relaxed, equal up to rounding: a shortcut that only sets a name to None (a mask that hides nothing) is
dropped, where a recorded call takes it and the same comes out.
Relaxed: in a loop, ``if mask.any():`` around what only writes into the rows of the mask is dropped where nothing else
holds.
Declined, with the reason: sides of different type, dtype or shape, names set on one path only, ``break``,
loops,
effects and random numbers inside, Python numbers that the program uses as such.
"""

from __future__ import annotations

import ast
import itertools
from collections.abc import Iterator

from onegraph.kinds import shortcut_examples, tree
from onegraph.kinds.base import Example, Untouched
from onegraph.kinds.branch_examples import EXAMPLES as _EXAMPLES
from onegraph.kinds.branch_examples import UNTOUCHED as _UNTOUCHED
from onegraph.lowering import lower_branch
from onegraph.lowering.empty_shortcut import without_unset_shortcut
from onegraph.lowering.first_steps import first_step
from onegraph.lowering.none_arm import without_shortcut
from onegraph.lowering.written import written_in_op
from onegraph.model import Break, Candidate, Declined
from onegraph.rewrite.request import Request

NAME = "branch_on_tensor"
TITLE = "A branch that a tensor's value decides"
GB_IDS = ("GB0170", "GB0035")
EXAMPLES: tuple[Example, ...] = (*_EXAMPLES, *shortcut_examples.EXAMPLES)
UNTOUCHED: tuple[Untouched, ...] = (*_UNTOUCHED, *shortcut_examples.UNTOUCHED)

_TESTED = ast.If | ast.IfExp | ast.While | ast.BoolOp | ast.comprehension | ast.Match


def recognises(break_: Break, node: ast.AST | None) -> bool:
    """A data-dependent branch at a test: of an ``if``, ``elif``, ``x if t else y``, ``and``/``or``,
    ``while``."""
    if node is None or "data-dependent branch" not in break_.gb_type.lower():
        return False
    return any(isinstance(part, _TESTED) for part in (node, *tree.parents(node)))


def repairs(request: Request) -> Iterator[Candidate | Declined]:
    """See `lowering.lower_branch`; a shortcut to None, or for rows that are none, is dropped only where that leads to
    nothing."""
    module = tree.parse(request.text)
    site = tree.innermost(module, request.site.span) if module is not None else None
    tested = (
        next((p for p in tree.parents(site) if isinstance(p, ast.If)), None) if site is not None else None
    )
    shortcut = list(without_shortcut(request))
    if tested is not None:
        shortcut += without_unset_shortcut(request, tested, NAME)
    declined = [each for each in shortcut if isinstance(each, Declined)]
    in_op = written_in_op(request, NAME) if _is_number(request, site) else ()
    for each in itertools.chain(first_step(request), lower_branch(request), shortcut, in_op):
        if isinstance(each, Candidate):
            yield each
        elif each not in declined:
            declined.append(each)
    yield from declined


def _is_number(request: Request, site: ast.AST | None) -> bool:
    """Whether a number of Python decides, which the data gives."""
    if not isinstance(site, ast.expr):
        return False
    (seen,) = request.facts.values(site)
    return bool(seen) and not any(fact.is_tensor for fact in seen)
