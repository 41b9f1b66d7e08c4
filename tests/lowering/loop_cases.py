"""Loops that a tensor ends."""

from __future__ import annotations

from dataclasses import dataclass

import torch

X = torch.linspace(-1, 2, 12).view(3, 4)
Given = tuple[tuple[torch.Tensor, ...], ...]


def _with(*limits: float) -> Given:
    return tuple((X, torch.tensor(limit)) for limit in limits)


@dataclass(frozen=True)
class Loop:
    """``has`` are lines that the mended text holds."""

    title: str
    before: str
    condition: str
    inputs: Given
    gradients: bool = True
    has: tuple[str, ...] = ()


@dataclass(frozen=True)
class Refusal:
    title: str
    reason: str
    before: str
    condition: str
    inputs: Given


LOOPS = [
    Loop(
        "a loop's variable that a trip changes behind the exit, read behind the loop",
        """\
def f(x, tol):
    for i in range(4):
        x = x * 0.5
        if x.norm() < tol:
            break
        i = i * 10
    return x, i
""",
        "x.norm() < tol",
        _with(0.0, 1.0, 2.0, 9.0),
    ),
    Loop(
        "an early return, a break and an else in one loop",
        """\
def f(x, tol):
    for i in range(3):
        if x.max() > tol:
            return x
        x = x * 2 + 0.1
        if x.min() < -tol:
            break
    else:
        x = x - 1
    y = x + 1
    return y.clamp(min=-1)
""",
        "x.max() > tol",
        _with(0.0, 3.0, 5.0, 99.0),
    ),
    Loop(
        "buffers that no gradient comes to, beside a value with one",
        """\
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.w = nn.Parameter(torch.linspace(0.5, 1.5, 4))
        self.register_buffer("scale", torch.ones(4))
        self.register_buffer("total", torch.zeros(()))

    def forward(self, x, most):
        for _ in range(3):
            if x.max() > most:
                break
            x = x * self.w + 0.5
            self.scale.mul_(1.5)
            self.total.add_(x.sum().detach() * 2)
        return x


f = Net()
""",
        "x.max() > most",
        _with(1.0, 4.0, 99.0),
        has=("self.scale.copy_(next_scale.detach())\n", "self.total.copy_(next_total.detach())\n"),
    ),
    Loop(
        "a counter behind a continue",
        """\
def f(x, tol):
    n = 0
    for _ in range(4):
        x = x * 0.5
        if x.max() > 0.7:
            continue
        n += 2
        if x.norm() < tol:
            break
    return x, n
""",
        "x.max() > 0.7",
        _with(0.0, 1.0, 2.0, 9.0),
    ),
    Loop(
        "a counter behind a continue, and no other exit",
        """\
def f(x, tol):
    n = 1
    for i in range(4):
        x = x * 0.5
        if x.max() > tol:
            continue
        n = n * 2 + i
    return x, n
""",
        "x.max() > tol",
        _with(0.0, 0.3, 0.7, 9.0),
    ),
    Loop(
        "an exit behind a continue that not every trip decides",
        """\
def f(x, tol):
    for i in range(4):
        x = x * 0.5
        if i > 1 and x.max() > 0.2:
            continue
        if x.norm() < tol:
            break
        x = x + 0.1
    return x
""",
        "x.norm() < tol",
        _with(0.0, 1.0, 2.0, 9.0),
    ),
    Loop(
        "an attribute that each trip sets anew",
        """\
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.last = torch.zeros(4)

    def forward(self, x, most):
        for i in range(3):
            self.last = (self.last + x[0] * i).detach()
            x = x + self.last
            if x.max() > most:
                break
        return x * self.last


f = Net()
""",
        "x.max() > most",
        _with(1.0, 4.0, 99.0),
        has=("last = self.last\n", "self.last = last.detach()\n"),
    ),
    Loop(
        "a list that grows with the trips, stacked behind the loop",
        """\
def f(x, tol):
    kept = []
    for _ in range(3):
        x = x * 0.5
        kept.append(x)
        if x.norm() < tol:
            break
    return torch.stack(kept).sum(0) * kept[-1]
""",
        "x.norm() < tol",
        _with(0.0, 1.0, 2.0, 9.0),
    ),
    Loop(
        "a list that grows with the trips, joined behind the loop",
        """\
def f(x, tol):
    kept = []
    for _ in range(3):
        x = x * 0.5
        kept.append(x)
        if x.norm() < tol:
            break
    return torch.cat(kept)
""",
        "x.norm() < tol",
        _with(0.0, 1.0, 2.0, 9.0),
    ),
    Loop(
        "a list with values of its own and two new ones a trip",
        """\
def f(x, tol):
    kept = [x, x + 1]
    for _ in range(3):
        x = x * 0.5
        kept.append(x.flip(0))
        kept.append(x * 2)
        if x.norm() < tol:
            break
    return torch.stack(kept).mean(0)
""",
        "x.norm() < tol",
        _with(0.0, 1.0, 2.0, 9.0),
    ),
    Loop(
        "a tensor that was changed in place before the loop hands it on",
        """\
def f(x, most):
    kept = x.clone()
    kept.mul_(-1)
    for _ in range(3):
        if x.max() > most:
            kept = x * 2
        if x.min() < -most:
            break
        x = x * 2
    return kept
""",
        "x.min() < -most",
        _with(1.5, 3.0, 99.0),
    ),
    Loop(
        "a loop's variable that a trip binds anew, behind a continue",
        """\
def f(x, most):
    for row in (x, x * 2, x - 1):
        if x.max() > most:
            continue
        row = row.flip(0)
        x = x + row
    return x
""",
        "x.max() > most",
        _with(0.0, 3.0, 99.0),
    ),
    Loop(
        "an exit by an index that is there on every trip",
        """\
def f(x, most):
    for _ in range(3):
        x = x * 2
        if x[1, 2] > most:
            break
    return x
""",
        "x[1, 2] > most",
        _with(1.0, 3.0, 99.0),
        has=("running = running & ~(torch.as_tensor(x[1, 2]) > most)",),
    ),
    Loop(
        "an exit by an index, behind a continue",
        """\
def f(x, most):
    for _ in range(3):
        x = x * 2
        if x.min() < -most:
            continue
        if x[1, 2] > most:
            break
        x = x + 1
    return x
""",
        "x[1, 2] > most",
        _with(1.0, 3.0, 99.0),
    ),
    Loop(
        "an exit by two indices, and the second is asked only where the first holds",
        """\
def f(x, most):
    for scale in (1, 2):
        if x[0, 1] > torch.sin(x[0, 3]) and x[0].sum() + scale > x[0, 2] * most:
            return x
        x = x * scale - 0.1
    return x.abs()
""",
        "x[0, 1] > torch.sin(x[0, 3]) and x[0].sum() + scale > x[0, 2] * most",
        _with(9.0, -9.0),
    ),
    Loop(
        "an exit by a condition that is too long for a lambda",
        """\
def f(x, most):
    for _ in range(2):
        x = x * 0.5
        if torch.sin(torch.tanh(((x[0, 0] * 1.0) - most) * 2)) < 0.5:
            return x
    return x + 1
""",
        "torch.sin(torch.tanh((x[0, 0] * 1.0 - most) * 2)) < 0.5",
        _with(2.0, 3.0),
    ),
    Loop(
        "Python's limit behind the tensor's condition, in one test",
        """\
def f(x, most):
    n = 0
    while True:
        x = x * 1.5
        n += 1
        if x.max() > most or n >= 3 or x.min() < -most:
            break
    return x
""",
        "x.max() > most or n >= 3 or x.min() < -most",
        _with(2.5, 4.0, 99.0),
        has=("if n >= 3:",),
    ),
    Loop(
        "an exit asks how many dimensions a value has that the loop changes",
        """\
def f(x, most):
    for i in range(3):
        x = x.sigmoid() * 2
        if x.dim() == 2 and x.mean() < most:
            return x
        x = x + 1
    return x
""",
        "x.dim() == 2 and x.mean() < most",
        _with(0.5, 1.3, 9.0),
    ),
    Loop(
        "a test that is asked once more of the value that ended the loop",
        """\
def f(x, least):
    n = 0
    while x[0, 3] < least and n < 3:
        x = x + 0.5
        n += 1
    return x
""",
        "x[0, 3] < least and n < 3",
        _with(-1.0, 0.5, 9.0),
    ),
    Loop(
        "a loop that makes no trip on any call",
        """\
def f(x, most):
    n = 0
    while n < 3 and x.max() > most:
        x = x - 1
        n += 1
    return x
""",
        "n < 3 and x.max() > most",
        _with(9.0, 8.0),
    ),
    Loop(
        "convergence with a limit",
        """\
def f(x, tol):
    for i in range(4):
        y = x.tanh()
        err = (y - x).abs().max()
        x = y
        if err < tol:
            break
    return x
""",
        "err < tol",
        _with(0.3, 1.3, 2.0, 0.0, 9.0),
    ),
    Loop(
        "break in the middle of a trip",
        """\
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.a = nn.Linear(4, 4)
        self.b = nn.Linear(4, 4)

    def forward(self, x, tol):
        total = torch.zeros_like(x)
        for _ in range(3):
            h = self.a(x)
            if h.norm() < tol:
                break
            x = self.b(h).relu()
            total = total + x
        return x, total


f = Net()
""",
        "h.norm() < tol",
        _with(0.3, 1.3, 2.0, 0.0, 9.0),
    ),
    Loop(
        "early return with the depth",
        """\
class Net(nn.Module):
    def __init__(self, n=3):
        super().__init__()
        torch.manual_seed(1)
        self.blocks = nn.ModuleList(nn.Linear(4, 4) for _ in range(n))
        self.heads = nn.ModuleList(nn.Linear(4, 3) for _ in range(n))

    def forward(self, x, limit):
        for i, (b, h) in enumerate(zip(self.blocks, self.heads)):
            x = b(x).relu()
            p = h(x).softmax(-1)
            ent = -(p * p.clamp_min(1e-9).log()).sum(-1).mean()
            if ent < limit:
                return p, i
        return p, len(self.blocks)


f = Net()
""",
        "ent < limit",
        _with(2.0, 1.09, 1.0, 0.0),
    ),
    Loop(
        "continue",
        """\
class Net(nn.Module):
    def __init__(self, n=3):
        super().__init__()
        torch.manual_seed(1)
        self.blocks = nn.ModuleList(nn.Linear(4, 4) for _ in range(n))

    def forward(self, x, tol):
        for layer in self.blocks:
            if x.sum() < tol:
                continue
            x = layer(x) + 1
        return x


f = Net()
""",
        "x.sum() < tol",
        _with(0.3, 6.0, 99.0),
    ),
    Loop(
        "layers dropped while training",
        """\
class Net(nn.Module):
    def __init__(self, n=4):
        super().__init__()
        torch.manual_seed(1)
        self.blocks = nn.ModuleList(nn.Linear(4, 4) for _ in range(n))
        self.p = 0.5

    def forward(self, x):
        for layer in self.blocks:
            # skip it now and then
            if self.training:
                r = torch.rand([])
                if r < self.p:
                    continue
            x = layer(x)
        return x


f = Net()
""",
        "r < self.p",
        ((X,), (-X,)),
    ),
    Loop(
        "while with a counter that is returned",
        """\
def f(x):
    err = torch.tensor(1.0)
    it = 0
    while err > 1e-4 and it < 5:
        y = torch.sqrt(x * x + 0.1) * 0.5
        err = (y - x).abs().max()
        x = y
        it += 1
    return x, it
""",
        "err > 0.0001",
        ((X,), (X * 0,), (X * 3,)),
    ),
    Loop(
        "adaptive halting",
        """\
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.cell = nn.Linear(4, 4)
        self.halt = nn.Linear(4, 1)

    def forward(self, x):
        left = torch.ones(x.shape[0])
        acc = torch.zeros_like(x)
        n = 0
        while (left > 0.01).any() and n < 5:
            x = self.cell(x).tanh()
            p = torch.sigmoid(self.halt(x).squeeze(-1)) * 1.5
            used = torch.minimum(p, left)
            acc = acc + used[:, None] * x
            left = left - used
            n += 1
        return acc + left[:, None] * x


f = Net()
""",
        "(left > 0.01).any()",
        ((X,), (X * 4,), (X * 0,)),
    ),
    Loop(
        "else of the loop",
        """\
def f(x, tol):
    for i in range(3):
        y = x.tanh()
        err = (y - x).abs().max()
        x = y
        if err < tol:
            break
    else:
        x = x * 2
    return x
""",
        "err < tol",
        _with(0.3, 1.3, 2.0, 0.0, 9.0),
    ),
    Loop(
        "early return of another head",
        """\
class Net(nn.Module):
    def __init__(self, n=3):
        super().__init__()
        torch.manual_seed(1)
        self.blocks = nn.ModuleList(nn.Linear(4, 4) for _ in range(n))
        self.head = nn.Linear(4, 2)
        self.last = nn.Linear(4, 2)

    def forward(self, x, tol):
        for layer in self.blocks:
            x = layer(x).tanh()
            if x.norm() < tol:
                return self.head(x)
        x = x + 1
        return self.last(x)


f = Net()
""",
        "x.norm() < tol",
        _with(0.3, 1.3, 2.0, 0.0, 9.0),
    ),
    Loop(
        "continue and break",
        """\
def f(x, tol):
    y = torch.zeros_like(x)
    for k in range(4):
        x = x.sin() + 0.1
        m = x.mean()
        if m < 0:
            continue
        y = y + x
        if y.sum() > tol:
            break
    return x, y
""",
        "m < 0",
        (
            (X, torch.tensor(0.3)),
            (X, torch.tensor(6.0)),
            (-X, torch.tensor(-7.0)),
            (-X * 0.1, torch.tensor(1.0)),
        ),
    ),
    Loop(
        "statements in front of break, after the first trips, with a buffer",
        """\
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.w = nn.Parameter(torch.linspace(0.5, 1.5, 4))
        self.register_buffer("steps", torch.zeros(()))

    def forward(self, x, tol):
        for i in range(4):
            y = (x * self.w).tanh()
            d = (y - x).abs().max()
            self.steps += 1
            if i > 0 and d < tol:
                y = y * 2
                break
            x = y
        return x, y


f = Net()
""",
        "d < tol",
        _with(0.3, 1.3, 2.0, 0.0, 9.0),
    ),
    Loop(
        "tokens until all rows are done",
        """\
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(3)
        self.e = nn.Embedding(8, 6)
        self.o = nn.Linear(6, 8)

    def forward(self, ids):
        h = self.e(ids).mean(1)
        done = torch.zeros(ids.shape[0], dtype=torch.bool)
        tok = ids[:, -1]
        for _ in range(5):
            h = (h + self.e(tok)).tanh()
            tok = self.o(h).argmax(-1)
            done = done | (tok == 3)
            if done.all():
                break
        return tok, h, done


f = Net()
""",
        "done.all()",
        ((torch.tensor([[1, 2, 3], [4, 5, 6]]),), (torch.tensor([[7, 7, 7], [0, 0, 0]]),)),
    ),
    Loop(
        "a counter of trips",
        """\
def f(x, tol):
    steps = 0
    for _ in range(3):
        if x.norm() < tol:
            break
        x = x * 0.5
        steps += 1
    return x, steps
""",
        "x.norm() < tol",
        _with(0.3, 1.3, 2.0, 0.0, 9.0),
    ),
    Loop(
        "a counter that the loop needs as a number",
        """\
def f(x, tol):
    n, best = 0, 0
    for i in range(3):
        x = x * 0.5 + x[n] / (n + 1)
        n += 1
        if x.norm() < tol:
            break
        best = i
    return x * n, n, best
""",
        "x.norm() < tol",
        _with(0.3, 1.3, 2.0, 0.0, 9.0),
        has=("n = _last(last_n)",),
    ),
    Loop(
        "loops in loops",
        """\
def f(x, tol):
    out = torch.zeros_like(x)
    for i in range(2):
        y = x + i
        for j in range(3):
            y = y * 0.5
            if y.norm() < tol:
                break
        out = out + y
        if out.sum() > 4:
            break
    return out
""",
        "y.norm() < tol",
        _with(0.3, 1.3, 2.0, 0.0, 9.0),
    ),
    Loop(
        "while True with a limit",
        """\
def f(x, tol):
    n = 0
    while True:
        x = x * 0.5
        n += 1
        if x.norm() < tol:
            break
        if n >= 4:
            break
    return x, n
""",
        "x.norm() < tol",
        _with(0.3, 1.3, 2.0, 0.0, 9.0),
    ),
    Loop(
        "while without a limit",
        """\
def f(x, tol):
    while x.norm() > tol:
        x = x * 0.5
    return x
""",
        "x.norm() > tol",
        _with(0.3, 2.0, 0.01, 9.0),
        gradients=False,
        has=("_while_loop(",),
    ),
    Loop(
        "while with a high limit and a counter",
        """\
def f(logits):
    k = logits.exp()
    u = torch.ones(k.shape[0])
    v = torch.ones(k.shape[1])
    err = torch.tensor(1.0)
    it = 0
    while err > 1e-4 and it < 50:
        u_new = 1.0 / (k @ v)
        v = 1.0 / (k.t() @ u_new)
        err = (u_new - u).abs().max()
        u = u_new
        it += 1
    return u[:, None] * k * v[None, :], it
""",
        "err > 0.0001",
        ((X,), (X * 0,), (X * 3,)),
        gradients=False,
        has=("_while_loop(",),
    ),
    Loop(
        "as many trips as a tensor says",
        """\
def f(x, n):
    y = torch.zeros_like(x)
    for i in range(int(n)):
        x = x.sin()
        y = y + x * i
    return x, y
""",
        "int(n)",
        ((X, torch.tensor(3)), (X, torch.tensor(0)), (X, torch.tensor(5))),
        gradients=False,
        has=("_while_loop(",),
    ),
    Loop(
        "while True, with a tensor changed in place",
        """\
@torch.no_grad()
def f(x, tol):
    steps = torch.zeros(x.shape[0])
    while True:
        x = x * 0.5
        steps += 1
        if x.norm() < tol:
            break
    return x, steps
""",
        "x.norm() < tol",
        _with(0.3, 2.0, 0.01, 9.0),
        gradients=False,
        has=("_while_loop(",),
    ),
    Loop(
        "for with a high limit",
        """\
def f(x, tol):
    for _ in range(100):
        y = x.cos()
        delta = (y - x).abs().max()
        x = y
        if delta < tol:
            break
    return x
""",
        "delta < tol",
        _with(0.3, 2.0, 0.0, 9.0),
        gradients=False,
        has=("_while_loop(",),
    ),
]

DECLINED = [
    Refusal(
        "a value that grows",
        "`x` changes its shape or dtype from trip to trip",
        """\
def f(x, tol):
    for _ in range(3):
        x = torch.cat([x, x[:1]])
        if x.sum() > tol:
            break
    return x
""",
        "x.sum() > tol",
        _with(0.0, 99.0),
    ),
    Refusal(
        "gradients through a loop without a limit",
        "gradients flow through `x`",
        """\
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.w = nn.Parameter(torch.ones(4) * 0.5)

    def forward(self, x, tol):
        while x.norm() > tol:
            x = x * self.w
        return x


f = Net()
""",
        "x.norm() > tol",
        _with(1.0, 2.0),
    ),
    Refusal(
        "break two conditions deep",
        "depends on two tensor conditions",
        """\
def f(x, tol):
    for _ in range(3):
        if x.sum() > tol:
            x = x - 1
            if x.max() < tol:
                break
            x = x * 2
        x = x + 1
    return x
""",
        "x.max() < tol",
        _with(0.0, 99.0),
    ),
    Refusal(
        "a list of which the length is asked",
        "`kept` grows by as many values as the loop makes trips, and `len(kept)` needs",
        """\
def f(x, tol):
    kept = []
    for _ in range(3):
        x = x * 0.5
        kept.append(x)
        if x.norm() < tol:
            break
    return x, len(kept)
""",
        "x.norm() < tol",
        _with(1.0, 9.0),
    ),
    Refusal(
        "a list that is returned",
        "and `(x, kept)` needs to know how many",
        """\
def f(x, tol):
    kept = []
    for _ in range(3):
        x = x * 0.5
        kept.append(x)
        if x.norm() < tol:
            break
    return x, kept
""",
        "x.norm() < tol",
        _with(1.0, 9.0),
    ),
    Refusal(
        "a list that gets its value behind the exit",
        "follows an exit",
        """\
def f(x, tol):
    kept = []
    for _ in range(3):
        if x.norm() < tol:
            break
        kept.append(x)
        x = x * 0.5
    return torch.stack(kept)
""",
        "x.norm() < tol",
        _with(1.0, 9.0),
    ),
    Refusal(
        "a list that gets its value behind a continue",
        "follows a `continue`",
        """\
def f(x, tol):
    kept = []
    for _ in range(3):
        x = x * 0.5
        if x.max() > 1:
            continue
        kept.append(x)
        if x.norm() < tol:
            break
    return torch.stack(kept)
""",
        "x.norm() < tol",
        _with(1.0, 9.0),
    ),
    Refusal(
        "a list of a trip",
        "is bound in line 8, and appended to in a trip",
        """\
def f(x, tol):
    for _ in range(3):
        kept = []
        kept.append(x)
        x = kept[0] * 0.5
        if x.norm() < tol:
            break
    return x
""",
        "x.norm() < tol",
        _with(1.0, 9.0),
    ),
    Refusal(
        "a counter behind a continue that a trip reads",
        "counts what follows a `continue`",
        """\
def f(x, tol):
    n = 0
    for _ in range(3):
        if x.norm() < tol:
            continue
        x = x * (n + 0.5)
        n += 1
    return x, n
""",
        "x.norm() < tol",
        _with(1.0, 9.0),
    ),
    Refusal(
        "a counter by which Python goes on behind the loop",
        "Python decides by `n > 1` how to go on",
        """\
def f(x, tol):
    n = 0
    for _ in range(3):
        if x.norm() < tol:
            break
        n += 1
    if n > 1:
        x = x * 2
    return x
""",
        "x.norm() < tol",
        _with(1.0, 9.0),
    ),
    Refusal(
        "a counter that may be a tensor, changed in place",
        "changes a tensor in place, if `n` is one",
        """\
def f(x, tol, n=0):
    for _ in range(3):
        x = x * 0.5
        n += 1
        if x.norm() < tol:
            break
    return x, n
""",
        "x.norm() < tol",
        _with(1.0, 9.0),
    ),
    Refusal(
        "a tensor that is changed in place behind, where the loop may make no trip",
        "changes in place what `x` is if the loop makes no trip",
        """\
def f(x, tol):
    kept = x.view(-1)
    while x.norm() > tol:
        x = x * 0.5
    kept.add_(1)
    return x
""",
        "x.norm() > tol",
        _with(1.0, 9.0),
    ),
    Refusal(
        "another name for a tensor that is changed in place behind, where the loop may make no trip",
        "changes it in place",
        """\
def f(x, tol):
    kept = x
    for _ in range(3):
        if x.norm() < tol:
            break
        x = x * 0.5
    kept.add_(1)
    return x
""",
        "x.norm() < tol",
        _with(1.0, 9.0),
    ),
    Refusal(
        "an iterator without an end",
        "may have no end",
        """\
import itertools


def f(x, tol):
    for _ in itertools.count():
        x = x + 0.5
        if x.mean() > tol:
            break
    return x
""",
        "x.mean() > tol",
        _with(0.3, 9.0),
    ),
    Refusal(
        "an iterator that is read on behind the loop",
        "change when it is read to its end",
        """\
def f(x, tol):
    rows = iter([x, x + 1, x + 2])
    for row in rows:
        x = x + row
        if x.mean() > tol:
            break
    return x + next(rows, x)
""",
        "x.mean() > tol",
        _with(0.3, 9.0),
    ),
    Refusal(
        "a limit that the trips themselves count as an attribute",
        "no limit that Python counts",
        """\
class Net(nn.Module):
    def forward(self, x, tol):
        self.k = 0
        while self.k < 3:
            x = x + 0.5
            self.k += 1
            if x.mean() > tol:
                break
        return x


f = Net()
""",
        "x.mean() > tol",
        _with(0.3, 9.0),
    ),
    Refusal(
        "a limit in Python at the end of a loop that a tensor ends",
        "`n > 50` is decided by Python, in a loop that a tensor ends",
        """\
def f(x, tol):
    n = 0
    with torch.no_grad():
        while x.mean() < tol:
            x = x + 1
            n += 10
            if n > 50:
                break
    return x
""",
        "x.mean() < tol",
        _with(2.0, 9.0),
    ),
    Refusal(
        "an argument changed in place in each trip",
        "`x` is changed in place in each trip, and others may see the tensor",
        """\
def f(x, tol):
    with torch.no_grad():
        while x.mean() < tol:
            x.add_(1)
    return x
""",
        "x.mean() < tol",
        _with(2.0, 9.0),
    ),
]
