"""Constructs and what they become; ``f`` takes one tensor."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Case:
    """``condition`` is the source of the tensor test; ``after`` the first candidate, ``whole`` if it is one graph."""

    title: str
    before: str
    condition: str
    after: str = ""
    gradients: bool = True
    whole: bool = True


@dataclass(frozen=True)
class Refusal:
    title: str
    before: str
    condition: str
    reason: str


CASES = (
    Case(
        "sides that are laid out otherwise in memory",
        """\
def f(x):
    if x.sum() > 0:
        y = x.softmax(-1)
    else:
        y = x.tanh().t().contiguous().t()
    return x * y
""",
        "x.sum() > 0",
        """\
def f(x):
    y = _cond(
        x.sum() > 0,
        lambda: x.softmax(-1).contiguous(),
        lambda: x.tanh().t().contiguous().t().contiguous(),
    )
    return x * y
""",
    ),
    Case(
        "a name read under the flag that sets it",
        """\
def f(x):
    return twice(x, x.sum() > 0)


def twice(x, large):
    if large:
        z = x + 1
    y = x * 2
    if large:
        y = y + z
    return y
""",
        "large",
        """\
def f(x):
    return twice(x, x.sum() > 0)


def twice(x, large):
    z = _cond(large, lambda: x + 1, lambda: torch.zeros_like(x))
    y = x * 2
    if large:
        y = y + z
    return y
""",
        whole=False,
    ),
    Case(
        "Python in a condition inside another",
        """\
def f(x):
    if x.sum() > 0 or (x.dim() == 2 and x.max() > 1):
        x = x - 1
    return x + 1
""",
        "x.sum() > 0 or (x.dim() == 2 and x.max() > 1)",
        """\
def f(x):
    x = torch.where((x.sum() > 0) | torch.as_tensor(bool(x.dim() == 2) and x.max() > 1), x - 1, x)
    return x + 1
""",
    ),
    Case(
        "the second condition may fail where the first is false",
        """\
def f(x):
    if x.sum() > 0 and x[2, 0] > 1:
        x = x - 1
    return x + 1
""",
        "x.sum() > 0 and x[2, 0] > 1",
        """\
def f(x):
    x = torch.where(
        _cond(x.sum() > 0, lambda: (torch.as_tensor(x[2, 0]) > 1).reshape(()).bool(), lambda: x.sum() > 0),
        x - 1,
        x,
    )
    return x + 1
""",
    ),
    Case(
        "nothing uses what the branch computes",
        """\
def f(x):
    if x.sum() > 0:
        y = x - 1
        y.mul_(2)
    return x + 1
""",
        "x.sum() > 0",
        """\
def f(x):
    return x + 1
""",
    ),
    Case(
        "no else",
        """\
def f(x):
    if x.sum() > 0:
        # double it
        x = x * 2  # twice
    return x + 1
""",
        "x.sum() > 0",
        """\
def f(x):
    # double it
    # twice
    x = torch.where(x.sum() > 0, x * 2, x)
    return x + 1
""",
    ),
    Case(
        "early return",
        """\
def f(x):
    y = x + 1
    if y.sum() > 0:
        return y * 2.0
    z = y - 1
    z = z * 3
    return z - x
""",
        "y.sum() > 0",
        """\
def f(x):
    y = x + 1

    def result_otherwise():
        z = y - 1
        z = z * 3
        return z - x

    return _cond(y.sum() > 0, lambda: y * 2.0, result_otherwise)
""",
    ),
    Case(
        "a chain of early returns",
        """\
def f(x):
    if x.sum() > 5:
        return x * 2
    if x.sum() > 0:
        return x.sin()
    y = x.cos()
    return y * x
""",
        "x.sum() > 0",
        """\
def f(x):
    def result_otherwise():
        def result_otherwise_2():
            y = x.cos()
            return y * x

        return _cond(x.sum() > 0, lambda: x.sin(), result_otherwise_2)

    return _cond(x.sum() > 5, lambda: x * 2, result_otherwise)
""",
    ),
    Case(
        "tuples returned, select",
        """\
def f(x):
    if x.sum() > 0:
        return x * 2, x + 1
    else:
        return x - 1, x.relu()
""",
        "x.sum() > 0",
        """\
def f(x):
    is_positive = x.sum() > 0
    return torch.where(is_positive, x * 2, x - 1), torch.where(is_positive, x + 1, x.relu())
""",
    ),
    Case(
        "tuples returned, branch",
        """\
def f(x):
    if x.sum() > 0:
        return x.sin(), x + 1
    else:
        return x - 1, x.exp()
""",
        "x.sum() > 0",
        """\
def f(x):
    return _cond(x.sum() > 0, lambda: (x.sin(), x + 1), lambda: (x - 1, x.exp()))
""",
    ),
    Case(
        "a constant in the returned tuple",
        """\
def f(x):
    if x.sum() > 0:
        return x.sin(), None
    return x - 1, None
""",
        "x.sum() > 0",
        """\
def f(x):
    is_positive = x.sum() > 0
    safe_x = torch.where(is_positive, x, 1.0)
    return torch.where(is_positive, safe_x.sin(), x - 1), None
""",
    ),
    Case(
        "ternary in a call",
        """\
def f(x):
    return F.relu(x * 3 if x.sum() > 0 else x - 1) + 1
""",
        "x.sum() > 0",
        """\
def f(x):
    return F.relu(torch.where(x.sum() > 0, x * 3, x - 1)) + 1
""",
    ),
    Case(
        "ternary in a ternary",
        """\
def f(x):
    y = (x.exp() if x.sum() > 0 else (x.sin() if x.mean() > -1 else x.cos())) * 2
    return y
""",
        "x.sum() > 0",
        """\
def f(x):
    y = _cond(
        x.sum() > 0,
        lambda: x.exp(),
        lambda: _cond(x.mean() > -1, lambda: x.sin(), lambda: x.cos()),
    ) * 2
    return y
""",
    ),
    Case(
        "ternary of numbers",
        """\
def f(x):
    return x * (0.1 if x.sum() > 0 else 0.5)
""",
        "x.sum() > 0",
        """\
def f(x):
    return x * torch.where(
        x.sum() > 0,
        torch.tensor(0.1, dtype=torch.float64),
        torch.tensor(0.5, dtype=torch.float64),
    )
""",
    ),
    Case(
        "several names",
        """\
def f(x):
    if x.sum() > 0:
        a = x + 1
        b = x * 2
        c = 5
    else:
        a = x - 1
        b = -x
    return a + b
""",
        "x.sum() > 0",
        """\
def f(x):
    is_positive = x.sum() > 0
    a = torch.where(is_positive, x + 1, x - 1)
    b = torch.where(is_positive, x * 2, -x)
    return a + b
""",
    ),
    Case(
        "a name that another one needs",
        """\
def f(x):
    if x.sum() > 0:
        a = x.exp()
        b = a * 2
    else:
        a = x
        b = x
    return a + b
""",
        "x.sum() > 0",
        """\
def f(x):
    is_positive = x.sum() > 0
    safe_x = torch.where(is_positive, x, 1.0)
    a = torch.where(is_positive, safe_x.exp(), x)
    b = torch.where(is_positive, safe_x.exp() * 2, x)
    return a + b
""",
    ),
    Case(
        "names that need each other",
        """\
def f(x):
    a, b = x, x + 1
    if x.sum() > 0:
        a = b + 1
        b = x - 1
    return a - b
""",
        "x.sum() > 0",
        """\
def f(x):
    a, b = x, x + 1
    is_positive = x.sum() > 0
    a = torch.where(is_positive, b + 1, a)
    b = torch.where(is_positive, x - 1, b)
    return a - b
""",
    ),
    Case(
        "augmented assignment of a local",
        """\
def f(x):
    y = x * 2
    if x.sum() > 0:
        y += x
    return y
""",
        "x.sum() > 0",
        """\
def f(x):
    y = x * 2
    y = torch.where(x.sum() > 0, y + x, y)
    return y
""",
    ),
    Case(
        "a local changed in place",
        """\
def f(x):
    y = x * 2
    if x.sum() > 0:
        y[0] = 0
        y.clamp_(-1, 1)
    return y * x
""",
        "x.sum() > 0",
        """\
def f(x):
    y = x * 2

    def y_if_positive(y=y):
        y = y.clone()
        y[0] = 0
        y.clamp_(-1, 1)
        return y

    y = _cond(x.sum() > 0, y_if_positive, lambda: y)
    return y * x
""",
    ),
    Case(
        "Python and tensor, with else",
        """\
def f(x, training=True):
    if training and x.sum() > 0:
        y = x - 1
    else:
        y = x + 1
    return y
""",
        "x.sum() > 0",
        """\
def f(x, training=True):
    y = _cond(training and x.sum() > 0, lambda: x - 1, lambda: x + 1)
    return y
""",
    ),
    Case(
        "tensor and Python",
        """\
def f(x, training=True):
    if x.sum() > 0 and training:
        x = x - 1
    return x
""",
        "x.sum() > 0",
        """\
def f(x, training=True):
    if training:
        x = torch.where(x.sum() > 0, x - 1, x)
    return x
""",
    ),
    Case(
        "two tensor conditions",
        """\
def f(x):
    if x.sum() > 0 and x.max() < 100:
        x = x - 1
    return x
""",
        "x.sum() > 0",
        """\
def f(x):
    x = torch.where((x.sum() > 0) & (x.max() < 100), x - 1, x)
    return x
""",
    ),
    Case(
        "or, not",
        """\
def f(x):
    if x.sum() > 0 or not x.max() < 100:
        x = x - 1
    return x
""",
        "x.sum() > 0",
        """\
def f(x):
    x = torch.where((x.sum() > 0) | ~(x.max() < 100), x - 1, x)
    return x
""",
    ),
    Case(
        "chained comparison",
        """\
def f(x):
    m = x.mean()
    if -1 < m < 1:
        x = x - 1
    return x
""",
        "-1 < m < 1",
        """\
def f(x):
    m = x.mean()
    x = torch.where((-1 < m) & (m < 1), x - 1, x)
    return x
""",
    ),
    Case(
        "nested",
        """\
def f(x):
    if x.sum() > 0:
        y = x + 1
        if x.max() > 1.5:
            y = y - 2
    else:
        y = -x
    return y
""",
        "x.sum() > 0",
        """\
def f(x):
    def y_if_positive():
        y = x + 1
        return torch.where(x.max() > 1.5, y - 2, y)

    y = _cond(x.sum() > 0, y_if_positive, lambda: -x)
    return y
""",
    ),
    Case(
        "nested, branch in branch",
        """\
def f(x):
    if x.sum() > 0:
        y = x.exp()
        if y.max() > 1.5:
            y = y.sin()
    else:
        y = -x
    return y
""",
        "y.max() > 1.5",
        """\
def f(x):
    def y_if_positive():
        y = x.exp()
        return _cond(y.max() > 1.5, lambda: y.sin(), lambda: y)

    y = _cond(x.sum() > 0, y_if_positive, lambda: -x)
    return y
""",
    ),
    Case(
        "clamp where half precision overflowed",
        """\
def f(x):
    h = x.half()
    if h.dtype == torch.float16 and (
        torch.isinf(h).any() or torch.isnan(h).any()
    ):
        clamp_value = torch.finfo(h.dtype).max - 1000
        h = torch.clamp(h, min=-clamp_value, max=clamp_value)
    return h
""",
        "torch.isinf(h).any()",
        """\
def f(x):
    h = x.half()
    if h.dtype == torch.float16:
        clamp_value = torch.finfo(h.dtype).max - 1000
        h = torch.where(
            torch.isinf(h).any() | torch.isnan(h).any(),
            torch.clamp(h, min=-clamp_value, max=clamp_value),
            h,
        )
    return h
""",
    ),
    Case(
        "a ternary with an unchanged side",
        """\
def f(x):
    h = x.half()
    if h.dtype == torch.float16:
        clamp_value = torch.where(
            torch.isinf(h).any(),
            torch.finfo(h.dtype).max - 1000,
            torch.finfo(h.dtype).max,
        )
        h = torch.clamp(h, min=-clamp_value, max=clamp_value)
    return h if h.sum() > 0 else h + 1
""",
        "h.sum() > 0",
        """\
def f(x):
    h = x.half()
    if h.dtype == torch.float16:
        clamp_value = torch.where(
            torch.isinf(h).any(),
            torch.finfo(h.dtype).max - 1000,
            torch.finfo(h.dtype).max,
        )
        h = torch.clamp(h, min=-clamp_value, max=clamp_value)
    return torch.where(h.sum() > 0, h, h + 1)
""",
    ),
    Case(
        "a condition of one element",
        """\
def f(x):
    s = x.sum().view(1)
    if s > 0:
        x = x - 1
    return x
""",
        "s > 0",
        """\
def f(x):
    s = x.sum().view(1)
    x = torch.where((s > 0).reshape(()), x - 1, x)
    return x
""",
    ),
    Case(
        "a count as condition",
        """\
def f(x):
    if (x > 0).sum():
        x = x - 1
    return x
""",
        "(x > 0).sum()",
        """\
def f(x):
    x = torch.where((x > 0).sum() != 0, x - 1, x)
    return x
""",
    ),
    Case(
        "numbers in double precision",
        """\
def f(x):
    if x.sum() > 0:
        k = 0.1
    else:
        k = 0.3
    return x * k
""",
        "x.sum() > 0",
        """\
def f(x):
    k = torch.where(
        x.sum() > 0,
        torch.tensor(0.1, dtype=torch.float64),
        torch.tensor(0.3, dtype=torch.float64),
    )
    return x * k
""",
    ),
    Case(
        "a counter beside",
        """\
def f(x):
    n = torch.zeros((), dtype=torch.long)
    if x.sum() > 0:
        x = x.exp()
        n = n + 1
    return x * n
""",
        "x.sum() > 0",
        """\
def f(x):
    n = torch.zeros((), dtype=torch.long)
    is_positive = x.sum() > 0
    x = _cond(is_positive, lambda: x.exp(), lambda: x)
    n = torch.where(is_positive, n + 1, n)
    return x * n
""",
    ),
    Case(
        "a counter, and a value that the condition reads",
        """\
def f(x):
    n = torch.zeros((), dtype=torch.long)
    if x.sum() > 0:
        x = -x.exp()
        n = n + 1
    return x * n
""",
        "x.sum() > 0",
        """\
def f(x):
    n = torch.zeros((), dtype=torch.long)
    is_positive = x.sum() > 0
    x = _cond(is_positive, lambda: -x.exp(), lambda: x)
    n = torch.where(is_positive, n + 1, n)
    return x * n
""",
    ),
    Case(
        "views of one tensor",
        """\
def f(x):
    a, b = (x * 2).chunk(2, dim=1)
    if x.sum() > 0:
        y = a * b
    else:
        y = a.exp()
    return y
""",
        "x.sum() > 0",
        """\
def f(x):
    a, b = (x * 2).chunk(2, dim=1)
    b_copy = b.clone()
    y = _cond(x.sum() > 0, lambda: a * b_copy, lambda: a.exp())
    return y
""",
    ),
    Case(
        "inside a Python loop",
        """\
def f(x):
    for i in range(3):
        if x.sum() > 0:
            x = x - i
        else:
            x = x * 2
            x = x + i
    return x
""",
        "x.sum() > 0",
        """\
def f(x):
    for i in range(3):
        x = torch.where(x.sum() > 0, x - i, (x * 2) + i)
    return x
""",
    ),
    Case(
        "elif behind a Python if",
        """\
def f(x, mode=1):
    if mode == 0:
        y = x
    elif x.sum() > 0:
        y = x + 1
    else:
        y = x - 1
    return y
""",
        "x.sum() > 0",
        """\
def f(x, mode=1):
    if mode == 0:
        y = x
    else:
        y = torch.where(x.sum() > 0, x + 1, x - 1)
    return y
""",
    ),
    Case(
        "a name bound several times",
        """\
def f(x):
    if x.sum() > 0:
        x = x * 2
        x = x + x.mean()
        x = x.sin()
    return x
""",
        "x.sum() > 0",
        """\
def f(x):
    def x_if_positive(x=x):
        x = x * 2
        x = x + x.mean()
        return x.sin()

    x = _cond(x.sum() > 0, x_if_positive, lambda: x)
    return x
""",
    ),
    Case(
        "and as a value",
        """\
def f(x):
    ok = (x.sum() > 0) and (x.max() < 5)
    return torch.where(ok, x, -x)
""",
        "x.sum() > 0",
        """\
def f(x):
    ok = (x.sum() > 0) & (x.max() < 5)
    return torch.where(ok, x, -x)
""",
    ),
    Case(
        "on one line",
        """\
def f(x):
    if x.sum() > 0: x = x + 1
    return x
""",
        "x.sum() > 0",
        """\
def f(x):
    x = torch.where(x.sum() > 0, x + 1, x)
    return x
""",
    ),
    Case(
        "without gradients",
        """\
@torch.no_grad()
def f(x):
    if x.sum() > 0:
        y = x.tanh() * x
    else:
        y = x / x.norm()
    return y
""",
        "x.sum() > 0",
        """\
@torch.no_grad()
def f(x):
    y = torch.where(x.sum() > 0, x.tanh() * x, x / x.norm())
    return y
""",
    ),
    Case(
        "Python inside",
        """\
def f(x, k=2):
    if x.sum() > 0:
        y = x.exp()
        if k > 1:
            y = y * k
        for i in range(k):
            y = y + i
    else:
        y = x.sin()
    return y
""",
        "x.sum() > 0",
        """\
def f(x, k=2):
    def y_if_positive():
        y = x.exp()
        if k > 1:
            y = y * k
        for i in range(k):
            y = y + i
        return y

    y = _cond(x.sum() > 0, y_if_positive, lambda: x.sin())
    return y
""",
    ),
    Case(
        "no_grad inside",
        """\
def f(x):
    if x.sum() > 0:
        with torch.no_grad():
            y = x.exp()
    else:
        y = x.sin()
    return y
""",
        "x.sum() > 0",
        """\
def f(x):
    def y_if_positive():
        with torch.no_grad():
            y = x.exp()
        return y

    y = _cond(x.sum() > 0, y_if_positive, lambda: x.sin())
    return y
""",
    ),
    Case(
        "inside a Python if, both return",
        """\
def f(x, k=2):
    if k > 1:
        if x.sum() > 0:
            return x.exp()
        return x.sin()
    return x
""",
        "x.sum() > 0",
        """\
def f(x, k=2):
    if k > 1:
        return _cond(x.sum() > 0, lambda: x.exp(), lambda: x.sin())
    return x
""",
    ),
    Case(
        "a tensor of its own changed in place",
        """\
def f(x):
    if x.sum() > 0:
        y = x.clone()
        y[0] = 0
        return y
    return x.exp()
""",
        "x.sum() > 0",
        """\
def f(x):
    def result_if_positive():
        y = x.clone()
        y[0] = 0
        return y

    return _cond(x.sum() > 0, result_if_positive, lambda: x.exp())
""",
    ),
    Case(
        "crossed names",
        """\
def f(x):
    a, b = x, x + 1
    if x.sum() > 0:
        b = a * 2
        a = b + 1
    return a - b
""",
        "x.sum() > 0",
        """\
def f(x):
    a, b = x, x + 1
    is_positive = x.sum() > 0
    b = torch.where(is_positive, a * 2, b)
    a = torch.where(is_positive, (a * 2) + 1, a)
    return a - b
""",
    ),
    Case(
        "a swap through a name",
        """\
def f(x):
    a, b = x, x + 1
    if x.sum() > 0:
        t = a
        a = b
        b = t
    return a - 2 * b
""",
        "x.sum() > 0",
        """\
def f(x):
    a, b = x, x + 1
    is_positive = x.sum() > 0
    t = a
    a = torch.where(is_positive, b, a)
    b = torch.where(is_positive, t, b)
    return a - 2 * b
""",
    ),
    Case(
        "a swap by tuple",
        """\
def f(x):
    a, b = x, x + 1
    if x.sum() > 0:
        a, b = b, a
    return a - 2 * b
""",
        "x.sum() > 0",
        """\
def f(x):
    a, b = x, x + 1

    def values_if_positive(a=a, b=b):
        a, b = b, a
        return a, b

    a, b = _cond(x.sum() > 0, values_if_positive, lambda: (a, b))
    return a - 2 * b
""",
    ),
    Case(
        "a module with parameters and a buffer",
        """\
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.lin = nn.Linear(4, 4)
        self.register_buffer("scale", torch.ones(4))
        self.register_buffer("count", torch.zeros((), dtype=torch.long))

    def forward(self, x):
        h = self.lin(x)
        if h.sum() > 0:
            # run it twice
            h = self.lin(h)
            h = h.relu() * self.scale
        return h + x


f = Net()
""",
        "h.sum() > 0",
        """\
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.lin = nn.Linear(4, 4)
        self.register_buffer("scale", torch.ones(4))
        self.register_buffer("count", torch.zeros((), dtype=torch.long))

    def forward(self, x):
        h = self.lin(x)

        def h_if_positive(h=h):
            # run it twice
            h = self.lin(h)
            return h.relu() * self.scale

        h = _cond(h.sum() > 0, h_if_positive, lambda: h)
        return h + x


f = Net()
""",
    ),
    Case(
        "buffers changed in place",
        """\
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.lin = nn.Linear(4, 4)
        self.register_buffer("scale", torch.ones(4))
        self.register_buffer("count", torch.zeros((), dtype=torch.long))

    def forward(self, x):
        if x.sum() > 0:
            self.scale.mul_(0.9).add_(x.detach().mean(0), alpha=0.1)
            self.count += 1
        return self.lin(x) * self.scale


f = Net()
""",
        "x.sum() > 0",
        """\
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.lin = nn.Linear(4, 4)
        self.register_buffer("scale", torch.ones(4))
        self.register_buffer("count", torch.zeros((), dtype=torch.long))

    def forward(self, x):
        is_positive = x.sum() > 0
        scale = self.scale.clone()

        def scale_if_positive():
            new_scale = scale.clone()
            new_scale.mul_(0.9).add_(x.detach().mean(0), alpha=0.1)
            return new_scale

        self.scale.copy_(_cond(is_positive, scale_if_positive, lambda: scale).detach())
        self.count.copy_(torch.where(is_positive, self.count + 1, self.count))
        return self.lin(x) * self.scale


f = Net()
""",
    ),
    Case(
        "Python and tensor",
        """\
def f(x, training=True):
    if training and x.dtype == torch.float32 and x.sum() > 0:
        x = x - 1
    return x
""",
        "x.sum() > 0",
        """\
def f(x, training=True):
    if training and x.dtype == torch.float32:
        x = torch.where(x.sum() > 0, x - 1, x)
    return x
""",
    ),
    Case(
        "not",
        """\
def f(x):
    if not (x > 0).any():
        x = x - 1
    else:
        x = x + 1
    return x
""",
        "(x > 0).any()",
        """\
def f(x):
    x = torch.where((x > 0).any(), x + 1, x - 1)
    return x
""",
    ),
    Case(
        "bound anew, then changed in place",
        """\
def f(x):
    if x.sum() > 0:
        x = x * 2
        x += 1
    return x
""",
        "x.sum() > 0",
        """\
def f(x):
    x = torch.where(x.sum() > 0, (x * 2) + 1, x)
    return x
""",
    ),
    Case(
        "elif as a branch",
        """\
def f(x):
    if x.sum() > 5:
        y = x.exp()
    elif x.sum() > 0:
        y = x.sin()
    else:
        y = x.cos() * x
    return y
""",
        "x.sum() > 0",
        """\
def f(x):
    def y_otherwise():
        return _cond(x.sum() > 0, lambda: x.sin(), lambda: x.cos() * x)

    y = _cond(x.sum() > 5, lambda: x.exp(), y_otherwise)
    return y
""",
    ),
    Case(
        "a Python elif behind a tensor if",
        """\
def f(x, k=2):
    if x.sum() > 0:
        y = x.exp()
    elif k > 3:
        y = x.sin()
    else:
        y = x.cos() * x
    return y
""",
        "x.sum() > 0",
        """\
def f(x, k=2):
    def y_otherwise():
        if k > 3:
            y = x.sin()
        else:
            y = x.cos() * x
        return y

    y = _cond(x.sum() > 0, lambda: x.exp(), y_otherwise)
    return y
""",
    ),
    Case(
        "comments above a Python elif behind a tensor if",
        """\
def f(x, k=2):
    if x.sum() > 0:
        y = x.exp()

    # for large k
    elif k > 3:
        y = x.sin()
    else:
        y = x.cos() * x
    return y
""",
        "x.sum() > 0",
        """\
def f(x, k=2):
    def y_otherwise():
        # for large k
        if k > 3:
            y = x.sin()
        else:
            y = x.cos() * x
        return y

    y = _cond(x.sum() > 0, lambda: x.exp(), y_otherwise)
    return y
""",
    ),
    Case(
        "an arm that returns on some paths",
        """\
def f(x, k=2):
    if x.sum() > 0:
        if k > 3:
            return x.exp()
        x = x.sin()
    return x * 2
""",
        "x.sum() > 0",
        """\
def f(x, k=2):
    def result_if_positive(x=x):
        if k > 3:
            return x.exp()
        x = x.sin()
        return x * 2

    return _cond(x.sum() > 0, result_if_positive, lambda: x * 2)
""",
    ),
    Case(
        "an early return inside an arm",
        """\
def f(x):
    if x.sum() > 0:
        if x.max() > 1.5:
            return x.exp()
        x = x.sin()
    return x * 2
""",
        "x.max() > 1.5",
        """\
def f(x):
    def result_if_positive():
        def result_otherwise(x=x):
            x = x.sin()
            return x * 2

        return _cond(x.max() > 1.5, lambda: x.exp(), result_otherwise)

    return _cond(x.sum() > 0, result_if_positive, lambda: x * 2)
""",
    ),
    Case(
        "changed in place in a branch in a branch",
        """\
def f(x):
    y, z = x * 2, x.exp()
    if x.sum() > 0:
        y.mul_(2)
        if x.max() > 1.5:
            y[0] = 0
        z = z + y
    return y + z
""",
        "x.sum() > 0",
        """\
def f(x):
    y, z = x * 2, x.exp()

    def values_if_positive(y=y, z=z):
        y = y.clone()
        y.mul_(2)

        def y_if_large(y=y):
            y = y.clone()
            y[0] = 0
            return y

        y = _cond(x.max() > 1.5, y_if_large, lambda: y)
        z = z + y
        return z, y

    z, y = _cond(x.sum() > 0, values_if_positive, lambda: (z, y))
    return y + z
""",
    ),
    Case(
        "attributes that need each other",
        """\
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("a", torch.ones(4))
        self.register_buffer("b", torch.ones(4))

    def forward(self, x):
        if x.sum() > 0:
            self.a, self.b = self.a + 1, self.a + 3
        else:
            self.a, self.b = self.a - 1, self.a - 3
        return x * self.a - self.b


f = Net()
""",
        "x.sum() > 0",
        """\
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("a", torch.ones(4))
        self.register_buffer("b", torch.ones(4))

    def forward(self, x):
        a = self.a

        def values_if_positive():
            new_a = a
            new_a, new_b = new_a + 1, new_a + 3
            return new_a, new_b

        def values_otherwise():
            new_a = a
            new_a, new_b = new_a - 1, new_a - 3
            return new_a, new_b

        next_a, next_b = _cond(x.sum() > 0, values_if_positive, values_otherwise)
        self.a = next_a
        self.b = next_b
        return x * self.a - self.b


f = Net()
""",
    ),
    Case(
        "attributes that need each other, select",
        """\
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("a", torch.ones(4))
        self.register_buffer("b", torch.ones(4))

    def forward(self, x):
        if x.sum() > 0:
            self.b = self.a + 3
            self.a = self.a + 1
        else:
            self.a = self.a - 1
            self.b = self.a - 3
        return x * self.a - self.b


f = Net()
""",
        "x.sum() > 0",
        """\
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("a", torch.ones(4))
        self.register_buffer("b", torch.ones(4))

    def forward(self, x):
        is_positive = x.sum() > 0
        self.b = torch.where(is_positive, self.a + 3, (self.a - 1) - 3)
        self.a = torch.where(is_positive, self.a + 1, self.a - 1)
        return x * self.a - self.b


f = Net()
""",
    ),
    Case(
        "a condition that may be a Python value",
        """\
def f(x):
    return choose(x, x.sum() > 0)


def choose(x, flag):
    if flag:
        x = x - 1
    return x + 1
""",
        "flag",
        """\
def f(x):
    return choose(x, x.sum() > 0)


def choose(x, flag):
    x = _cond(flag, lambda: x - 1, lambda: x)
    return x + 1
""",
    ),
    Case(
        "a comparison of what may be a number",
        """\
def f(x):
    return choose(x, x.sum())


def choose(x, level):
    if level > 0:
        x = x - 1
    return x + 1
""",
        "level > 0",
        """\
def f(x):
    return choose(x, x.sum())


def choose(x, level):
    x = torch.where(torch.as_tensor(level) > 0, x - 1, x)
    return x + 1
""",
    ),
)

# The select form of these is above; here only that each candidate is the same program.
BRANCHES: tuple[Case, ...] = ()

DECLINED = (
    Refusal(
        "changed in place and bound anew, where an attribute keeps a view",
        """\
class Net(nn.Module):
    def forward(self, x):
        y = x * x
        self.last = y.detach()
        if x.sum() > 1:
            y.sub_(y.sigmoid())
        else:
            y = y * 2
        return y


f = Net()
""",
        "x.sum() > 1",
        "`y` is changed in place and bound anew",
    ),
    Refusal(
        "changed in place and bound anew, where another name needs the old tensor",
        """\
def f(x):
    y = x * x
    z = y
    if x.sum() > 1:
        y.sub_(y.sigmoid())
    else:
        y = y * 2
    return y + z
""",
        "x.sum() > 1",
        "`y` is changed in place and bound anew",
    ),
    Refusal(
        "a power of a number, which a tensor would round otherwise",
        """\
def f(x):
    if x.sum() > 0:
        n = 3.0
    else:
        n = 2.0
    return x**n
""",
        "x.sum() > 0",
        "as a tensor it would change `x ** n`",
    ),
    Refusal(
        "set on one path only",
        """\
def f(x):
    if x.sum() > 0:
        y = x + 1
    else:
        z = x
    return y
""",
        "x.sum() > 0",
        "set on one path only",
    ),
    Refusal(
        "would change",
        """\
def f(x):
    if x.sum() > 0:
        k = 0.1
    else:
        k = 0.3
    return x * k, k
""",
        "x.sum() > 0",
        "would change",
    ),
    Refusal(
        "another shape on each side",
        """\
def f(x):
    if x.sum() > 0:
        y = x[:2]
    else:
        y = x
    return y
""",
        "x.sum() > 0",
        "another shape on each side",
    ),
    Refusal(
        "print inside a tensor branch",
        """\
def f(x):
    if x.sum() > 0:
        print('hi')
        x = x + 1
    return x
""",
        "x.sum() > 0",
        "print inside a tensor branch",
    ),
    Refusal(
        "called for its effect",
        """\
def f(x):
    out = []
    if x.sum() > 0:
        out.append(x)
    return out
""",
        "x.sum() > 0",
        "called for its effect",
    ),
    Refusal(
        "break",
        """\
def f(x):
    for i in range(3):
        if x.sum() > 0:
            break
        x = x + 1
    return x
""",
        "x.sum() > 0",
        "`break`",
    ),
    Refusal(
        "draws random numbers",
        """\
def f(x):
    if x.sum() > 0:
        x = F.dropout(x, 0.5)
    else:
        x = x + 1
    return x
""",
        "x.sum() > 0",
        "draws random numbers",
    ),
    Refusal(
        "an alias, changed behind",
        """\
def f(x):
    a, b = x * 2, x + 1
    y = a
    if x.sum() > 0:
        y = b
    b.add_(1)
    return y + b
""",
        "x.sum() > 0",
        "changes it in place",
    ),
    Refusal(
        "an alias of a ternary, changed behind",
        """\
def f(x):
    a, b = x * 2, x + 1
    y = a if x.sum() > 0 else b
    y.add_(1)
    return y + b
""",
        "x.sum() > 0",
        "changes it in place",
    ),
    Refusal(
        "a view, of which the tensor is changed behind",
        """\
def f(x):
    a = x * 2
    y = a[0]
    if x.sum() > 0:
        y = a[1]
    a.add_(1)
    return y
""",
        "x.sum() > 0",
        "changes it in place",
    ),
    Refusal(
        "an attribute that shares the memory of another one, changed behind",
        """\
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("scale", torch.ones(4))
        self.last = torch.zeros(4)

    def forward(self, x):
        self.last = self.scale.detach()
        if x.sum() > 0:
            self.last = x[0].detach()
        self.scale.mul_(2)
        return x * 2


f = Net()
""",
        "x.sum() > 0",
        "changes it in place",
    ),
    Refusal(
        "in place and bound anew",
        """\
def f(x):
    if x.sum() > 0:
        x[0] = 0
        x = x * 2
    return x
""",
        "x.sum() > 0",
        "in place and bound anew",
    ),
    Refusal(
        "while on a tensor",
        """\
def f(x):
    while x.sum() > 0:
        x = x - 1
    return x
""",
        "x.sum() > 0",
        "`while` on a tensor",
    ),
)
