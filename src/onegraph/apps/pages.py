"""``onegraph explain`` and ``onegraph env``: texts that need no target and no torch."""

from __future__ import annotations

import difflib
import platform
import sys
from importlib import metadata

import click
from rich.console import RenderableType
from rich.padding import Padding
from rich.text import Text

import onegraph
from onegraph.kinds import explain
from onegraph.kinds.base import Example
from onegraph.report.text import Page, Patch
from onegraph.torch_private import version
from onegraph.words import first_line


def page(topic: str) -> Page:
    """The page of a kind, a GB id or a pasted message. Raises click.BadParameter for anything else."""
    try:
        found = explain.topic(topic)
    except KeyError as error:
        raise click.BadParameter(str(error.args[0])) from None
    parts: list[RenderableType] = [Text.assemble((found.name, "bold"), f"  {found.title}".rstrip())]
    if found.ids:
        parts.append(Text(f"torch's ids: {', '.join(found.ids)}", style="dim"))
    if found.place[0]:
        parts += [Text(), Text.assemble(("in your code: ", "bold"), found.place[0])]
        parts.append(Padding(Text(found.place[1]), (0, 0, 0, 2)))
    for paragraph in found.paragraphs:
        parts += [Text(), Text(paragraph)]
    if found.you_can:
        parts.append(Text.assemble(("you can: ", "bold"), found.you_can))
    if found.mended_by and not found.examples:
        fixes = ", ".join(f"onegraph explain {name}" for name, _ in found.mended_by)
        parts.append(Text.assemble(("onegraph mends it: ", "bold green"), fixes))
    for example in found.examples:
        title = Text.assemble((example.title, "bold"), f"  ({example.level.value})")
        parts += [Text(), title, _diff(example)]
    if found.near_misses:
        parts += [Text(), Text("Left alone", style="bold")]
        parts += [Padding(Text(line), (0, 0, 0, 2)) for line in found.near_misses]
    if found.torch_says:
        parts += [Text(), Text("In torch's words", style="bold")]
        parts += [Padding(Text(line), (0, 0, 0, 2)) for line in found.torch_says]
    return parts


def environment() -> str:
    """Versions, one a line."""
    torch = version.installed()
    lines = {
        "onegraph": onegraph.__version__,
        "python": f"{platform.python_version()} ({sys.executable})",
        "system": platform.platform(),
        "torch": torch or "not installed",
        "supported": _supported(),
    }
    for name in ("transformers", "triton", "numpy", "click", "rich", "msgspec"):
        lines[name] = _version(name)
    return "".join(f"{name:14}{value}\n" for name, value in lines.items())


def _supported() -> str:
    try:
        version.require()
    except version.UnsupportedTorch as error:
        return "no: " + first_line(str(error))
    return "yes"


def _version(name: str) -> str:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return "-"


def _diff(example: Example) -> Patch:
    lines = difflib.unified_diff(example.before.splitlines(), example.after.splitlines(), lineterm="", n=100)
    return Patch("".join(f"{line}\n" for line in list(lines)[3:]))
