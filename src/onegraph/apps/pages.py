"""``onegraph explain`` and ``onegraph env``: texts that need no target and no torch."""

from __future__ import annotations

import difflib
import inspect
import platform
import re
import sys
from collections.abc import Iterator
from importlib import metadata

import click
from rich.console import RenderableType
from rich.padding import Padding
from rich.text import Text

import onegraph
from onegraph.kinds import families, registry
from onegraph.kinds.base import Example, Kind
from onegraph.report.text import Page, Patch
from onegraph.torch_private import registry as torch_registry
from onegraph.torch_private import version


def page(topic: str) -> Page:
    """The page of a kind, or of one of torch's GB ids. Raises click.BadParameter for anything else."""
    if topic.lower() in registry.names():
        return kind_page(registry.get(topic.lower()))
    gb_id = topic.upper()
    if gb_id.startswith("GB"):
        return gb_page(gb_id)
    close = difflib.get_close_matches(topic.lower(), registry.names(), n=1)
    hint = f"did you mean {close[0]}? " if close else ""
    raise click.BadParameter(f"no kind {topic!r}. {hint}Kinds: {', '.join(registry.names())}; or a GB id.")


def kind_page(kind: Kind) -> Page:
    """The docstring of a kind, and its examples as diffs."""
    heading = Text.assemble((kind.NAME, "bold"), f"  {kind.TITLE}")
    ids = Text(f"torch's ids: {', '.join(kind.GB_IDS)}", style="dim") if kind.GB_IDS else Text()
    parts: list[RenderableType] = [heading, ids]
    for paragraph in _paragraphs(inspect.getdoc(kind) or ""):
        parts += [Text(), Text(paragraph)]
    for example in kind.EXAMPLES:
        parts += [
            Text(),
            Text.assemble((example.title, "bold"), f"  ({example.level.value})"),
            _diff(example),
        ]
    if kind.UNTOUCHED:
        parts += [Text(), Text("Left alone", style="bold")]
        parts += [Padding(Text(line), (0, 0, 0, 2)) for line in _untouched(kind)]
    return parts


def gb_page(gb_id: str) -> Page:
    """What torch says about an id, what it means, and which kinds mend it."""
    entry = torch_registry.entries().get(gb_id)
    if entry is None:
        raise click.BadParameter(
            f"no {gb_id} in the registry of torch {version.installed() or '(not installed)'}"
        )
    mending = [kind.NAME for kind in registry.all_kinds() if gb_id in kind.GB_IDS]
    family = families.of(entry.gb_type)
    parts: list[RenderableType] = [
        Text.assemble((gb_id, "bold"), f"  {entry.gb_type}"),
        Text(),
        Text(family.meaning),
        Text.assemble(("you can: ", "bold"), family.next_step),
    ]
    if mending:
        fixes = ", ".join(f"onegraph explain {name}" for name in mending)
        parts += [Text.assemble(("onegraph mends it: ", "bold green"), fixes)]
    parts += [Text(), Text("In torch's words", style="bold"), Padding(Text(entry.explanation), (0, 0, 0, 2))]
    parts += [Padding(Text(f"- {hint}"), (0, 0, 0, 2)) for hint in entry.hints]
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
        return "no: " + str(error).splitlines()[0]
    return "yes"


def _version(name: str) -> str:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return "-"


def _paragraphs(doc: str) -> Iterator[str]:
    """Paragraphs of a docstring, unwrapped; "What happens:" and its like start one."""
    for block in re.split(r"\n\s*\n|\n(?=[A-Z][\w ,()]*: )", inspect.cleandoc(doc)):
        yield " ".join(block.split()).replace("``", "`")


def _diff(example: Example) -> Patch:
    lines = difflib.unified_diff(example.before.splitlines(), example.after.splitlines(), lineterm="", n=100)
    return Patch("".join(f"{line}\n" for line in list(lines)[3:]))


def _untouched(kind: Kind) -> Iterator[str]:
    for near in kind.UNTOUCHED:
        yield near.title + (f": {near.reason}" if near.reason else "")
