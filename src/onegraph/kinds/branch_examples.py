"""Examples and near misses of `branch_on_tensor`."""

from __future__ import annotations

from onegraph.kinds.base import Example, Untouched
from onegraph.lowering.helper import definition
from onegraph.model import Level

_COND = definition()

EXAMPLES: tuple[Example, ...] = (
    Example(
        title="each side returns",
        before="""\
import torch


def program(x):
    score = x.sum()
    if score > 0:
        return x.tanh() * x
    else:
        return (x - 1.0).relu()


def inputs():
    x = torch.linspace(-1, 2, 12).view(3, 4)
    return [(x,), (x - 3,), (torch.linspace(-3, 1, 20).view(5, 4),), (torch.linspace(1, 3, 20).view(5, 4),)]
""",
        after="""\
import torch


def program(x):
    score = x.sum()
    is_positive = score > 0
    safe_x = torch.where(is_positive, x, 1.0)
    return torch.where(is_positive, safe_x.tanh() * safe_x, (x - 1.0).relu())


def inputs():
    x = torch.linspace(-1, 2, 12).view(3, 4)
    return [(x,), (x - 3,), (torch.linspace(-3, 1, 20).view(5, 4),), (torch.linspace(1, 3, 20).view(5, 4),)]
""",
        level=Level.EXACT,
        grad=True,
    ),
    Example(
        title="values that overflowed in half precision",
        before="""\
import torch


def program(x):
    h = (x * 40000).half()
    # as the layers of BART and its kin do
    if h.dtype == torch.float16 and (
        torch.isinf(h).any() or torch.isnan(h).any()
    ):
        clamp_value = torch.finfo(h.dtype).max - 1000
        h = torch.clamp(h, min=-clamp_value, max=clamp_value)
    return h + 1


def inputs():
    x = torch.linspace(-1, 2, 12).view(3, 4)
    return [(x,), (x - 3,), (torch.linspace(-3, 1, 20).view(5, 4),), (torch.linspace(1, 3, 20).view(5, 4),)]
""",
        after="""\
import torch


def program(x):
    h = (x * 40000).half()
    # as the layers of BART and its kin do
    if h.dtype == torch.float16:
        clamp_value = torch.finfo(h.dtype).max - 1000
        h = torch.where(
            torch.isinf(h).any() | torch.isnan(h).any(),
            torch.clamp(h, min=-clamp_value, max=clamp_value),
            h,
        )
    return h + 1


def inputs():
    x = torch.linspace(-1, 2, 12).view(3, 4)
    return [(x,), (x - 3,), (torch.linspace(-3, 1, 20).view(5, 4),), (torch.linspace(1, 3, 20).view(5, 4),)]
""",
        level=Level.EXACT,
        grad=True,
    ),
    Example(
        title="an elif chain of numbers",
        before="""\
import torch


def program(x):
    level = x.std()
    if level < 0.1:
        gain = 4.0
    elif level < 1.0:
        gain = 2.0
    else:
        gain = 0.25
    return x * gain


def inputs():
    x = torch.linspace(-1, 2, 12).view(3, 4)
    return [(x * 0.01,), (x,), (x * 9,), (torch.linspace(-3, 1, 20).view(5, 4),)]
""",
        after="""\
import torch


def program(x):
    level = x.std()
    gain = torch.where(level < 0.1, 4.0, torch.where(level < 1.0, 2.0, 0.25))
    return x * gain


def inputs():
    x = torch.linspace(-1, 2, 12).view(3, 4)
    return [(x * 0.01,), (x,), (x * 9,), (torch.linspace(-3, 1, 20).view(5, 4),)]
""",
        level=Level.EXACT,
        grad=True,
    ),
    Example(
        title="a logarithm where it exists",
        before="""\
import torch


def program(x):
    if (x > 0).all():
        y = x.log()
    else:
        y = x * 0.5
    return y.mean(dim=-1)


def inputs():
    x = torch.linspace(-1, 2, 12).view(3, 4)
    return [(x,), (x - 3,), (torch.linspace(-3, 1, 20).view(5, 4),), (torch.linspace(1, 3, 20).view(5, 4),)]
""",
        after="""\
import torch


def program(x):
    all_positive = (x > 0).all()
    safe_x = torch.where(all_positive, x, 1.0)
    y = torch.where(all_positive, safe_x.log(), x * 0.5)
    return y.mean(dim=-1)


def inputs():
    x = torch.linspace(-1, 2, 12).view(3, 4)
    return [(x,), (x - 3,), (torch.linspace(-3, 1, 20).view(5, 4),), (torch.linspace(1, 3, 20).view(5, 4),)]
""",
        level=Level.EXACT,
        grad=True,
    ),
    Example(
        title="a layer that is skipped",
        before="""\
import torch
from torch import nn


class Gated(nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.layers = nn.ModuleList(nn.Linear(4, 4) for _ in range(2))

    def forward(self, x):
        for layer in self.layers:
            if x.mean() > 0:
                x = x + layer(x).relu()
        return x


program = Gated()


def inputs():
    x = torch.linspace(-1, 2, 12).view(3, 4)
    return [(x,), (x - 3,), (torch.linspace(-3, 1, 20).view(5, 4),), (torch.linspace(1, 3, 20).view(5, 4),)]
""",
        after="""\
import torch
from torch import nn


"""
        + _COND
        + """\


class Gated(nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.layers = nn.ModuleList(nn.Linear(4, 4) for _ in range(2))

    def forward(self, x):
        for layer in self.layers:
            x = _cond(x.mean() > 0, lambda: x + layer(x).relu(), lambda: x)
        return x


program = Gated()


def inputs():
    x = torch.linspace(-1, 2, 12).view(3, 4)
    return [(x,), (x - 3,), (torch.linspace(-3, 1, 20).view(5, 4),), (torch.linspace(1, 3, 20).view(5, 4),)]
""",
        level=Level.RELAXED,
        grad=True,
    ),
    Example(
        title="an early return takes the rest along",
        before="""\
import torch


def program(x):
    y = x + 1
    if y.sum() > 0:
        return y * 2.0

    # the rare case
    z = y - 1
    z = z.exp() * 3
    return z - x


def inputs():
    x = torch.linspace(-1, 2, 12).view(3, 4)
    return [(x,), (x - 3,), (torch.linspace(-3, 1, 20).view(5, 4),), (torch.linspace(1, 3, 20).view(5, 4),)]
""",
        after="""\
import torch


"""
        + _COND
        + """\


def program(x):
    y = x + 1

    def result_otherwise():
        # the rare case
        z = y - 1
        z = z.exp() * 3
        return z - x

    return _cond(y.sum() > 0, lambda: y * 2.0, result_otherwise)


def inputs():
    x = torch.linspace(-1, 2, 12).view(3, 4)
    return [(x,), (x - 3,), (torch.linspace(-3, 1, 20).view(5, 4),), (torch.linspace(1, 3, 20).view(5, 4),)]
""",
        level=Level.EXACT,
        grad=True,
    ),
    Example(
        title="a ternary in a call",
        before="""\
import torch
import torch.nn.functional as F


def program(x):
    return F.relu(x * 3 if x.sum() > 0 else x - 1) + 1


def inputs():
    x = torch.linspace(-1, 2, 12).view(3, 4)
    return [(x,), (x - 3,), (torch.linspace(-3, 1, 20).view(5, 4),), (torch.linspace(1, 3, 20).view(5, 4),)]
""",
        after="""\
import torch
import torch.nn.functional as F


def program(x):
    return F.relu(torch.where(x.sum() > 0, x * 3, x - 1)) + 1


def inputs():
    x = torch.linspace(-1, 2, 12).view(3, 4)
    return [(x,), (x - 3,), (torch.linspace(-3, 1, 20).view(5, 4),), (torch.linspace(1, 3, 20).view(5, 4),)]
""",
        level=Level.EXACT,
        grad=True,
    ),
    Example(
        title="a buffer that is switched",
        before="""\
import torch
from torch import nn


class Rope(nn.Module):
    def __init__(self, trained=8):
        super().__init__()
        self.trained = trained
        base = 1.0 / (100.0 ** torch.linspace(0, 1, 2))
        self.register_buffer("short", base, persistent=False)
        self.register_buffer("long", base / 4, persistent=False)
        self.register_buffer("inv", base.clone(), persistent=False)

    def forward(self, position):
        seq = torch.max(position) + 1
        if seq > self.trained:
            self.register_buffer("inv", self.long, persistent=False)
        else:
            self.register_buffer("inv", self.short, persistent=False)
        angle = position[:, None].float() * self.inv
        return torch.cat([angle.cos(), angle.sin()], -1)


program = Rope()


def inputs():
    return [(torch.arange(4),), (torch.arange(12),), (torch.tensor([3, 20, 1]),)]
""",
        after="""\
import torch
from torch import nn


class Rope(nn.Module):
    def __init__(self, trained=8):
        super().__init__()
        self.trained = trained
        base = 1.0 / (100.0 ** torch.linspace(0, 1, 2))
        self.register_buffer("short", base, persistent=False)
        self.register_buffer("long", base / 4, persistent=False)
        self.register_buffer("inv", base.clone(), persistent=False)

    def forward(self, position):
        seq = torch.max(position) + 1
        self.register_buffer(
            "inv",
            torch.where(seq > self.trained, self.long, self.short),
            persistent=False,
        )
        angle = position[:, None].float() * self.inv
        return torch.cat([angle.cos(), angle.sin()], -1)


program = Rope()


def inputs():
    return [(torch.arange(4),), (torch.arange(12),), (torch.tensor([3, 20, 1]),)]
""",
        level=Level.RELAXED,
        grad=True,
    ),
    Example(
        title="several names, a counter, and a branch inside",
        before="""\
import torch


def program(x):
    steps = torch.zeros((), dtype=torch.int64)
    if x.sum() > 0 and x.max() < 100:
        y = x.exp()
        if y.max() > 5:
            y = y / 2
        z = y + 1
        steps = steps + 1
    else:
        y = x
        z = x - 1
    return y * z + steps


def inputs():
    x = torch.linspace(-1, 2, 12).view(3, 4)
    return [(x,), (x - 3,), (torch.linspace(-3, 1, 20).view(5, 4),), (torch.linspace(1, 3, 20).view(5, 4),)]
""",
        after="""\
import torch


"""
        + _COND
        + """\


def program(x):
    steps = torch.zeros((), dtype=torch.int64)
    condition = (x.sum() > 0) & (x.max() < 100)

    def values_if_true():
        y = x.exp()
        y = torch.where(y.max() > 5, y / 2, y)
        z = y + 1
        return y, z

    def values_otherwise():
        y = x
        z = x - 1
        return y, z

    y, z = _cond(condition, values_if_true, values_otherwise)
    steps = torch.where(condition, steps + 1, steps)
    return y * z + steps


def inputs():
    x = torch.linspace(-1, 2, 12).view(3, 4)
    return [(x,), (x - 3,), (torch.linspace(-3, 1, 20).view(5, 4),), (torch.linspace(1, 3, 20).view(5, 4),)]
""",
        level=Level.EXACT,
        grad=True,
    ),
)

UNTOUCHED: tuple[Untouched, ...] = (
    Untouched(
        title="Python decides",
        text="""\
import torch


def program(x):
    if x.shape[0] > 2 and x.dtype == torch.float32:
        x = x + 1
    return x


def inputs():
    x = torch.linspace(-1, 2, 12).view(3, 4)
    return [(x,), (x - 3,)]
""",
        reason="",
    ),
    Untouched(
        title="None on one side",
        text="""\
import torch


def program(x):
    mask = x > 0
    if mask.all():
        mask = None
    return x if mask is None else x * mask


def inputs():
    x = torch.linspace(-1, 2, 12).view(3, 4)
    return [(x,), (x - 3,)]
""",
        reason="NoneType",
    ),
    Untouched(
        title="another shape on each side",
        text="""\
import torch


def program(x):
    if x.sum() > 0:
        return x[:2]
    return x


def inputs():
    x = torch.linspace(-1, 2, 12).view(3, 4)
    return [(x,), (x - 3,)]
""",
        reason="another shape",
    ),
    Untouched(
        title="another dtype on each side",
        text="""\
import torch


def program(x):
    if x.sum() > 0:
        x = x.double()
    return x


def inputs():
    x = torch.linspace(-1, 2, 12).view(3, 4)
    return [(x,), (x - 3,)]
""",
        reason="another dtype",
    ),
    Untouched(
        title="a list grows",
        text="""\
import torch


def program(x):
    parts = [x]
    if x.sum() > 0:
        parts.append(x + 1)
    return torch.cat(parts)


def inputs():
    x = torch.linspace(-1, 2, 12).view(3, 4)
    return [(x,), (x - 3,)]
""",
        reason="called for its effect",
    ),
    Untouched(
        title="set on one path only",
        text="""\
import torch


def program(x):
    if x.sum() > 0:
        y = x + 1
    else:
        x = x - 1
    try:
        return y
    except UnboundLocalError:
        return x


def inputs():
    x = torch.linspace(-1, 2, 12).view(3, 4)
    return [(x,), (x - 3,)]
""",
        reason="set on one path only",
    ),
    Untouched(
        title="random numbers inside",
        text="""\
import torch


def program(x):
    if x.sum() > 0:
        x = torch.nn.functional.dropout(x, 0.5)
    return x


def inputs():
    x = torch.linspace(-1, 2, 12).view(3, 4)
    return [(x,), (x - 3,)]
""",
        reason="draws random numbers",
    ),
    Untouched(
        title="a Python number is returned",
        text="""\
import torch


def program(x):
    if x.sum() > 0:
        label = 1
    else:
        label = 2
    return x, label


def inputs():
    x = torch.linspace(-1, 2, 12).view(3, 4)
    return [(x,), (x - 3,)]
""",
        reason="would change",
    ),
    Untouched(
        title="one path returns None",
        text="""\
import torch


def program(x):
    if x.sum() > 0:
        return x + 1


def inputs():
    x = torch.linspace(-1, 2, 12).view(3, 4)
    return [(x,), (x - 3,)]
""",
        reason="returns None",
    ),
    Untouched(
        title="an alias that is changed behind",
        text="""\
import torch


def program(x):
    a, b = x * 2, x + 1
    y = a if x.sum() > 0 else b
    y.add_(1)
    return y + b


def inputs():
    x = torch.linspace(-1, 2, 12).view(3, 4)
    return [(x,), (x - 3,)]
""",
        reason="changes it in place",
    ),
)
