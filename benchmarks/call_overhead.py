"""What a call costs after mending: onegraph.compile(broken program) against the program that a person wrote
without breaks, under torch.compile(fullgraph=True).

Both run in one process, in turns, with the same inputs; a round gives one ratio, a program the median of
its rounds. ``ratio_median`` is the median over the programs (bar: 1.03).

    python benchmarks/call_overhead.py [--quick] [--backend eager]
"""

from __future__ import annotations

import argparse
import gc
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from harness import figures

import onegraph


def scaled(x: torch.Tensor, k: float = 2.0) -> torch.Tensor:
    if x.sum() > 0:
        x = x * k
    return x + 1


def scaled_by_hand(x: torch.Tensor, k: float = 2.0) -> torch.Tensor:
    x = torch.where(x.sum() > 0, x * k, x)
    return x + 1


def with_helper(x: torch.Tensor, *, bias: torch.Tensor) -> dict[str, torch.Tensor]:
    return {"out": scaled(x) + bias}


def with_helper_by_hand(x: torch.Tensor, *, bias: torch.Tensor) -> dict[str, torch.Tensor]:
    return {"out": scaled_by_hand(x) + bias}


class Layer(torch.nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.linear = torch.nn.Linear(width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.linear(x)
        if x.abs().max() > 100:
            x = x.clamp(-100, 100)
        return x


class LayerByHand(Layer):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.linear(x)
        return torch.where(x.abs().max() > 100, x.clamp(-100, 100), x)


class Net(torch.nn.Module):
    def __init__(self, layer: type[Layer], count: int, width: int = 8) -> None:
        super().__init__()
        self.layers = torch.nn.ModuleList(layer(width) for _ in range(count))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for layer in self.layers:
            x = layer(x)
        return x


@dataclass(frozen=True)
class Case:
    name: str
    broken: Callable[..., Any]
    by_hand: Callable[..., Any]
    args: tuple[Any, ...]
    kwargs: dict[str, Any]


def cases(quick: bool) -> list[Case]:
    x = torch.rand(8, 8)
    found = [
        Case("function", scaled, scaled_by_hand, (x,), {"k": 3.0}),
        Case("function that calls another", with_helper, with_helper_by_hand, (x,), {"bias": torch.rand(8)}),
        Case("module", Layer(8), LayerByHand(8), (x,), {}),
        Case("module with 50 layers", Net(Layer, 50), Net(LayerByHand, 50), (x,), {}),
    ]
    return found[:3] if quick else found


def measure(case: Case, backend: str, rounds: int) -> dict[str, float]:
    """Seconds a call of both, and the median ratio."""
    torch._dynamo.reset()
    mended = onegraph.compile(case.broken, backend=backend)
    by_hand = torch.compile(case.by_hand, backend=backend, fullgraph=True)
    if isinstance(case.broken, torch.nn.Module):
        case.by_hand.load_state_dict(case.broken.state_dict())  # type: ignore[attr-defined]
    with torch.no_grad():
        torch.testing.assert_close(mended(*case.args, **case.kwargs), by_hand(*case.args, **case.kwargs))
        calls = max(10, int(0.004 / _seconds(by_hand, case, 50)))
        for _ in range(5):
            _seconds(mended, case, calls), _seconds(by_hand, case, calls)
        pairs = []
        gc.disable()
        for number in range(rounds):
            if number % 2:
                first, second = _seconds(mended, case, calls), _seconds(by_hand, case, calls)
            else:
                second, first = _seconds(by_hand, case, calls), _seconds(mended, case, calls)
            pairs.append((first, second))
        gc.enable()
    return {
        "mended": statistics.median(a for a, _ in pairs),
        "by_hand": statistics.median(b for _, b in pairs),
        "ratio": statistics.median(a / b for a, b in pairs),
    }


def _seconds(compiled: Callable[..., Any], case: Case, calls: int) -> float:
    args, kwargs = case.args, case.kwargs
    start = time.thread_time()  # of this thread: what other processes take does not count
    for _ in range(calls):
        compiled(*args, **kwargs)
    return (time.thread_time() - start) / calls


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n\n")[0])
    parser.add_argument("--quick", action="store_true", help="three programs, fewer rounds")
    parser.add_argument("--backend", default="eager")
    options = parser.parse_args()
    rounds = 101 if options.quick else 301
    ratios = []
    for case in cases(options.quick):
        result = measure(case, options.backend, rounds)
        ratios.append(result["ratio"])
        print(
            f"{case.name:28} mended {result['mended'] * 1e6:8.1f} us   "
            f"by hand {result['by_hand'] * 1e6:8.1f} us   ratio {result['ratio']:.3f}",
            flush=True,
        )
    figures(
        {
            "programs": len(ratios),
            "ratio_median": round(statistics.median(ratios), 4),
            "ratio_max": round(max(ratios), 4),
            "backend": options.backend,
        }
    )


if __name__ == "__main__":
    main()
