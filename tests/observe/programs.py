"""Tiny programs that break; the tests look for the marked source text."""

import itertools
import logging

import torch

log = logging.getLogger("onegraph.tests.programs")


def branch(x):
    if x.sum() > 0:
        return x + 1
    return x - 1


def operand(x, flag):
    if flag and x.sum() > 0 and not x.isnan().any():
        x = x * 2
    return x


def ternary_in_call(x):
    return torch.add(x, 1 if x.mean() > 0 else 2)


def either(x, y):
    return (x.max() or y.max()) + 1


def filtered(xs):
    return [x for x in xs if x.sum() > 0]


def chained(x):
    scale = x.abs().mean().item()
    return x * scale


def helper(x):
    print("helper", x.mean())
    return x * 2


def nested(x):
    x = x + 1
    return helper(x) - 1


def second_break(x):
    x = x + 1
    print("first")
    x = x * 2
    print("second")
    return x


def in_loop(x):
    for _ in range(2):
        print("loop")
        x = x + 1
    if x.sum() > 0:
        x = x * 2
    return x


def early_exit(x, limit):
    for step in range(4):
        x = x * 2
        if x.sum() > limit:
            return x, step
    return x, 4


def in_try(x):
    try:
        x = x + x.mean().item()
        print("tried")
    except ValueError:
        x = x - 1
    return x * 2


def pieces(x):
    for i in range(2):
        print("piece", i)
        yield x + i


def consumes(x):
    return sum(pieces(x))


class Skipping(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = torch.nn.Linear(4, 4)
        self.register_buffer("calls", torch.zeros(()))

    def forward(self, x):
        self.calls += 1
        log.warning("mean %s", x.mean())
        return self.inner(x)


@torch.compiler.disable
def opaque(x):
    return x * 3


def wanted(x):
    x = opaque(x + 1)
    torch._dynamo.graph_break()
    return x - 1


def item_then_size(x, lengths):
    n = lengths.max().item()
    return x[:n] * 2


def clean(x):
    return (x * 2).relu()


def wrong_shape(x):
    return x @ torch.ones(7, 7)


ticks = itertools.count()


@torch.compiler.disable
def tick():
    next(ticks)


def raises(x):
    tick()
    if x.shape[0] == 3:
        raise ValueError("three is not allowed")
    return x + 1


def branches_return_an_input(x):
    return torch.cond(x.sum() > 0, lambda v: v, lambda v: v + 1, (x,))
