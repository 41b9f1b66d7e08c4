"""``copy.deepcopy`` in the compiled function: a tensor, a container of tensors, a module.

What happens: a deep copy asks which objects are the same one, and a graph has no objects, so the graph ends there.
What else it causes: the code before and behind it are graphs of their own.

Relaxed: tensors are cloned, in lists, tuples and dicts too. A module gets a stand-in that has copies of its parameters
and buffers, and runs its forward with them. What moves: in the graph, tensors that shared memory no longer do, and
copies of parameters ask for no gradient.
Declined: what is copied takes part in the gradient; the copy of a module is used for more than its tensors and its
forward.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from onegraph.kinds.base import Example, Untouched
from onegraph.lowering.deep_copies import cloned, helper
from onegraph.lowering.refused import Refused
from onegraph.model import Break, Candidate, Declined, Level
from onegraph.rewrite.request import Request

NAME = "deepcopy_call"
TITLE = "copy.deepcopy in the compiled function"
GB_IDS = ("GB0179", "GB4198")
ORDER = 45

_NOTES = ("in the graph, tensors that share memory in what is copied no longer do in the copy",)
_STATE = """\
import copy
import torch

state = {"momentum": torch.zeros(3), "steps": 0}


def program(gradient):
    before = copy.deepcopy(state)
    state["momentum"] = 0.9 * before["momentum"] + gradient
    return state["momentum"] - before["momentum"]


def inputs():
    return [(torch.ones(3),)]
"""
_MODULE = """\
import copy
import torch

torch.manual_seed(0)
linear = torch.nn.Linear(3, 3).requires_grad_(False)


def program(x, delta):
    fast = copy.deepcopy(linear)
    fast.weight.add_(delta)
    for parameter in fast.parameters():
        parameter.mul_(2)
    return fast(x) - linear(x)


def inputs():
    return [(torch.linspace(-1, 1, 6).view(2, 3), torch.eye(3))]
"""


def _rewritten(before: str, *, module: bool) -> str:
    after = before.replace("copy.deepcopy(", "_deepcopy_module(" if module else "_deepcopy(")
    head, _, rest = after.partition("import torch\n")
    return f"{head}import torch\n\n\n{helper('torch', module=module)}\n\n{rest.lstrip()}"


EXAMPLES: tuple[Example, ...] = (
    Example(
        title="a dict of tensors",
        before=_STATE,
        after=_rewritten(_STATE, module=False),
        level=Level.RELAXED,
    ),
    Example(
        title="a module whose copy is changed",
        before=_MODULE,
        after=_rewritten(_MODULE, module=True),
        level=Level.RELAXED,
    ),
)
UNTOUCHED: tuple[Untouched, ...] = (
    Untouched(
        "the copy gets a new part",
        _MODULE.replace(
            "fast.weight.add_(delta)", "fast.weight = torch.nn.Parameter(fast.weight + delta, False)"
        ),
        "needs more of a module",
    ),
    Untouched(
        "its gradient is taken",
        _MODULE.replace(
            "    return fast(x) - linear(x)",
            "    return torch.func.grad(lambda y: fast(y).sum())(x)",
        ),
        "has no gradient",
    ),
    Untouched(
        "copied by a memo",
        _STATE.replace("deepcopy(state)", "deepcopy(state, {})"),
        "more than what it copies",
    ),
)


def recognises(break_: Break, node: ast.AST | None) -> bool:
    return "copy.deepcopy" in break_.gb_type


def repairs(request: Request) -> Iterator[Candidate | Declined]:
    """The copy made of what a graph can hold."""
    try:
        text = cloned(request)
    except Refused as refused:
        yield Declined(NAME, refused.reason, refused.next_step)
        return
    yield Candidate(NAME, Level.RELAXED, "Clone what is copied", text, (request.site.function,), _NOTES)
