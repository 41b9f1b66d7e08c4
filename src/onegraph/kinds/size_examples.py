"""Examples and near misses of ``branch_on_size``."""

from __future__ import annotations

from onegraph.kinds.base import Example, Untouched
from onegraph.lowering.op_text import HELPER_TEXT
from onegraph.model import Level

_HELPER = HELPER_TEXT.format(helper="_code_op", torch="torch")

EXAMPLES = (
    Example(
        "a position that is looked up",
        """\
import torch


def program(x, times, t):
    hits = (times == t).nonzero()
    at = hits[1].item() if len(hits) > 1 else hits[0].item()
    step = times[at + 1] - times[at]
    return x * step


def inputs():
    times = torch.tensor([4.0, 2.0, 2.0, 0.0])
    return [(torch.ones(2), times, torch.tensor(t)) for t in (4.0, 2.0)]
""",
        f"""\
import torch


{_HELPER}

@_code_op(gives=lambda times, t: (torch.empty((), dtype=torch.float32),))
def _step_op(times: torch.Tensor, t: torch.Tensor) -> torch.Tensor:
    hits = (times == t).nonzero()
    at = hits[1].item() if len(hits) > 1 else hits[0].item()
    step = times[at + 1] - times[at]
    return step


def program(x, times, t):
    step = _step_op(times, t)
    return x * step


def inputs():
    times = torch.tensor([4.0, 2.0, 2.0, 0.0])
    return [(torch.ones(2), times, torch.tensor(t)) for t in (4.0, 2.0)]
""",
        Level.RELAXED,
    ),
)

UNTOUCHED = (
    Untouched(
        "a size of the input",
        """\
import torch


def program(x):
    if x.shape[0] == 0:
        return x
    return x * 2


def inputs():
    return [(torch.ones(2),)]
""",
        "",
    ),
)
