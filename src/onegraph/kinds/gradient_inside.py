"""``loss.backward()`` or ``torch.autograd.grad(...)`` in the compiled function.

What happens: torch.compile leaves the backward pass out of graphs unless it is told otherwise, so the graph ends at the
call.
What else it causes: the code before and behind it are graphs of their own; in a loop or a block the whole function runs
without a graph.

Exact: the call stands in a block that lets torch.compile trace it. It must not need a gradient that leaves the
compiled function: what it returns then is detached, or depends on its inputs' gradients alone.
Declined: the call is a part of a compound statement.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from onegraph.kinds.base import Example, Untouched
from onegraph.lowering.setting_block import Setting, switched_on
from onegraph.model import Break, Candidate, Declined, Level
from onegraph.rewrite.request import Request

NAME = "gradient_inside"
TITLE = "backward() or autograd.grad() in the compiled function"
GB_IDS = ("GB0123", "GB9186")
ORDER = 45

_SETTING = Setting(
    "trace_autograd_ops",
    "_GradientInGraph",
    "Let torch.compile trace the gradients that are computed inside of this block; by default it leaves them out.",
    "Set torch._dynamo.config.trace_autograd_ops = True, or take the gradient outside of the compiled function.",
)
_ATTACK = """\
import torch

torch.manual_seed(0)
model = torch.nn.Linear(3, 2).requires_grad_(False)


def program(x, y):
    adversarial = x
    for _ in range(2):
        adversarial = adversarial.detach().requires_grad_(True)
        loss = torch.nn.functional.cross_entropy(model(adversarial), y)
        loss.backward()
        adversarial = adversarial + 0.1 * adversarial.grad.sign()
    return adversarial.detach()


def inputs():
    return [(torch.linspace(-1, 1, 6).view(2, 3), torch.tensor([0, 1]))]
"""
_FORCES = """\
import torch


def program(positions):
    distances = (positions[:, None] - positions[None]).pow(2).sum(-1)
    energy = (1 / (1 + distances)).sum()
    forces = -torch.autograd.grad(energy, positions, create_graph=True)[0]
    return forces.tanh()


def inputs():
    return [(torch.linspace(-1, 1, 6).view(2, 3).requires_grad_(),)]
"""


def _with_block(before: str, statement: str) -> str:
    indent = statement[: len(statement) - len(statement.lstrip())]
    after = before.replace(statement, f"{indent}with _GradientInGraph():\n    {statement}")
    head, _, rest = after.partition("import torch\n")
    return f"{head}import torch\n\n\n{_SETTING.helper('torch')}\n\n{rest.lstrip()}"


EXAMPLES: tuple[Example, ...] = (
    Example(
        title="an inner loop",
        before=_ATTACK,
        after=_with_block(_ATTACK, "        loss.backward()\n"),
        level=Level.EXACT,
        grad=True,
    ),
    Example(
        title="forces",
        before=_FORCES,
        after=_with_block(
            _FORCES, "    forces = -torch.autograd.grad(energy, positions, create_graph=True)[0]\n"
        ),
        level=Level.EXACT,
        grad=True,
    ),
)
UNTOUCHED: tuple[Untouched, ...] = (
    Untouched(
        "in a test",
        """\
import torch


def program(x):
    with torch.enable_grad():
        leaf = x.detach().requires_grad_(True)
        if torch.autograd.grad(leaf.pow(2).sum(), leaf)[0].shape[0] == 2:
            return x * 2
    return x


def inputs():
    return [(torch.ones(2, 3),)]
""",
        "is a part of a larger statement",
    ),
)

_BREAKS = ("Unsupported Tensor.backward() call", "using `torch.autograd.grad`")


def recognises(break_: Break, node: ast.AST | None) -> bool:
    return break_.gb_type.startswith(_BREAKS)


def repairs(request: Request) -> Iterator[Candidate | Declined]:
    """The statement in a block that switches ``trace_autograd_ops`` on."""
    yield from switched_on(request, _SETTING, NAME, "Let torch.compile trace the gradient")
