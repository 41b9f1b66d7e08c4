"""Examples and near misses of ``data_dependent_shape``."""

from __future__ import annotations

from onegraph.kinds.base import Example, Untouched
from onegraph.lowering.op_text import HELPER_TEXT
from onegraph.lowering.sized_ops import HELPER_TEXT as SIZED_TEXT
from onegraph.lowering.sized_ops import PLACES
from onegraph.model import Level

_SIZED = SIZED_TEXT.format(name="_sized_op", torch="torch")
_HELPER = HELPER_TEXT.format(name="_code_op", torch="torch")

EXAMPLES = (
    Example(
        "rows that a mask selects",
        """\
import torch


def program(x, mask):
    rows = x[mask]
    return rows.sin().sum(0), torch.nonzero(mask)


def inputs():
    x = torch.arange(8.0).view(4, 2).requires_grad_()
    return [(x, torch.tensor(mask)) for mask in ([True, False, True, True], [False] * 4)]
""",
        f"""\
import torch


{_SIZED}

{PLACES.format(name="_places", torch="torch", helper="_sized_op")}

def program(x, mask):
    rows = x[_places(mask)[0]]
    return rows.sin().sum(0), _places(mask).t()


def inputs():
    x = torch.arange(8.0).view(4, 2).requires_grad_()
    return [(x, torch.tensor(mask)) for mask in ([True, False, True, True], [False] * 4)]
""",
        Level.EXACT,
        grad=True,
    ),
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

@_code_op(
    gives=lambda times, t: (torch.empty((), dtype=times.dtype),),
    known={{"times": [("float", 1)], "t": [("float", 0)]}},
)
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
    Example(
        "a mask that is filled from positions",
        """\
import torch

STOPS = (3, 7)


def program(ids):
    rows, length = ids.shape
    stops = torch.zeros_like(ids, dtype=torch.bool)
    for stop in STOPS:
        stops |= ids == stop
    places = torch.nonzero(stops)
    mask = torch.eye(length, dtype=torch.bool).repeat(rows, 1, 1)
    last = 0
    for row, column in places:
        mask[row, last : column + 1, last : column + 1] = True
        last = column
    return mask


def inputs():
    return [(torch.tensor([[1, 3, 2, 7], [5, 5, 7, 2]]),), (torch.tensor([[1, 1, 2], [3, 1, 4], [1, 7, 1]]),)]
""",
        f"""\
import torch


{_HELPER}

STOPS = (3, 7)


@_code_op("mask")
def _write_mask(stops: torch.Tensor, mask: torch.Tensor) -> None:
    places = torch.nonzero(stops)
    last = 0
    for row, column in places:
        mask[row, last : column + 1, last : column + 1] = True
        last = column


def program(ids):
    rows, length = ids.shape
    stops = torch.zeros_like(ids, dtype=torch.bool)
    for stop in STOPS:
        stops |= ids == stop
    mask = torch.eye(length, dtype=torch.bool).repeat(rows, 1, 1)
    _write_mask(stops, mask)
    return mask


def inputs():
    return [(torch.tensor([[1, 3, 2, 7], [5, 5, 7, 2]]),), (torch.tensor([[1, 1, 2], [3, 1, 4], [1, 7, 1]]),)]
""",
        Level.EXACT,
    ),
)

UNTOUCHED = (
    Untouched(
        "a function of the user in the loop",
        """\
import torch

seen = []


def note(value):
    seen.append(value)
    return 1.0


def program(x, mask):
    out = torch.zeros_like(x)
    for place in torch.nonzero(mask).flatten():
        out[place] = note(0.5)
    return out


def inputs():
    return [(torch.ones(3), torch.tensor([True, False, True]))]
""",
        "calls `note`, which may do more",
    ),
)
