"""Programs whose code becomes an op, or whose state is repaired, and calls of other kinds than those recorded.

Each text defines ``program``, ``inputs()`` (recorded) and ``others()`` (made later, in this order).
"""

from __future__ import annotations

_LAYERS = """\
import torch
from torch import nn

{layer}

class Encoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList({made} for _ in range(3))
        self.layerdrop = 0.5

    def forward(self, x):
        hidden = x * 2
        first = hidden
        mask = torch.ones_like(x)
        for layer in self.layers:
            if self.training:
                draw = torch.rand([])
                if draw < self.layerdrop:
                    continue
            hidden = layer({arguments})
        return hidden, first, mask


program = Encoder()


def inputs():
    return [(torch.linspace(-1, 1, 4) * 0.1,)]


def others():
    large = torch.linspace(-2, 2, 4)
    grown = large.clone().requires_grad_()
    return [(large,)] * 3 + [(grown,)] * 3 + [(large.double(),)] * 2 + [(large.view(2, 2),)] * 2
"""

LAYER_IN_PLACE = _LAYERS.format(layer="", made="nn.Hardtanh(-0.5, 0.5, inplace=True)", arguments="hidden")

LAYER_WRITES_BESIDE = _LAYERS.format(
    layer='''
class Layer(nn.Module):
    """Writes into its second argument."""

    def forward(self, x, mask):
        mask.mul_(0.5)
        return x + mask

''',
    made="Layer()",
    arguments="hidden, mask",
)

LAYER_OF_ANOTHER_SIZE = _LAYERS.format(
    layer='''
class Layer(nn.Module):
    """Gives another dtype, or another shape, than it gets."""

    def forward(self, x):
        if x.dtype == torch.float64:
            return x.float()
        return x.mean(0) if x.ndim == 2 else x * 3

''',
    made="Layer()",
    arguments="hidden",
)

OVERLAP = """\
import torch


def smear(x, y):
    for i in (y > 0).nonzero().flatten().tolist():
        x[i] = x[i] + y[i]


def program(a, shared=False):
    a = a * 1
    x, y = (a[1:], a[:-1]) if shared else (a[1:] * 1, a[:-1] * 1)
    smear(x, y)
    return a, x, y


def inputs():
    return [(torch.ones(5),)]


def others():
    a = torch.linspace(1, 2, 5)
    return [(a, True), (a.clone().requires_grad_(), True), (a.clone().requires_grad_(),)]
"""

EXPANDED = """\
import torch


def program(x, mask):
    for i in (x > 0).nonzero().flatten().tolist():
        mask[i] = False
    return x.masked_fill(mask, 0.0)


def inputs():
    return [(torch.linspace(-1, 1, 3), torch.ones(3, dtype=torch.bool))]


def others():
    x = torch.tensor([-1.0, -1.0, -1.0])
    return [(x, torch.ones(1, dtype=torch.bool).expand(3)), (x, torch.ones(3, dtype=torch.bool))]
"""

PENALTY = """\
import torch


def program(logits, seen, penalty=1.3):
    logits = logits * 2
    for token in set(seen.tolist()):
        logits[token] = logits[token] / penalty
    return logits


def inputs():
    return [(torch.linspace(-2, 2, 7), torch.tensor([1, 1, 5]))]


def others():
    x, seen = torch.linspace(-2, 2, 7), torch.tensor([1, 6])
    grown = x.clone().requires_grad_()
    return [
        (x.half(), seen), (x.double(), seen, 2), (x.view(7, 1), seen, True), (x, seen, torch.tensor(2.0)),
        (x, seen[:0]), (grown, seen, 3),
    ]
"""

TOTAL = """\
import torch


def program(x, mask):
    total = x.sum() * 0
    for i in mask.nonzero().flatten().tolist():
        total = total + x[i] * 2
    return x * total


def inputs():
    return [(torch.linspace(0, 1, 4), torch.tensor([True, False, True, False]))]


def others():
    x, mask = inputs()[0]
    return [
        (x.half(), mask), (x.double(), mask), (x.long(), mask), (x.view(4, 1), mask), (x, mask.long()),
        (x[:0], mask[:0]), (x.clone().requires_grad_(), mask),
    ]
"""

COUNTS = """\
import torch


def program(x, mask):
    total = torch.zeros(())
    for i in mask.nonzero().flatten().tolist():
        total = total + x[i].float()
    return x * total


def inputs():
    return [(torch.linspace(0, 1, 4), torch.tensor([True, False, True, False]))]


def others():
    x, mask = inputs()[0]
    return [(x.half(), mask), (x.double(), mask)]
"""

WRITTEN_INPUT = """\
import torch


def program(x, y):
    for i in (y > 0).nonzero().flatten().tolist():
        x[i] = x[i] + y[i]
    return x + y


def inputs():
    return [(torch.ones(4), torch.ones(4))]


def others():
    twice = torch.ones(6)
    return [(twice, twice), (torch.ones(5), torch.ones(5)), (torch.ones(4, requires_grad=True), torch.ones(4))]
"""

PYTHON_TYPES = """\
import numpy as np
import torch


def _pick(x, n, names):
    np.random.choice(4, 2)
    if isinstance(n, int):
        return np.full((2,), 7.0)
    return np.full((2,), 1.0 * len(names))


def program(x, n=2.5, names="ab"):
    return x + torch.from_numpy(_pick(x, n, names))


def inputs():
    return [(torch.ones(2),), (torch.ones(2), 3.5)]


def others():
    x = torch.ones(2)
    grown = torch.ones(2, requires_grad=True)
    return [(x, 3), (x, True), (x, 2.5, ["a", "b", "c"]), (x, None), (x.double(),), (grown,)]
"""

NOISE = """\
import random

import torch


def _noise(x):
    return torch.tensor([random.random() for _ in range(x.shape[0])], dtype=x.dtype)


def program(x, w):
    return (x * w + _noise(x)).sin()


def inputs():
    return [(torch.ones(3), torch.ones(3, requires_grad=True))]


def others():
    grown = torch.ones(3, requires_grad=True)
    x = torch.ones(3)
    return [(grown, x), (x.double(), grown), (x.half(), grown), (torch.ones(3, 3), grown)]
"""

KEYWORDS = """\
import random

import numpy as np
import torch


def _mask(shape, *, prob=0.5, seed=None):
    if seed is not None:
        random.seed(seed)
    return np.array([[random.random() < prob for _ in range(shape[1])] for _ in range(shape[0])])


def program(x, prob=0.5, seed=None):
    mask = torch.from_numpy(_mask(tuple(x.shape), prob=prob, seed=seed))
    return x.masked_fill(mask, 0.0)


def inputs():
    return [(torch.ones(2, 3),)]


def others():
    x = torch.ones(2, 3)
    return [(x, 1), (x, 0.5, 7), (torch.ones(3, 3), 0.2), (x, True)]
"""

ARRAY = """\
import numpy as np
import torch


def program(x, n=4):
    order = np.random.permutation(n)
    order[0] = 0
    return x[torch.from_numpy(order)]


def inputs():
    return [(torch.arange(4.0),)]


def others():
    return [(torch.arange(5.0), 5), (torch.arange(5.0), np.int64(5))]
"""

CHOICE = """\
import random

import torch


def program(x, a=1, b=2):
    return x * random.choice([a, b])


def inputs():
    return [(torch.ones(3),)]


def others():
    x, whole = torch.ones(3), torch.arange(3)
    return [(whole,), (whole, 1.5, 2.5), (whole, True, False), (x, 1.5, 2), (x.half(),)]
"""

NO_DIMENSIONS = """\
import random

import numpy as np
import torch


def _draw(x):
    return np.array(random.random() + x.shape[0])


def program(x):
    return x * torch.from_numpy(_draw(x))


def inputs():
    return [(torch.ones(3),)]


def others():
    return [(torch.ones(0),), (torch.ones(2, 2),), (torch.ones(3).double(),)]
"""

BUFFER = """\
import torch


class Positions(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.table = torch.nn.Buffer(torch.linspace(0, 1, 8).view(4, 2), persistent=False)

    def forward(self, x, ids, twice=False):
        for _ in range(1 + twice):
            self.table = self.table.to(dtype=x.dtype)
            self.table.mul_(2)
        return self.look(x, ids)

    def look(self, x, ids):
        return x + self.table[ids]


program = Positions()


def inputs():
    return [(torch.ones(3, 2), torch.arange(3))]


def others():
    x, ids = torch.ones(3, 2), torch.arange(3)
    return [(x.double(), ids), (x.double(), ids), (x, ids), (x, ids, True), (x.double(), ids, True)]
"""

REQUIRES_GRAD = """\
import torch

weight = torch.ones(3, requires_grad=True)


def program(x, keep=True):
    hidden = x[:, None]
    hidden.requires_grad = keep
    start = torch.zeros_like(x, requires_grad=keep)
    return (hidden * weight).sum(1) + start


def inputs():
    return [(torch.ones(2),)]


def others():
    grown = torch.ones(2, requires_grad=True)
    return [(torch.ones(2), False), (grown,), (grown, False)]
"""

MENDED = {name: text for name, text in globals().items() if name.isupper() and name[0] != "_"}

_SAME_TENSOR = """\
import torch

weight = torch.ones(3, requires_grad=True)


def program(x, dtype=torch.float64, items=None):
    hidden = {value}
    hidden.requires_grad_()
    return hidden * weight


def inputs():
    return [(torch.ones(3),)]
"""

_CHANGES_MEMORY = """\
import random

import torch


def _fill(x):
    out = x.numpy()
    out[0] = random.random()
    return torch.tensor([float(v) for v in out])


def program(x):
    y = x * 2
    return y + _fill(y)


def inputs():
    return [(torch.ones(3),)]
"""

DECLINED = {
    "a conversion that may give back its argument": (
        _SAME_TENSOR.format(value="x.to(dtype)"),
        "`x.to(dtype)` may be a tensor that others hold",
    ),
    "an item of a list": (
        _SAME_TENSOR.format(value="x[:] if items is None else items[0]"),
        "may be a tensor that others hold",
    ),
    "an array on the memory of an argument": (_CHANGES_MEMORY, ""),
}
