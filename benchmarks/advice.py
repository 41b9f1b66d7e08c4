"""Widely repeated advice on graph breaks, measured on the installed torch: docs/advice.md comes from here.

Run: python benchmarks/advice.py [--only WORDS] [--markdown > docs/advice.md]

Each claim is a small program, compiled on backend eager; what is said of it is computed from what was seen.
"""

from __future__ import annotations

import argparse
import logging
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

import torch
import torch._dynamo
from harness import figures
from torch import nn

import onegraph

TRUE, PARTLY, FALSE = "true", "partly", "false"
Answer = tuple[str, str]  # verdict, what was seen
CLAIMS: list[tuple[str, Callable[[], Answer]]] = []


def claim(words: str) -> Callable[[Callable[[], Answer]], Callable[[], Answer]]:
    def add(measure: Callable[[], Answer]) -> Callable[[], Answer]:
        CLAIMS.append((words, measure))
        return measure

    return add


@dataclass
class Seen:
    """What the compiler made of some calls."""

    graphs: int
    nodes: int
    breaks: int
    recompiles: int
    error: str = ""


def compiled(
    program: Callable[..., Any], *calls: Any, settings: dict[str, Any] | None = None, **options: Any
) -> Seen:
    """``calls`` are tuples of arguments. ``nodes`` are those of the last graph."""
    torch._dynamo.reset()
    graphs: list[int] = []

    def backend(gm: torch.fx.GraphModule, inputs: list[Any]) -> Any:
        graphs.append(sum(node.op.startswith("call") for node in gm.graph.nodes))
        return gm.forward

    error = ""
    with ExitStack() as stack:
        stack.enter_context(torch._dynamo.config.patch(settings or {}))
        watching = stack.enter_context(onegraph.watch())
        function = torch.compile(program, backend=backend, **options)
        for call in calls:
            try:
                function(*call)
            except Exception as raised:  # noqa: BLE001  (what is raised is the measurement)
                error = type(raised).__name__
                break
        sites = sum(not site.intended for site in watching.sites)
        recompiles = watching.findings.trace.recompiles
    return Seen(len(graphs), graphs[-1] if graphs else 0, sites, len(recompiles), error)


def counted(number: int, noun: str) -> str:
    return f"{number} {noun}" + ("" if number == 1 else "s")


def x(*shape: int) -> torch.Tensor:
    return torch.rand(*shape or (4, 6))


@claim("An `if` on a tensor breaks the graph.")
def _() -> Answer:
    seen = compiled(lambda t: t + 1 if t.sum() > 0 else t - 1, (x(),))
    return (TRUE if seen.breaks == 1 else FALSE), counted(seen.breaks, "break")


@claim("An `if` on `x.shape` breaks the graph.")
def _() -> Answer:
    seen = compiled(lambda t: t + 1 if t.shape[0] > 8 else t - 1, (x(4, 6),), (x(5, 6),), (x(9, 6),))
    return (TRUE if seen.breaks else FALSE), (
        f"{counted(seen.breaks, 'break')}; the condition is a guard: "
        f"{counted(seen.recompiles, 'recompile')} over sizes 4, 5, 9"
    )


@claim("`.item()` always breaks the graph.")
def _() -> Answer:
    def scaled(t: torch.Tensor) -> torch.Tensor:
        return t * t.max().item()

    usual = compiled(scaled, (x(),))
    captured = compiled(scaled, (x(),), settings={"capture_scalar_outputs": True})
    whole = compiled(scaled, (x(),), fullgraph=True)
    ok = not whole.error and not captured.breaks
    return (PARTLY if usual.breaks and ok else TRUE), (
        f"default mode {counted(usual.breaks, 'break')}; with capture_scalar_outputs {captured.breaks}; "
        f"fullgraph=True {'passes' if not whole.error else 'fails'}: it switches that capture on"
    )


@claim("With capture_scalar_outputs, `.item()` is solved.")
def _() -> Answer:
    def branching(t: torch.Tensor) -> torch.Tensor:
        return t + 1 if t.max().item() > 0.5 else t - 1

    on = {"capture_scalar_outputs": True}
    seen = compiled(branching, (x(),), settings=on)
    whole = compiled(branching, (x(),), fullgraph=True)
    return (FALSE if seen.breaks and whole.error else TRUE), (
        f"the number is captured, an `if` on it still breaks ({counted(seen.breaks, 'break')}; "
        f"fullgraph=True raises {whole.error})"
    )


@claim("`fullgraph=True` only reports: without it, the same program gives the same graphs.")
def _() -> Answer:
    def scaled(t: torch.Tensor) -> torch.Tensor:
        return t * t.max().item()

    usual, whole = compiled(scaled, (x(),)), compiled(scaled, (x(),), fullgraph=True)
    same = usual.graphs == whole.graphs
    return (TRUE if same else FALSE), f"{counted(usual.graphs, 'graph')} without, {whole.graphs} with it"


@claim("A Python loop over tensor slices breaks the graph.")
def _() -> Answer:
    def loop(t: torch.Tensor) -> torch.Tensor:
        total = t[:, 0] * 0
        for i in range(t.shape[1]):
            total = total + t[:, i].relu()
        return total

    small, large = compiled(loop, (x(4, 8),)), compiled(loop, (x(4, 32),))
    return (TRUE if small.breaks else FALSE), (
        f"{counted(small.breaks, 'break')}; it is unrolled: {small.nodes} nodes for 8 columns, {large.nodes} for 32"
    )


@claim("`unfold` or a batched operation in place of such a loop removes breaks.")
def _() -> Answer:
    def windows(t: torch.Tensor) -> torch.Tensor:
        return torch.stack([t[:, i : i + 3].sum(1) for i in range(t.shape[1] - 2)], 1)

    def unfolded(t: torch.Tensor) -> torch.Tensor:
        return t.unfold(1, 3, 1).sum(2)

    loop, one = compiled(windows, (x(4, 32),)), compiled(unfolded, (x(4, 32),))
    return (FALSE if not loop.breaks else TRUE), (
        f"there is none to remove ({counted(loop.breaks, 'break')}); the graph shrinks from {loop.nodes} to "
        f"{one.nodes} nodes"
    )


@claim("List comprehensions break the graph.")
def _() -> Answer:
    seen = compiled(lambda t: torch.stack([row * 2 for row in t]), (x(),))
    return (TRUE if seen.breaks else FALSE), counted(seen.breaks, "break")


@claim("`torch.where` is a safe stand-in for an `if`.")
def _() -> Answer:
    value = torch.zeros(3, requires_grad=True)
    torch.where(value > 0, value.sqrt(), value * 0).sum().backward()
    assert value.grad is not None
    bad = bool(value.grad.isnan().any())
    return (PARTLY if bad else TRUE), (
        "both sides are computed: the gradient of where(x > 0, x.sqrt(), 0) at 0 is "
        + ("NaN; torch.cond, or a second where around the argument, is needed there" if bad else "0")
    )


@claim("`print` breaks the graph.")
def _() -> Answer:
    def printing(t: torch.Tensor) -> torch.Tensor:
        print(end="")
        return t * 2

    usual = compiled(printing, (x(),))
    moved = compiled(printing, (x(),), settings={"reorderable_logging_functions": {print}})
    return (TRUE if usual.breaks else FALSE), (
        f"{counted(usual.breaks, 'break')}; with torch._dynamo.config.reorderable_logging_functions {moved.breaks}, "
        "and the text comes after the graph"
    )


@claim("Logging breaks the graph only when the level is on.")
def _() -> Answer:
    log = logging.getLogger("advice")
    log.setLevel(logging.ERROR)

    def quiet(t: torch.Tensor) -> torch.Tensor:
        log.debug("mean %s", t)
        return t * 2

    seen = compiled(quiet, (x(),))
    return (FALSE if seen.breaks else TRUE), f"a debug call below the level: {counted(seen.breaks, 'break')}"


@claim("numpy breaks the graph.")
def _() -> Answer:
    import numpy

    def mapped(t: torch.Tensor) -> torch.Tensor:
        return torch.from_numpy(numpy.square(t.numpy())) + 1

    seen = compiled(mapped, (x(),))
    return (TRUE if seen.breaks else PARTLY), (
        f"functions that Dynamo maps to torch don't: numpy.square, {counted(seen.breaks, 'break')}; others do"
    )


@claim("In-place operations and `torch.no_grad()` blocks break the graph.")
def _() -> Answer:
    def inside(t: torch.Tensor) -> torch.Tensor:
        t = t.clone().add_(1)
        with torch.no_grad():
            t[0] = 0
        return t * 2

    seen = compiled(inside, (x(),))
    return (TRUE if seen.breaks else FALSE), counted(seen.breaks, "break")


@claim("`torch._dynamo.explain` lists every break.")
def _() -> Answer:
    def many(t: torch.Tensor) -> torch.Tensor:
        for part in (t, t + 1):
            if part.sum() > 0:
                t = t + part
            print(end="")
        return t

    torch._dynamo.reset()
    told = torch._dynamo.explain(many)(x()).graph_break_count
    torch._dynamo.reset()
    sites = len(onegraph.explain(many)(x()).sites)
    return (FALSE if told < sites else TRUE), f"it counts {told} where {sites} statements break"


@claim("`dynamic=True` prevents recompiles.")
def _() -> Answer:
    free = compiled(lambda t: t * 2, (x(4, 6),), (x(5, 6),), (x(7, 6),), dynamic=True)
    one = compiled(lambda t: t * 2, (x(4, 6),), (x(1, 6),), (x(0, 6),), dynamic=True)
    square = compiled(lambda t: t * 2, (x(4, 4),), (x(5, 6),), dynamic=True)
    return (PARTLY if one.recompiles or square.recompiles else TRUE), (
        f"sizes 4, 5, 7: {counted(free.recompiles, 'recompile')}; 4, 1, 0: {one.recompiles}; "
        f"4x4, then 5x6: {square.recompiles} (equal sizes are taken for one)"
    )


@claim("Without `dynamic=True` every new size recompiles.")
def _() -> Answer:
    seen = compiled(lambda t: t * 2, *((x(size, 6),) for size in (4, 5, 7, 9, 11)))
    return (FALSE if seen.recompiles < 4 else TRUE), (
        f"five sizes: {counted(seen.recompiles, 'recompile')}; the second one makes the dimension dynamic"
    )


@claim("A Python number that changes every call recompiles every call.")
def _() -> Answer:
    t = x()
    argument = compiled(lambda t, n: t * n, *((t, n) for n in (0.5, 0.25, 0.125, 0.3, 0.7)))

    class Counting(nn.Module):
        steps = 0

        def forward(self, t: torch.Tensor) -> torch.Tensor:
            self.steps += 1
            return t * self.steps

    counter = compiled(Counting(), *[(t,)] * 5)
    return PARTLY, (
        f"five floats as argument: {counted(argument.recompiles, 'recompile')}; "
        f"five steps of a counter on a module: {counter.recompiles}"
    )


@claim("mark_unbacked gives one artifact for sizes 0 and 1 too.")
def _() -> Answer:
    first = x(4, 6)
    torch._dynamo.decorators.mark_unbacked(first, 0)
    seen = compiled(lambda t: (t * 2).sum(1), (first,), (x(1, 6),), (x(0, 6),), (x(9, 6),))
    return (
        TRUE if not seen.recompiles else FALSE
    ), f"sizes 4, 1, 0, 9: {counted(seen.recompiles, 'recompile')}"


@claim("Switching between train, eval and no_grad costs nothing once compiled.")
def _() -> Answer:
    model = nn.Sequential(nn.Linear(6, 6), nn.Dropout(0.5))

    def evaluate(t: torch.Tensor, train: bool, grad: bool) -> None:
        model.train(train)
        with torch.set_grad_enabled(grad):
            function(t)

    torch._dynamo.reset()
    with onegraph.watch() as watching:
        function = torch.compile(model, backend="eager")
        for train, grad in ((True, True), (False, True), (False, False)):
            evaluate(x(), train, grad)
        number = len(watching.findings.trace.recompiles)
    return (FALSE if number else TRUE), f"three modes: {counted(number, 'recompile')}; one artifact for each"


def answers(only: str | None) -> Iterator[tuple[str, str, str]]:
    for words, measure in CLAIMS:
        if only is None or only.lower() in words.lower():
            verdict, seen = measure()
            yield words, verdict, seen


def markdown(rows: list[tuple[str, str, str]]) -> str:
    lines = [
        "# Advice on graph breaks, measured",
        "",
        f"Claims that go round, and what torch {torch.__version__} does. Every line is computed by",
        "`python benchmarks/advice.py`; run it on your torch.",
        "",
        "| claim | verdict | seen |",
        "|---|---|---|",
        *(f"| {words} | **{verdict}** | {seen} |" for words, verdict, seen in rows),
        "",
        "Not measured here, for want of a GPU: what one graph gains in latency and memory over several, and which of",
        "these forms CUDA graphs can capture.",
        "",
    ]
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", help="claims with these words")
    parser.add_argument(
        "--markdown", action="store_true", help="print the page docs/advice.md, and nothing else"
    )
    options = parser.parse_args()
    logging.disable(logging.WARNING)
    rows = list(answers(options.only))
    if options.markdown:
        print(markdown(rows), end="")
        return
    for words, verdict, seen in rows:
        print(f"{verdict:7} {words}\n        {seen}")
    figures({"claims": len(rows), **{v: sum(row[1] == v for row in rows) for v in (TRUE, PARTLY, FALSE)}})


if __name__ == "__main__":
    main()
