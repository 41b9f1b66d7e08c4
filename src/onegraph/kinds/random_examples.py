"""Examples and near misses of `random_numbers`."""

from __future__ import annotations

from onegraph.kinds.base import Example, Untouched
from onegraph.kinds.effect_examples import HELPER
from onegraph.lowering.host_op_text import helper_text
from onegraph.model import Level

_NOISE_INPUTS = """\


def inputs():
    return [(torch.ones(3, 2),)]
"""
_NOISE = """\
    generator = torch.Generator().manual_seed(3)
    noise = torch.rand({shape}, generator=generator)
"""
_NOISE_OP = """\
@_host_op(
    lambda x_shape, **_: torch.empty((x_shape[0], x_shape[1]), dtype=torch.float32),
    {"x_shape": [(torch.Size, 2)]},
)
def _noise_op(x_shape: list[int]) -> torch.Tensor:
"""
_PROGRAM = "def program(x):\n"
_IMPORT = "import torch\n\n\n"
_SEEDED_IMPORTS = "import torch\nimport torch.nn.functional as F\n\n\n"
_SEEDED = """\
def program(x, step=3):
    torch.manual_seed(step)
    return F.dropout(x, 0.5) * 2


def inputs():
    return [(torch.ones(3),), (torch.ones(3), 4)]
"""
_SEED_OP = """\
@_ordered_op
def _seed_in_program(step: torch.types.Number) -> None:
    torch.manual_seed(step)


"""

EXAMPLES: tuple[Example, ...] = (
    Example(
        title="noise from a generator of its own",
        before=_IMPORT + _PROGRAM + _NOISE.format(shape="x.shape") + "    return x + noise\n" + _NOISE_INPUTS,
        after=_IMPORT
        + helper_text("_host_op", "torch")
        + "\n\n"
        + _NOISE_OP
        + _NOISE.format(shape="x_shape")
        + "    return noise\n\n\n"
        + _PROGRAM
        + "    noise = _noise_op(x.shape)\n    return x + noise\n"
        + _NOISE_INPUTS,
        level=Level.RELAXED,
    ),
    Example(
        title="a seed for each step",
        before=_SEEDED_IMPORTS + _SEEDED,
        after=_SEEDED_IMPORTS
        + HELPER
        + "\n\n"
        + _SEED_OP
        + _SEEDED.replace("torch.manual_seed(step)", "_seed_in_program(step)"),
        level=Level.RELAXED,
    ),
)
UNTOUCHED: tuple[Untouched, ...] = (
    Untouched(
        "a seed behind numbers of the same graph",
        """\
import torch


def program(x):
    x = x + torch.rand(3)
    torch.manual_seed(3)
    return x + torch.rand(3)


def inputs():
    return [(torch.ones(3),)]
""",
        "drawn in front of line 6",
    ),
    Untouched(
        "a state that is put back behind what was drawn",
        """\
import torch


def program(x):
    with torch.random.fork_rng():
        noise = torch.rand(3)
    return x + noise + torch.rand(3)


def inputs():
    return [(torch.ones(3),)]
""",
        "would not be the same numbers",
    ),
    Untouched(
        "drawn numbers that choose a layer",
        """\
import random
import torch

scales = [torch.sin, torch.cos, torch.tanh]
stream = random.Random(3)


def program(x):
    order = stream.sample(range(3), 3)
    for index in order:
        x = scales[index](x)
    return x


def inputs():
    return [(torch.ones(3),)]
""",
        "needs in Python",
    ),
)
