"""Examples and near misses of a shortcut to None, for `branch_on_tensor`."""

from __future__ import annotations

from onegraph.kinds.base import Example, Untouched
from onegraph.model import Level

_INPUTS = """

def inputs():
    x = torch.linspace(-1, 2, 12).view(3, 4)
    return [(x, torch.ones(3, 4, dtype=torch.long)), (x, (x > 0).long())]
"""


def _module(program: str, inputs: str = _INPUTS) -> str:
    return f"import torch\n\n\n{program.strip()}\n{inputs}"


EXAMPLES: tuple[Example, ...] = (
    Example(
        "a shortcut to None that saves work when a mask hides nothing",
        _module("""
def program(x, mask=None):
    if mask is not None and torch.all(mask == 1):
        mask = None
    x = x * 2
    return x + 1 if mask is None else x * mask + 1
"""),
        _module("""
def program(x, mask=None):
    x = x * 2
    return x + 1 if mask is None else x * mask + 1
"""),
        Level.RELAXED,
        grad=True,
    ),
)

UNTOUCHED: tuple[Untouched, ...] = (
    Untouched(
        "a shortcut to None that no recorded call takes",
        _module(
            """
def program(x, mask=None):
    if mask is not None and torch.all(mask == 1):
        mask = None
    return x + 1 if mask is None else x * mask + 1
""",
            _INPUTS.replace("(x, torch.ones(3, 4, dtype=torch.long)), ", ""),
        ),
        "no recorded call takes the shortcut",
    ),
    Untouched(
        "None on one side, and more on the other",
        _module("""
def program(x, mask=None):
    if torch.all(mask == 1):
        mask = None
    else:
        x = x - 1
    return x + 1 if mask is None else x * mask + 1
"""),
        "the other sides do more",
    ),
)
