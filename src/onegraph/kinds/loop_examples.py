"""Examples and near misses of `loop_on_tensor`."""

from __future__ import annotations

from onegraph.kinds.base import Example, Untouched
from onegraph.lowering.helper import definition
from onegraph.lowering.loop_helper import WHILE
from onegraph.model import Level

_COND = definition()
_WHILE = WHILE.format(name="_while_loop", torch="torch")

EXAMPLES: tuple[Example, ...] = (
    Example(
        title="a loop with a limit ends when its value stands still",
        before="""\
import torch


def program(x, tolerance):
    for _ in range(4):
        y = x.tanh()
        change = (y - x).abs().max()
        x = y
        if change < tolerance:
            break
    return x


def inputs():
    x = torch.linspace(-1, 2, 12).view(3, 4)
    return [(x, torch.tensor(t)) for t in (0.0, 0.3, 9.0)]
""",
        after="""\
import torch


"""
        + _COND
        + """\


def program(x, tolerance):
    running = True
    for _ in range(4):
        def trip(x=x):
            y = x.tanh()
            change = (y - x).abs().max()
            x = y
            return change, x

        change, x = _cond(running, trip, lambda: (change, x))
        running = running & ~(change < tolerance)
    return x


def inputs():
    x = torch.linspace(-1, 2, 12).view(3, 4)
    return [(x, torch.tensor(t)) for t in (0.0, 0.3, 9.0)]
""",
        level=Level.EXACT,
        grad=True,
    ),
    Example(
        title="layers are skipped",
        before="""\
import torch
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.layers = nn.ModuleList(nn.Linear(4, 4) for _ in range(3))

    def forward(self, x, least):
        for layer in self.layers:
            if x.norm() < least:
                continue
            x = layer(x)
        return x + 1


program = Net()


def inputs():
    x = torch.linspace(-1, 2, 12).view(3, 4)
    return [(x, torch.tensor(t)) for t in (0.0, 2.0, 9.0)]
""",
        after="""\
import torch
from torch import nn


"""
        + _COND
        + """\


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.layers = nn.ModuleList(nn.Linear(4, 4) for _ in range(3))

    def forward(self, x, least):
        for layer in self.layers:
            skip = x.norm() < least
            x = _cond(skip, lambda: x, lambda: layer(x))
        return x + 1


program = Net()


def inputs():
    x = torch.linspace(-1, 2, 12).view(3, 4)
    return [(x, torch.tensor(t)) for t in (0.0, 2.0, 9.0)]
""",
        level=Level.RELAXED,
        grad=True,
    ),
    Example(
        title="while, with a limit that Python knows",
        before="""\
import torch


def program(x):
    trips = 0
    while (x > 0.5).any() and trips < 3:
        x = x * 0.5 - 0.1
        trips += 1
    return x * 2


def inputs():
    x = torch.linspace(-1, 2, 12).view(3, 4)
    return [(x,), (x * 4,), (x - 3,)]
""",
        after="""\
import torch


"""
        + _COND
        + """\


def program(x):
    trips = 0
    running = True
    while trips < 3:
        running = running & (x > 0.5).any()
        x = _cond(running, lambda: x * 0.5 - 0.1, lambda: x)
        trips += 1
    return x * 2


def inputs():
    x = torch.linspace(-1, 2, 12).view(3, 4)
    return [(x,), (x * 4,), (x - 3,)]
""",
        level=Level.EXACT,
        grad=True,
    ),
    Example(
        title="while without a limit, where no gradient flows",
        before="""\
import torch


@torch.no_grad()
def program(x, least):
    while x.norm() > least:
        x = x * 0.5
    return x + 1


def inputs():
    x = torch.linspace(-1, 2, 12).view(3, 4)
    return [(x, torch.tensor(t)) for t in (0.5, 2.0, 9.0)]
""",
        after="""\
import torch


"""
        + _WHILE
        + """\


@torch.no_grad()
def program(x, least):
    def trip(x):
        x = x * 0.5
        return x,

    (x,) = _while_loop(lambda x: x.norm() > least, trip, (x,))
    return x + 1


def inputs():
    x = torch.linspace(-1, 2, 12).view(3, 4)
    return [(x, torch.tensor(t)) for t in (0.5, 2.0, 9.0)]
""",
        level=Level.RELAXED,
    ),
)

UNTOUCHED: tuple[Untouched, ...] = (
    Untouched(
        title="values that grow from trip to trip",
        text="""\
import torch


def program(x):
    for _ in range(3):
        x = torch.cat([x, x[-1:] * 0.5])
        if x[-1].sum() < 1:
            break
    return x


def inputs():
    x = torch.linspace(-1, 2, 12).view(3, 4)
    return [(x,), (x * 8,)]
""",
        reason="`x` changes its shape or dtype from trip to trip",
    ),
    Untouched(
        title="a loop that Python ends",
        text="""\
import torch


def program(x):
    for step in range(4):
        if step > 2 and x.dtype == torch.float32:
            break
        x = x + 1
    return x


def inputs():
    x = torch.linspace(-1, 2, 12).view(3, 4)
    return [(x,), (x - 3,)]
""",
        reason="",
    ),
)
