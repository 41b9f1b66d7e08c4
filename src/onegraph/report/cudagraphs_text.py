"""The report of ``onegraph cudagraphs`` for people."""

from __future__ import annotations

from collections.abc import Iterator
from importlib import metadata

from rich.console import RenderableType
from rich.padding import Padding
from rich.text import Text

from onegraph.cudagraphs import Obstacle, Prediction
from onegraph.diagnose import display_path
from onegraph.report.text import Page, following, function_name
from onegraph.words import counted


def cudagraphs_text(prediction: Prediction, target: str) -> Page:
    head = Text.assemble(
        ("onegraph cudagraphs", "bold"),
        (f" · {target} · torch {metadata.version('torch')}\n", "dim"),
        ("a prediction from the graphs and torch's own rules, not checked against hardware", "dim"),
    )
    blocks = (part for name, found in prediction.obstacles.items() for part in _graph(name, found))
    return (head, *blocks, _verdict(prediction), following(_next_step(prediction, target)))


def _graph(name: str, found: tuple[Obstacle, ...]) -> Iterator[RenderableType]:
    yield Text.assemble(
        (f"{name}  ", "bold"),
        (counted(len(found), "obstacle") if found else "one CUDA graph", "yellow" if found else "green"),
    )
    for each in found:
        text = Text(f"{each.kind}  ", style="yellow")
        if each.file:
            place = f"{display_path(each.file)}:{each.line}  {function_name(each.function)}\n"
            text.append(place, style="not yellow dim").append(f"{each.code}\n", style="cyan")
        else:
            text.append(f"{each.operation}\n", style="not yellow dim")
        text.append(f"{each.sentence}\n{each.step}", style="default")
        yield Padding(text, (0, 0, 0, 2))


def _verdict(prediction: Prediction) -> Text:
    if prediction.missing:
        return Text(f"not predicted: {prediction.missing}", style="bold yellow")
    if prediction.whole:
        return Text('mode="reduce-overhead" captures it whole', style="bold green")
    if not prediction.captured:
        return Text('mode="reduce-overhead" skips it: it runs without CUDA graphs', style="bold red")
    return Text('mode="reduce-overhead" captures it in parts, split at these lines', style="bold yellow")


def _next_step(prediction: Prediction, target: str) -> str:
    if prediction.missing:
        return f"onegraph {'fix' if 'onegraph fix' in prediction.missing else 'run'} {target}"
    first = next((each for found in prediction.obstacles.values() for each in found), None)
    return first.step if first is not None else 'torch.compile(model, mode="reduce-overhead")'
