"""The report of ``onegraph shapes`` for people: what was tried, what recompiled and why, what is proven."""

from __future__ import annotations

from collections.abc import Iterator
from importlib import metadata

from rich.console import RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from onegraph.diagnose import display_path
from onegraph.diagnose.causes import Cause
from onegraph.report.text import Page, following
from onegraph.shapes import Proof, ShapesResult, Step, Trial
from onegraph.words import counted, first_line

_SHOWN = 6


def shapes_text(result: ShapesResult, target: str) -> Page:
    """One block a setting that was tried, the first one is the program as it is."""
    return (
        Text.assemble(
            ("onegraph shapes", "bold"),
            (f" · {target} · torch {metadata.version('torch')} · backend eager", "dim"),
        ),
        _sizes(result),
        *(part for trial in result.trials for part in _trial(trial)),
        *_refused(result.refused),
        _verdict(result),
        following(_next_step(result, target)),
    )


def _sizes(result: ShapesResult) -> Text:
    if not result.axes:
        return Text("No size of the inputs can vary: eager accepts the recorded ones alone.", style="yellow")
    text = Text("sizes  ", style="bold")
    return text.append(" · ".join(map(str, result.axes)), style="not bold cyan")


def _trial(trial: Trial) -> Iterator[RenderableType]:
    head = Text(f"{trial.name}  ", style="bold")
    head.append(counted(trial.artifacts, "artifact"), style="green" if trial.shared else "yellow")
    head.append(f" over {counted(len(trial.steps), 'call')}", style="not bold dim")
    yield head
    if trial.limit_reached:
        yield _line("the recompile limit was reached: torch runs it in eager mode from then on", "red")
    table = Table(box=None, show_header=False, padding=(0, 2, 0, 0))
    rows = [*_rows(trial.failed, "error"), *_rows(trial.recompiles, "recompile")]
    for row in rows[:_SHOWN]:
        table.add_row(*row)
    if rows:
        yield Padding(table, (0, 0, 0, 2))
    if len(rows) > _SHOWN:
        yield _line(f"and {len(rows) - _SHOWN} more", "dim")
    for step in trial.wrong[:_SHOWN]:
        yield _line(f"wrong result at {step.name}: {step.difference}", "bold red")
    yield _line(_proof(trial.proof), "green" if trial.proof.holds else "yellow")


def _rows(steps: tuple[Step, ...], what: str) -> Iterator[tuple[str, str, Text]]:
    for step in steps:
        words = Text()
        if step.causes:
            words = _cause(step.causes[0])
        else:
            words.append(first_line(step.error))
        yield what, step.name, words


def _cause(cause: Cause) -> Text:
    text = Text(cause.sentence)
    if cause.place:
        file, _, line = cause.place.rpartition(":")
        text.append(f"\n{display_path(file)}:{line}  ", style="dim").append(cause.code, style="cyan")
    if cause.step:
        text.append(f"\n{cause.step}", style="dim")
    return text


def _proof(proof: Proof) -> str:
    if proof.missing:
        return f"not proven: {proof.missing}"
    asked = f"{proof.checked:,} sizes" + ("" if proof.exhaustive else ", a sample of the range,")
    asked += f" asked of the guards in {proof.seconds:.2f} s"
    if proof.counterexample is not None:
        sizes = " ".join(f"{name}={size}" for name, size in proof.counterexample.items())
        why = f": {proof.cause.sentence}" if proof.cause is not None else ""
        return f"not proven: {asked}; the smallest that needs another artifact is {sizes}{why}"
    also = f"; {proof.refused_by_eager} of them eager refuses too" if proof.refused_by_eager else ""
    return f"proven: {asked}, none needs another artifact{also}"


def _refused(steps: tuple[Step, ...]) -> Iterator[RenderableType]:
    if steps:
        first = steps[0]
        yield Text(f"eager itself refuses {counted(len(steps), 'size')} that were tried", style="yellow")
        yield _line(f"{first.name}: {first.error.partition(chr(10))[0]}", "dim")


def _verdict(result: ShapesResult) -> Text:
    best = result.best
    if best.shared:
        how = "as it is" if best is result.trials[0] else f"with {best.name}"
        return Text(f"one artifact serves all these sizes, {how}", style="bold green")
    if best.wrong:
        return Text("compiled results differ from eager", style="bold red")
    return Text(f"{counted(best.artifacts, 'artifact')} at best, with: {best.name}", style="bold yellow")


def _next_step(result: ShapesResult, target: str) -> str:
    best = result.best
    if any(trial.breaks for trial in result.trials[:1]):
        return f"onegraph fix {target}   the graph breaks"
    if best.shared and best.code:
        return "before the first call: " + "; ".join(best.code)
    if best.shared:
        return "nothing: as it is, no size recompiles"
    causes = [step.causes[0] for step in (*best.failed, *best.recompiles) if step.causes]
    helpful = next((cause.step for cause in causes if cause.step), "")
    return helpful or "see the guards above"


def _line(text: str, style: str) -> Padding:
    return Padding(Text(text, style=style), (0, 0, 0, 2))
