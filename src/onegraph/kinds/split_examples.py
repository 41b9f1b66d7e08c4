"""Examples and near misses of ``split_by_lengths``."""

from __future__ import annotations

from onegraph.kinds.base import Example, Untouched
from onegraph.lowering.one_piece import WITHIN_PIECES
from onegraph.model import Level

_HELPER = WITHIN_PIECES.format(name="_within_pieces", torch="torch")
_INPUTS = """

def inputs():
    q, k, v = torch.linspace(-1, 1, 3 * 2 * 6 * 4).sin().view(3, 1, 2, 6, 4)
    return [(q, k, v, torch.tensor(ends)) for ends in ([0, 2, 6], [0, 6], [0, 1, 3, 6])]
"""

EXAMPLES: tuple[Example, ...] = (
    Example(
        "attention within each of several sequences",
        f"""\
import torch
import torch.nn.functional as F


def program(q, k, v, ends):
    lengths = (ends[1:] - ends[:-1]).tolist()
    outputs = []
    for a, b, c in zip(q.split(lengths, dim=2), k.split(lengths, dim=2), v.split(lengths, dim=2)):
        outputs.append(F.scaled_dot_product_attention(a, b, c))
    return torch.cat(outputs, dim=2)
{_INPUTS}""",
        f"""\
import torch
import torch.nn.functional as F


{_HELPER}

def program(q, k, v, ends):
    lengths = ends[1:] - ends[:-1]
    outputs = []
    for a, b, c in zip((q,), (k,), (v,)):
        outputs.append(F.scaled_dot_product_attention(a, b, c, attn_mask=_within_pieces(lengths, a, 2, keeps=True)))
    return torch.cat(outputs, dim=2)
{_INPUTS}""",
        Level.RELAXED,
        grad=True,
        rounding=True,
    ),
    Example(
        "a function that adds a mask",
        f"""\
import torch


def attend(q, k, v, attention_mask=None):
    scores = q @ k.transpose(-1, -2)
    if attention_mask is not None:
        scores = scores + attention_mask
    return scores.softmax(-1) @ v, scores


def program(q, k, v, ends):
    lengths = ends[1:] - ends[:-1]
    pieces = [torch.split(x, lengths.tolist(), dim=2) for x in (q, k, v)]
    outputs = [attend(a, b, c, attention_mask=None)[0] for a, b, c in zip(*pieces)]
    return torch.cat(outputs, dim=2)
{_INPUTS}""",
        f"""\
import torch


{_HELPER}

def attend(q, k, v, attention_mask=None):
    scores = q @ k.transpose(-1, -2)
    if attention_mask is not None:
        scores = scores + attention_mask
    return scores.softmax(-1) @ v, scores


def program(q, k, v, ends):
    lengths = ends[1:] - ends[:-1]
    pieces = [(x,) for x in (q, k, v)]
    outputs = [attend(a, b, c, attention_mask=_within_pieces(lengths, a, 2))[0] for a, b, c in zip(*pieces)]
    return torch.cat(outputs, dim=2)
{_INPUTS}""",
        Level.RELAXED,
        rounding=True,
    ),
)

UNTOUCHED: tuple[Untouched, ...] = (
    Untouched(
        "a function that does not heed the mask, and asks whether a piece is short",
        """\
import torch


def attend(q, k, attention_mask=None):
    if q.shape[0] < 3:
        return q
    return q @ k.transpose(-1, -2).relu() @ q


def program(x, lengths):
    return torch.cat([attend(piece, piece, attention_mask=None) for piece in x.split(lengths.tolist())])


def inputs():
    return [(torch.arange(12.0).view(6, 2), torch.tensor([2, 4]))]
""",
        "heeds a mask",
    ),
)
