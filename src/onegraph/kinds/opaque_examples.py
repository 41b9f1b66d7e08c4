"""Examples and near misses of `opaque_call`."""

from __future__ import annotations

from onegraph.kinds.base import Example, Untouched
from onegraph.lowering.host_op_text import helper_text
from onegraph.model import Level

_HELPER = helper_text("_host_op", "torch")

_MASK_INPUTS = """\


def program(x, ratio=0.5):
    mask = torch.tensor(_spans(x.shape[:2], ratio, lengths=None))
    return x.masked_fill(mask[:, :, None], 0.0)


def inputs():
    return [(torch.ones(3, 8, 2),), (torch.ones(2, 5, 4),)]
"""

_MASK = """\
def _spans(shape, ratio, lengths=None):
    \"\"\"Random places to mask.\"\"\"
    rows, columns = shape
    count = int(ratio * columns + random.random())
    mask = np.zeros((rows, columns), dtype=bool)
    for row in range(rows):
        mask[row, np.random.choice(columns, count, replace=False)] = True
    return mask
"""

_IMPORTS = """\
import random

import numpy as np
import torch


"""

_CODES = """\
import numpy as np
import torch


def program(x, tag="warm"):
    codes = np.frombuffer(bytearray(tag.encode()), dtype=np.uint8, count=4)
    return x * torch.from_numpy(codes)


def inputs():
    return [(torch.ones(4),), (torch.ones(4), "cold")]
"""

EXAMPLES: tuple[Example, ...] = (
    Example(
        title="a mask drawn by NumPy",
        before=_IMPORTS + _MASK + _MASK_INPUTS,
        after=_IMPORTS
        + _HELPER
        + """\


@_host_op(
    lambda shape, **_: torch.empty((shape[0], shape[1]), dtype=torch.bool),
    {"shape": [(torch.Size, 2)], "ratio": [float], "lengths": [type(None)]},
    gives="array",
)
def _spans_op(shape: list[int], ratio: float, lengths: torch.Tensor | None) -> torch.Tensor:
    return _spans(torch.Size(shape), ratio, lengths)


"""
        + _MASK.replace(
            "    rows, columns = shape\n",
            "    if _spans_op.takes(shape, ratio, lengths):\n"
            "        return _spans_op(shape, ratio, lengths)\n"
            "    rows, columns = shape\n",
        )
        + _MASK_INPUTS,
        level=Level.RELAXED,
    ),
    Example(
        title="a call of C code",
        before=_CODES,
        after=_CODES.replace(
            "def program",
            _HELPER
            + """\


@_host_op(lambda **_: torch.empty((4,), dtype=torch.uint8), {"tag": [str]}, gives="array")
def _frombuffer_op(tag: str) -> torch.Tensor:
    return np.frombuffer(bytearray(tag.encode()), dtype=np.uint8, count=4)


def program""",
        ).replace(
            "= np.frombuffer(bytearray(tag.encode()), dtype=np.uint8, count=4)",
            "= _frombuffer_op(tag)",
            1,
        ),
        level=Level.RELAXED,
    ),
)

UNTOUCHED: tuple[Untouched, ...] = (
    Untouched(
        "the size of the result depends on values",
        """\
import random

import torch


def _some(x):
    return torch.tensor(random.sample(range(9), x.dim() * 3 % 4 + 4))


def program(x):
    return x.sum() + _some(x).sum()


def inputs():
    random.seed(0)
    return [(torch.ones(30),)]
""",
        "does not follow from its arguments",
    ),
    Untouched(
        "it changes its argument and gives nothing",
        """\
import random

import torch


def program(x):
    order = [2.0, 1.0]
    random.shuffle(order)
    return x * order[0]


def inputs():
    return [(torch.ones(3),)]
""",
        "which an op can't take",
    ),
)
