"""Examples and near misses of `print_call`."""

from __future__ import annotations

from onegraph.kinds.base import Example, Untouched
from onegraph.kinds.effect_examples import HELPER
from onegraph.model import Level

EXAMPLES: tuple[Example, ...] = (
    Example(
        title="shapes and a statistic, in order",
        before="""\
import torch


def program(x):
    h = x.sin()
    print("hidden", tuple(h.shape))
    h = h * 2
    print(f"mean {h.mean():.4f}", end="\\n\\n")
    return h.relu()



def inputs():
    return [(torch.linspace(-1, 2, 6),), (torch.ones(2, 3),)]
""",
        after="""\
import torch


"""
        + HELPER
        + """\


@_ordered_op
def _print_hidden(h_shape: list[int]) -> None:
    print("hidden", tuple(h_shape))


@_ordered_op
def _print_mean(h_mean: torch.Tensor) -> None:
    print(f"mean {h_mean:.4f}", end="\\n\\n")


def program(x):
    h = x.sin()
    _print_hidden(h.shape)
    h = h * 2
    _print_mean(h.mean())
    return h.relu()



def inputs():
    return [(torch.linspace(-1, 2, 6),), (torch.ones(2, 3),)]
""",
        level=Level.RELAXED,
    ),
    Example(
        title="in a loop, from a method",
        before="""\
import torch


class Steps(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.tag = "step"

    def forward(self, x):
        for i in range(3):
            x = x * 2
            print(self.tag, i, x.sum())  # progress
        return x


program = Steps()



def inputs():
    return [(torch.linspace(-1, 2, 6),), (torch.ones(2, 3),)]
""",
        after="""\
import torch


"""
        + HELPER
        + """\


@_ordered_op
def _print_in_forward(tag: str, i: torch.types.Number, x_sum: torch.Tensor) -> None:
    print(tag, i, x_sum)  # progress


class Steps(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.tag = "step"

    def forward(self, x):
        for i in range(3):
            x = x * 2
            _print_in_forward(self.tag, i, x.sum())
        return x


program = Steps()



def inputs():
    return [(torch.linspace(-1, 2, 6),), (torch.ones(2, 3),)]
""",
        level=Level.RELAXED,
    ),
    Example(
        title="only where a tensor says so, behind a flag",
        before="""\
import torch


def program(x, debug=True):
    if debug and (x > 1.5).any():
        print("large:", x.max())
    return x * 2



def inputs():
    return [(torch.linspace(-1, 2, 6),), (torch.ones(2, 3),)]
""",
        after="""\
import torch


"""
        + HELPER
        + """\


@_ordered_op
def _print_large(x_above_1_5_any: torch.Tensor, x: torch.Tensor) -> None:
    if x_above_1_5_any:
        print("large:", x.max())


def program(x, debug=True):
    if debug:
        _print_large((x > 1.5).any(), x)
    return x * 2



def inputs():
    return [(torch.linspace(-1, 2, 6),), (torch.ones(2, 3),)]
""",
        level=Level.RELAXED,
    ),
)

UNTOUCHED: tuple[Untouched, ...] = (
    Untouched(
        "an object that no op can take",
        """\
import torch


class Config:
    def __repr__(self):
        return "Config()"


CONFIGS = [Config()]


def program(x):
    for config in CONFIGS:
        print(config, x.mean())
    return x * 2



def inputs():
    return [(torch.linspace(-1, 2, 6),), (torch.ones(2, 3),)]
""",
        "`config` is a",
    ),
    Untouched(
        "the result of a call that prints is used",
        """\
import torch


def program(x):
    done = [print("sum", x.sum())]
    return x * 2, len(done)



def inputs():
    return [(torch.linspace(-1, 2, 6),), (torch.ones(2, 3),)]
""",
        "part of a larger statement",
    ),
    Untouched(
        "guarded already",
        """\
import torch


def program(x):
    if not torch.compiler.is_compiling():
        print("sum", x.sum())
    return x * 2



def inputs():
    return [(torch.linspace(-1, 2, 6),), (torch.ones(2, 3),)]
""",
        "",
    ),
)
