"""Examples and near misses of `layer_drop`."""

from __future__ import annotations

from onegraph.kinds.base import Example, Untouched
from onegraph.lowering import host_op_text, layer_skip
from onegraph.model import Level

_HELPERS = host_op_text.helper_text("_host_op", "torch") + "\n\n" + layer_skip.helper_text("torch")

_HEAD = """\
import torch
from torch import nn


"""
_INIT = """\
class Encoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList(nn.Sequential(nn.Linear(4, 4), nn.Dropout(0.5)) for _ in range(2))
        self.layerdrop = 0.5

"""
_END = """\


torch.manual_seed(0)
program = Encoder()


def inputs():
    return [(torch.linspace(-1, 1, 8).view(2, 4),)]
"""

EXAMPLES: tuple[Example, ...] = (
    Example(
        title="the rest of the round is skipped",
        before=_HEAD
        + _INIT
        + """\
    def forward(self, hidden):
        for layer in self.layers:
            if self.training and self.layerdrop > 0.0:
                draw = torch.rand([])
                if draw < self.layerdrop:
                    continue

            hidden = layer(hidden)
        return hidden.tanh()
"""
        + _END,
        after=_HEAD
        + _HELPERS
        + "\n\n"
        + _INIT
        + """\
    def forward(self, hidden):
        for layer in self.layers:
            skip_layer = False
            if self.training and self.layerdrop > 0.0:
                draw = torch.rand([])
                skip_layer = draw < self.layerdrop

            def run_layer(hidden):
                return layer(hidden)

            hidden = _unless(skip_layer, run_layer, hidden)
        return hidden.tanh()
"""
        + _END,
        level=Level.RELAXED,
        grad=True,
    ),
    Example(
        title="a flag, and an `if` around the layer",
        before=_HEAD
        + _INIT
        + """\
    def forward(self, hidden, synced=False):
        for layer in self.layers:
            skip = False
            if self.training:
                skip = torch.rand([]) < self.layerdrop
            if not skip or synced:
                # all ranks run it
                out = layer(hidden)
                hidden = out + hidden
        return hidden
"""
        + _END,
        after=_HEAD
        + _HELPERS
        + "\n\n"
        + _INIT
        + """\
    def forward(self, hidden, synced=False):
        for layer in self.layers:
            skip = False
            if self.training:
                skip = torch.rand([]) < self.layerdrop

            def run_layer(hidden):
                # all ranks run it
                out = layer(hidden)
                hidden = out + hidden
                return hidden

            hidden = _unless(not synced and skip, run_layer, hidden)
        return hidden
"""
        + _END,
        level=Level.RELAXED,
        grad=True,
    ),
)

UNTOUCHED: tuple[Untouched, ...] = (
    Untouched(
        "a list is filled as well",
        _HEAD
        + _INIT
        + """\
    def forward(self, hidden):
        seen = []
        for layer in self.layers:
            if torch.rand([]) < self.layerdrop:
                continue
            hidden = layer(hidden)
            seen.append(hidden)
        return hidden, seen
"""
        + _END,
        "does more than give a name a value",
    ),
)
