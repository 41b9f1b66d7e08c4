"""What watching costs: time to compile under ``observe.watch()`` against the same compile alone, backend
eager.

Plain and watched runs are paired and interleaved, the order within a pair alternates, and each run starts
from a reset compiler; the ratio of a program is the median over its pairs, ``ratio_median`` the median over
the programs.
"""

from __future__ import annotations

import argparse
import contextlib
import gc
import io
import json
import logging
import statistics
import time
from collections.abc import Callable
from typing import Any

import torch

from onegraph.observe import watch


class Encoder(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        layer = torch.nn.TransformerEncoderLayer(64, 4, 128, dropout=0.0, batch_first=True)
        self.layers = torch.nn.TransformerEncoder(layer, 6, enable_nested_tensor=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.layers(x)


class Gated(torch.nn.Module):
    """A break in every block, each seen from the block and from the loop around it."""

    def __init__(self) -> None:
        super().__init__()
        self.blocks = torch.nn.ModuleList(Block() for _ in range(6))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for block in self.blocks:
            x = block(x)
        return x


class Block(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.inner, self.outer = torch.nn.Linear(16, 32), torch.nn.Linear(32, 16)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        hidden = self.inner(x).relu()
        if hidden.mean() > 0:
            hidden = hidden * 0.5
        return x + self.outer(hidden)


def many_breaks(x: torch.Tensor) -> torch.Tensor:
    x = x + 1
    print("start", x.sum())
    if x.sum() > 0:
        x = x * 2
    n = int((x > 0).sum())
    x = x[:, : max(n % 3, 1)]
    print(n)
    if x.max() > 1:
        x = x - 1
    print("middle", x.shape)
    scale = x.abs().mean().item()
    x = x / (scale + 1)
    if (x < 0).any():
        x = x.clamp(min=0)
    print("end", scale)
    return x


def no_breaks(x: torch.Tensor) -> torch.Tensor:
    for step in range(40):
        x = (x * (1 + step / 10)).sin() + x.cos()
    return x


def recompiling(x: torch.Tensor, n: int) -> torch.Tensor:
    return (x * n).softmax(-1) + n


def programs() -> dict[str, Callable[[], tuple[Callable[..., Any], list[tuple[Any, ...]]]]]:
    return {
        "encoder": lambda: (Encoder().eval(), [(torch.randn(2, 10, 64),)]),
        "gated blocks": lambda: (Gated(), [(torch.randn(4, 16),)]),
        "many breaks": lambda: (many_breaks, [(torch.randn(4, 8),)]),
        "no breaks": lambda: (no_breaks, [(torch.randn(4, 8),)]),
        "recompiles": lambda: (recompiling, [(torch.randn(4, n + 2), n) for n in range(6)]),
    }


def timed(make: Callable[[], tuple[Callable[..., Any], list[tuple[Any, ...]]]], watched: bool) -> float:
    torch.manual_seed(0)
    target, inputs = make()
    torch.compiler.reset()
    gc.collect()
    context = watch() if watched else contextlib.nullcontext()
    start = time.perf_counter()
    with context, contextlib.redirect_stdout(io.StringIO()), torch.no_grad():
        compiled = torch.compile(target, backend="eager")
        for args in inputs:
            compiled(*args)
    return time.perf_counter() - start


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="3 pairs a program instead of 11")
    pairs = 3 if parser.parse_args().quick else 11
    torch.set_num_threads(1)
    logging.getLogger("torch").setLevel(logging.ERROR)
    ratios = {}
    for name, make in programs().items():
        timed(make, True), timed(make, False)  # warm up: imports, caches of torch
        both = []
        for pair in range(pairs):
            first = timed(make, pair % 2 == 0)
            second = timed(make, pair % 2 == 1)
            both.append((second, first) if pair % 2 == 0 else (first, second))
        ratios[name] = statistics.median(watched / plain for plain, watched in both)
        plain = statistics.median(plain for plain, _ in both)
        print(f"{name:14} plain {plain * 1e3:7.0f} ms   watched / plain {ratios[name]:.3f}")
    figures = {
        "ratio_median": round(statistics.median(ratios.values()), 4),
        "ratio_worst": round(max(ratios.values()), 4),
        "programs": len(ratios),
        "pairs": pairs,
    }
    print("FIGURES", json.dumps(figures))


if __name__ == "__main__":
    main()
