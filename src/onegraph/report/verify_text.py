"""The report of ``onegraph verify`` for people: what was compared, what differs, and which layer makes it so."""

from __future__ import annotations

from collections.abc import Iterator
from importlib import metadata

from rich.console import RenderableType
from rich.padding import Padding
from rich.text import Text

from onegraph.diagnose import display_path
from onegraph.report.text import Page, following
from onegraph.verify import AsCompiled, Divergence
from onegraph.words import counted

_STEPS = {
    "Dynamo": "keep that function out of the compiler (torch.compiler.disable) until torch traces it right",
    "AOTAutograd": 'backend="eager" is right: keep that function out of the compiler until torch mends it',
    "inductor": 'backend="aot_eager" is right: report the difference to torch with this program',
}
_SHOWN = 6


def verify_text(result: AsCompiled, target: str) -> Page:
    """One block for each thing that differs."""
    return (
        Text.assemble(
            ("onegraph verify", "bold"),
            (f" · {target} · torch {metadata.version('torch')}\n", "dim"),
            _compared(result),
        ),
        *(part for each in result.divergences for part in _divergence(each)),
        *_lines("the compiler raises", result.refused, "red"),
        *_lines("not compared, for eager differs from itself in", result.unstable, "yellow"),
        *_lines("not compared", (result.missing,) if result.missing else (), "yellow"),
        _verdict(result),
        following(_next_step(result, target)),
    )


def _compared(result: AsCompiled) -> str:
    backends = ", ".join(result.backends)
    words = f"{counted(result.runs, 'way')} to call it, twice each, by backend {backends}"
    return f"{words} (inductor with eager's random numbers)" if "inductor" in result.backends else words


def _divergence(each: Divergence) -> Iterator[RenderableType]:
    head = Text(f"{each.aspect}  ", style="bold red")
    head.append(f"{each.layer} makes the difference: backend {each.backend} shows it", style="default")
    yield head
    more = (
        f"\nand {counted(len(each.runs) - 1, 'more run')}: {', '.join(each.runs[1:4])}"
        if each.runs[1:]
        else ""
    )
    text = Text(f"{each.runs[0]}: {each.words}{more}")
    if each.place:
        file, _, line = each.place.rpartition(":")
        text.append(
            f"\n{display_path(file)}:{line}  the compiled program does not read it again", style="cyan"
        )
    yield Padding(text, (0, 0, 0, 2))


def _lines(head: str, lines: tuple[str, ...], style: str) -> Iterator[RenderableType]:
    if lines:
        yield Text(head, style=style)
        for line in lines[:_SHOWN]:
            yield Padding(Text(line), (0, 0, 0, 2))
        if len(lines) > _SHOWN:
            yield Padding(Text(f"and {len(lines) - _SHOWN} more", style="dim"), (0, 0, 0, 2))


def _verdict(result: AsCompiled) -> Text:
    if result.divergences:
        return Text("compiled calls do something else than eager", style="bold red")
    if result.refused:
        return Text("the compiler raises where eager does not", style="bold red")
    same = "bit for bit" if result.max_abs == 0 else f"max abs {result.max_abs:.1e}, rel {result.max_rel:.1e}"
    return Text(f"compiled calls do what eager does ({same})", style="bold green")


def _next_step(result: AsCompiled, target: str) -> str:
    if any(each.place for each in result.divergences):
        return "read the variable outside of the compiled function, and pass what it says as an argument"
    if result.divergences:
        return _STEPS.get(result.divergences[0].layer, "report the difference to the makers of the backend")
    if result.breaks:
        return f"onegraph fix {target}   {counted(result.breaks, 'graph break')}"
    if result.refused:
        return _STEPS["Dynamo"]
    return "nothing: what was compared agrees"
