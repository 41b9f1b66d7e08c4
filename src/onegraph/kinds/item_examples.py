"""Examples and near misses of `item_call`."""

from __future__ import annotations

from onegraph.kinds.base import Example, Untouched
from onegraph.lowering import number_helper
from onegraph.lowering.one_value import HELPER_TEXT
from onegraph.model import Level

_HEAD = "import math\n\nimport torch\n\n\n"
_INPUTS = {
    "floats": "[(torch.linspace(-1, 2, 6, requires_grad=True),), (torch.ones(2, 3, requires_grad=True),)]",
    "halves": "[(torch.linspace(-1, 2, 6).half(),), (torch.linspace(0, 3, 7).bfloat16(),)]",
    "integers": "[(torch.arange(1, 7),), (torch.tensor([[5, -3], [2, 2]]),)]",
}


def _module(program: str, inputs: str) -> str:
    return f"{_HEAD}{program.strip()}\n\n\ndef inputs():\n    return {_INPUTS[inputs]}\n"


def _mended(program: str, inputs: str) -> str:
    """A module that calls the helpers in ``program``."""
    text = _module(program, inputs)
    return number_helper.complete(text, number_helper.names_in(_HEAD))


def _example(
    title: str,
    before: str,
    after: str,
    inputs: str = "floats",
    *,
    level: Level = Level.RELAXED,
    grad: bool = True,
) -> Example:
    return Example(title, _module(before, inputs), _mended(after, inputs), level, grad)


def _untouched(title: str, program: str, reason: str, inputs: str = "floats") -> Untouched:
    return Untouched(title, _module(program, inputs), reason)


EXAMPLES: tuple[Example, ...] = (
    _example(
        "a norm as a factor: no gradient flows through it, before and after",
        """
def program(x):
    scale = x.norm().item()
    return x * scale + 1
""",
        """
def program(x):
    scale = _number(x.norm(), float)
    return x * _beside(scale, x) + 1
""",
    ),
    _example(
        "Python computes in double",
        """
def program(x):
    mean = x.mean().item()
    third = (mean + 1) / 3 - 0.1
    return (x - mean) * third
""",
        """
def program(x):
    mean = _number(x.mean(), float)
    third = (mean + 1) / 3 - 0.1
    return (x - _beside(mean, x)) * _beside(third, x)
""",
    ),
    _example(
        "beside a tensor without dimensions, and under a division",
        """
def program(x):
    total = x.sum()
    scale = x.abs().max().item()
    return total * scale, scale / x
""",
        """
def program(x):
    total = x.sum()
    scale = _number(x.abs().max(), float)
    return total * _beside(scale, total), x.reciprocal() * _beside(scale, x)
""",
    ),
    _example(
        "integers: a mean over what is counted",
        """
def program(x):
    positive = (x > 0).sum().item()
    return x * (positive / x.numel()) + positive
""",
        """
def program(x):
    positive = _number((x > 0).sum(), int)
    return x * _beside(positive.double() / (x.numel() or 1 / 0), x) + _beside(positive, x)
""",
    ),
    _example(
        "float() of something that may also be a number",
        """
def program(x, scale=torch.tensor([2.5])):
    scale = float(scale)
    return x * scale + float(x.detach().mean() * 2)
""",
        """
def program(x, scale=torch.tensor([2.5])):
    scale = _number(scale, float, float)
    return (operand := x * _beside(scale, x)) + _beside(_number(x.detach().mean() * 2, float, float), operand)
""",
        level=Level.RELAXED,
    ),
    _example(
        "half precision",
        """
def program(x):
    peak = x.float().abs().max().item()
    return x / max(peak, 1e-6) + peak * 0.1
""",
        """
def program(x):
    peak = _number(x.float().abs().max(), float)
    return x / _beside(peak.clamp(min=1e-06), x) + _beside(peak * 0.1, x)
""",
        "halves",
        grad=False,
    ),
    _example(
        "an integer tensor takes the default dtype beside a float",
        """
def program(x):
    mean = x.float().mean().item()
    return x * mean, x.clamp(max=x.max().item())
""",
        """
def program(x):
    mean = _number(x.float().mean(), float)
    return x * _beside(mean, x), x.clamp(max=_beside(_number(x.max(), int), x))
""",
        "integers",
        grad=False,
    ),
    _example(
        "a sum over a loop, added up in place",
        """
def program(x):
    total = 0.0
    for part in (x, x * 2):
        norm = part.norm().item()
        total += norm * norm
    return x / (total + 1e-6)
""",
        """
def program(x):
    total = 0.0
    for part in (x, x * 2):
        norm = _number(part.norm(), float)
        total = total + norm * norm
    return x / _beside(total + 1e-6, x)
""",
    ),
    _example(
        "a snapshot of something that changes later",
        """
def program(x):
    state = torch.ones((), dtype=torch.float64)
    before = state.item()
    state.add_(1)
    return x * before + math.sqrt(abs(before)) * state.sum().item()
""",
        """
def program(x):
    state = torch.ones((), dtype=torch.float64)
    before = _number(state, float)
    state.add_(1)
    return x * _beside(before, x) + _beside(torch.sqrt(abs(before)) * _number(state.sum(), float), x)
""",
    ),
    _example(
        "an index",
        """
SCALES = [0.5, 1.5, 2.5]


def program(x):
    y = x.flatten()
    best = y[:3].argmax().item()
    scale = SCALES[best]
    return y * scale + y[best]
""",
        """
SCALES = [0.5, 1.5, 2.5]


def program(x):
    y = x.flatten()
    best = _number(y[:3].argmax(), int)
    scale = torch.tensor(SCALES, dtype=torch.float64)[best.view(1)].reshape(())
    return y * _beside(scale, y) + y[best.view(1)].squeeze(0)
""",
    ),
)

_LOSSY = _example(
    "a flag that is handed down, taken for granted",
    """
def layer(x, large):
    return x.tanh() if large else x * 2


def program(x):
    large = (x > 9).any().item()
    return layer(x, large)
""",
    f"""
{HELPER_TEXT.format(name="_one_value", torch="torch")}

def layer(x, large):
    return x.tanh() if large else x * 2


def program(x):
    large = _one_value((x > 9).any(), False)
    return layer(x, large)
""",
    level=Level.LOSSY,
)
EXAMPLES = (*EXAMPLES, _LOSSY)

UNTOUCHED: tuple[Untouched, ...] = (
    _untouched("returned", "def program(x):\n    return x * 2, x.mean().item()", "is returned"),
    _untouched(
        "an index into a list of objects",
        "def program(x):\n    scales = [x, x * 2, x]\n    return x + scales[x[:3].argmax().item()]",
        "a list",
    ),
    _untouched(
        "a condition of a loop",
        "def program(x):\n    n = x.mean().item()\n    while n > 0:\n        x, n = x * n, n - 1\n    return x",
        "decides a condition",
    ),
    _untouched(
        "printed",
        "def program(x):\n    mean = x.mean().item()\n    print(mean)\n    return x * mean",
        "is printed",
    ),
    _untouched(
        "formatted",
        'def program(x):\n    mean = x.mean().item()\n    name = f"{mean:.2f}"\n    return x * len(name)',
        "put into a text",
    ),
    _untouched(
        "kept on a dict",
        "def program(x):\n    seen = {'mean': x.mean().item()}\n    return x * seen['mean']",
        "is kept in a list",
    ),
    _untouched(
        "passed to a function",
        "def scaled(x, by):\n    return x * by\n\n\ndef program(x):\n    return scaled(x, x.mean().item())",
        "is passed to `scaled`",
    ),
    _untouched(
        "a divisor: Python would raise",
        "def program(x):\n    return x * (1.0 / x.sum().item())",
        "Python raises on zero",
    ),
    _untouched(
        "a power: rounded differently",
        "def program(x):\n    return x * x.mean().item() ** 2",
        "rounds differently",
    ),
    _untouched(
        "math.sqrt of what may be negative",
        "def program(x):\n    return x * math.sqrt(x.sum().item() + 9)",
        "raises on a negative number",
    ),
    _untouched(
        "a list of numbers", "def program(x):\n    return x * x.flatten().tolist()[0]", "a list of numbers"
    ),
    _untouched(
        "read by an inner function",
        "def program(x):\n    mean = x.mean().item()\n    return (lambda y: y * mean)(x)",
        "read by an inner function",
    ),
    _untouched(
        "of two types on two paths",
        """
def program(x):
    mean = x.mean().item() if x.dim() == 1 else None
    return x if mean is None else x * mean
""",
        "NoneType",
    ),
    _untouched(
        "never while compiling",
        """
def program(x):
    scale = 2.0
    if not torch.compiler.is_compiling():
        scale = x.new_tensor(2.0).item()
    return x * scale
""",
        "",
    ),
    _untouched("no tensor", "def program(x):\n    return x * float(x.shape[0]) + float('1.5')", ""),
)
