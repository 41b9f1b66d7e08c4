"""TARGET on the command line: the options that every command with a target has, and what they name."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

import click

from onegraph.apps.output import stdout_is_ours
from onegraph.report.formats import FORMATS

if TYPE_CHECKING:
    from onegraph.model import Program
    from onegraph.targets import Script

F = TypeVar("F", bound=Callable[..., Any])


def target_options(command: F) -> F:
    """TARGET and its arguments, the format and the file of the report."""
    for option in (
        click.argument("words", metavar="TARGET [-- ARGS]", nargs=-1),
        click.option("-m", "module", metavar="MODULE", help="Run a module as a script, as python -m does."),
        format_option,
        out_option,
    ):
        command = option(command)
    return command


format_option = click.option(
    "--format",
    "--output-format",
    "form",
    type=click.Choice(FORMATS),
    default="text",
    show_default=True,
    metavar="FORMAT",
    help="What the report is written in: " + ", ".join(FORMATS) + ".",
)
out_option = click.option(
    "-o", "out", metavar="FILE", type=click.Path(dir_okay=False), help="Write the report to FILE."
)


def spec_of(words: tuple[str, ...], module: str | None, usual: str = "") -> tuple[str, tuple[str, ...]]:
    """The name of the target and its arguments; ``usual`` is the target where none is named."""
    if module is not None:
        return f"-m {module}", words
    if words:
        return words[0], words[1:]
    if usual:
        import shlex

        first, *rest = shlex.split(usual)
        if first == "-m" and rest:
            first, rest = f"-m {rest[0]}", rest[1:]
        return first, tuple(rest[1:] if rest[:1] == ["--"] else rest)
    raise click.UsageError("give a TARGET: train.py, -m pkg.mod, pkg.mod:factory or path/file.py:factory")


def resolved(spec: str, arguments: tuple[str, ...], *, quiet: bool) -> tuple[str, Program | Script]:
    """The target's name for people, and the target. What a factory prints goes where the program's output
    goes."""
    from onegraph.targets import resolve

    with stdout_is_ours(quiet):
        target = resolve(spec, arguments)
    return " ".join((spec, "--", *arguments)) if arguments else spec, target


def why_nothing(target: Program | Script) -> tuple[str, str]:
    """Why nothing was compiled, and the next step."""
    from onegraph.targets import Script, holds_tensor

    if isinstance(target, Script):
        return (
            "The script ran to its end, and nothing in it went through torch.compile.",
            "compile the model in the script, or name a factory: file.py:factory",
        )
    if not any(holds_tensor(call) for call in target.calls):
        return (
            f"No argument of {target.name} holds a tensor; Dynamo compiles only what computes with tensors.",
            "give tensors as inputs",
        )
    return (
        f"{target.name} does nothing with its tensors that could be compiled.",
        "check the inputs of the factory",
    )
