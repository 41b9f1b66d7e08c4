"""Examples and near misses of `builtin_on_tensors`."""

from __future__ import annotations

from onegraph.kinds.base import Example, Untouched
from onegraph.lowering.builtin_helpers import definition
from onegraph.model import Level

_HEAD = "import torch\n\n\n"
_INPUTS = """

def inputs():
    return [(torch.tensor([[1.0, 2.0], [-3.0, 1.0], [0.5, 2.5]], requires_grad=True),)]
"""


def _example(title: str, builtin: str, before: str, after: str) -> Example:
    helper = definition(builtin, f"_{builtin}") + "\n\n"
    return Example(
        title,
        _HEAD + before.strip() + "\n" + _INPUTS,
        _HEAD + helper + after.strip() + "\n" + _INPUTS,
        Level.RELAXED,
        grad=True,
    )


def _untouched(title: str, program: str, reason: str) -> Untouched:
    return Untouched(title, _HEAD + program.strip() + "\n" + _INPUTS, reason)


EXAMPLES: tuple[Example, ...] = (
    _example(
        "a median of norms",
        "sorted",
        """
def program(x):
    norms = [row.norm() for row in x]
    median = sorted(norms)[len(norms) // 2]
    return x / max(norms) + median
""",
        """
def program(x):
    norms = [row.norm() for row in x]
    median = _sorted(norms)[len(norms) // 2]
    return x / max(norms) + median
""",
    ),
    _example(
        "a list sorted in place stays a list",
        "sorted",
        """
def program(x):
    sums = [row.sum() for row in x]
    sums.sort(reverse=True)
    first, *rest = sums
    sums.append(first + len(rest))
    return [x * s for s in sums]
""",
        """
def program(x):
    sums = [row.sum() for row in x]
    sums[:] = _sorted(sums, reverse=True)
    first, *rest = sums
    sums.append(first + len(rest))
    return [x * s for s in sums]
""",
    ),
    _example(
        "rows in the order of a key",
        "sorted",
        """
def program(x):
    rows = sorted(x, key=lambda row: row.abs().sum())
    return torch.stack(rows)
""",
        """
def program(x):
    rows = _sorted(x, key=lambda row: row.abs().sum())
    return torch.stack(rows)
""",
    ),
    _example(
        "the largest by a key",
        "max",
        """
def program(x):
    return x * max([row.sum() for row in x], key=lambda s: (s - 1).abs(), default=None)
""",
        """
def program(x):
    return x * _max([row.sum() for row in x], key=lambda s: (s - 1).abs(), default=None)
""",
    ),
    _example(
        "the smaller of two by a key",
        "min",
        """
def program(x):
    return x * min(x.sum(), x.mean(), key=torch.abs)
""",
        """
def program(x):
    return x * _min(x.sum(), x.mean(), key=torch.abs)
""",
    ),
)

UNTOUCHED: tuple[Untouched, ...] = (
    _untouched(
        "torch captures max and min of tensors itself",
        """
def program(x):
    return x * max([row.sum() for row in x]) + min(x.sum(), x.mean())
""",
        "",
    ),
    _untouched(
        "two dtypes",
        """
def program(x):
    return x * sorted([x.sum(), x.mean().double()])[0]
""",
        "gets tensors of torch.float32 and torch.float64",
    ),
    _untouched(
        "Python numbers in the order of tensors",
        """
def program(x):
    return x * sorted(range(3), key=lambda i: x[i].sum())[0]
""",
        "gets int values",
    ),
    _untouched(
        "a key that is a function of its own",
        """
def size(t):
    return t.sum() * 2


def program(x):
    return x * max([row.sum() for row in x], key=size)
""",
        "may do more than compute",
    ),
    _untouched(
        "a sort inside an expression",
        """
def program(x):
    values = [row.sum() for row in x]
    order = [values.sort()]
    return x * values[0], order
""",
        "stands inside an expression",
    ),
    _untouched(
        "a truth value that is returned",
        """
def program(x):
    return x, any([row.sum() > 0 for row in x])
""",
        "used as a Python bool",
    ),
    _untouched(
        "Python values beside tensors",
        """
def program(x):
    return x + 1 if any([x.dim() > 5, x.sum() > 0]) else x
""",
        "gets bool values beside tensors",
    ),
)
