"""Examples and near misses of `requires_grad_set`."""

from __future__ import annotations

from onegraph.kinds.base import Example, Untouched
from onegraph.model import Level

_CHECKPOINTED = """\
import torch


class Encoder(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = torch.nn.Conv1d(1, 2, 3)

    def forward(self, samples):
        hidden = samples[:, None]
        if self.training:
            hidden.requires_grad = True  # for checkpointing
        return self.conv(hidden)


torch.manual_seed(0)
program = Encoder()


def inputs():
    return [(torch.linspace(-1, 1, 12).view(2, 6),)]
"""

_ZEROS = """\
import torch

torch.manual_seed(0)
linear = torch.nn.Linear(3, 3)


def program(x, train=True):
    queries = torch.zeros_like(x, requires_grad=train)
    bias = torch.zeros_like(x).requires_grad_()
    return linear(x + queries) + bias


def inputs():
    return [(torch.ones(2, 3),)]
"""

EXAMPLES: tuple[Example, ...] = (
    Example(
        title="an input view made a leaf",
        before=_CHECKPOINTED,
        after=_CHECKPOINTED.replace(
            "            hidden.requires_grad = True  # for checkpointing\n",
            "            if not torch.compiler.is_compiling() or hidden.requires_grad"
            " or not hidden.is_floating_point():\n"
            "                hidden.requires_grad = True  # for checkpointing\n",
        ),
        level=Level.RELAXED,
    ),
    Example(
        title="new tensors",
        before=_ZEROS,
        after=_ZEROS.replace("=train)\n", "=train and not torch.compiler.is_compiling())\n", 1).replace(
            "requires_grad_()", "requires_grad_(not torch.compiler.is_compiling())"
        ),
        level=Level.RELAXED,
    ),
)

UNTOUCHED: tuple[Untouched, ...] = (
    Untouched(
        "a tensor of the caller",
        """\
import torch


def program(x):
    x.requires_grad = True
    return (x * 2).sum()


def inputs():
    return [(torch.ones(3),)]
""",
        "`x` is a tensor of the caller, who may read its gradient.",
    ),
    Untouched(
        "a conversion that may give back its argument",
        """\
import torch

weight = torch.ones(3, requires_grad=True)


def program(x, dtype=torch.float64):
    y = x.to(dtype)
    y.requires_grad_()
    return y * weight


def inputs():
    return [(torch.ones(3),)]
""",
        "`x.to(dtype)` may be a tensor that others hold.",
    ),
    Untouched(
        "the gradient is read",
        """\
import torch


def program(x):
    start = x * 1
    start.requires_grad = True
    (start * start).sum().backward()
    return x - 0.1 * start.grad


def inputs():
    return [(torch.ones(3),)]
""",
        "works with the gradient of such a tensor",
    ),
)
