"""``nn.LSTM``, ``nn.GRU`` or ``nn.RNN`` called in the compiled function.

What happens: torch.compile leaves these modules out of graphs on purpose (their loops take long to compile), so the
graph ends at the call.
What else it causes: the code before and behind it are graphs of their own.

Exact: the call stands in a block that lets torch.compile trace the module. Compiling takes longer.
Declined: the call is a part of a compound statement.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from onegraph.kinds.base import Example, Untouched
from onegraph.lowering.setting_block import Setting, switched_on
from onegraph.model import Break, Candidate, Declined, Level
from onegraph.rewrite.request import Request

NAME = "rnn_module"
TITLE = "nn.LSTM, nn.GRU or nn.RNN in the compiled function"
GB_IDS = ("GB0014",)
ORDER = 45

_SETTING = Setting(
    "allow_rnn",
    "_RnnInGraph",
    "Let torch.compile trace nn.LSTM, nn.GRU and nn.RNN inside of this block; by default it leaves them out.",
    "Set torch._dynamo.config.allow_rnn = True, or write the loop with an LSTMCell.",
)
_BEFORE = """\
import torch


class Encoder(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.rnn = torch.nn.GRU(3, 4, batch_first=True)

    def forward(self, x):
        out, last = self.rnn(x * 2)
        return out.tanh(), last[0]


torch.manual_seed(0)
program = Encoder().eval().requires_grad_(False)


def inputs():
    return [(torch.linspace(-1, 1, 12).view(2, 2, 3),)]
"""
EXAMPLES: tuple[Example, ...] = (
    Example(
        title="a call",
        before=_BEFORE,
        after=_BEFORE.replace(
            "        out, last = self.rnn(x * 2)\n",
            "        with _RnnInGraph():\n            out, last = self.rnn(x * 2)\n",
        ).replace("import torch\n\n\n", "import torch\n\n\n" + _SETTING.helper("torch") + "\n\n", 1),
        level=Level.EXACT,
    ),
)
UNTOUCHED: tuple[Untouched, ...] = (
    Untouched(
        "in a test",
        """\
import torch

rnn = torch.nn.GRU(3, 4)


def program(x):
    if rnn(x)[0].shape[0] == 2:
        return x * 2
    return x


def inputs():
    return [(torch.ones(2, 3),)]
""",
        "is a part of a larger statement",
    ),
)


def recognises(break_: Break, node: ast.AST | None) -> bool:
    return break_.gb_type == "Attempted to wrap RNN, GRU, or LSTM"


def repairs(request: Request) -> Iterator[Candidate | Declined]:
    """The statement in a block that switches ``allow_rnn`` on."""
    yield from switched_on(
        request, _SETTING, NAME, "Let torch.compile trace the recurrent module", ("compiling takes longer",)
    )
