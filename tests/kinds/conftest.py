"""Tiny modules written to a temporary folder, imported for real, and mended one site at a time."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from imported import imported
from onegraph.diagnose import diagnose
from onegraph.kinds import registry
from onegraph.model import Call, Candidate, Declined, Findings, Level, Program
from onegraph.observe import observe
from onegraph.rewrite.facts import measure
from onegraph.rewrite.request import Request
from onegraph.rewrite.workspace import Workspace
from onegraph.torch_private import traps


@dataclass(frozen=True)
class Loaded:
    """A module text, imported: its ``program`` with its ``inputs()``."""

    path: str
    text: str
    module: ModuleType

    @property
    def program(self) -> Program:
        return Program("program", self.module.program, tuple(_call(given) for given in self.module.inputs()))

    def findings(self, **options: Any) -> Findings:
        """What breaks in it."""
        with traps.set_everywhere():
            return diagnose(observe(self.program, **options), classify=registry.classify)

    def repairs(self, kind: str, level: Level) -> list[Candidate | Declined]:
        """Everything proposed for the first site of a kind."""
        site = next(site for site in self.findings().sites if site.kind == kind)
        facts = measure(self.program, Workspace(), self.path)
        workspace = Workspace()
        return list(
            registry.repairs(
                Request(
                    site,
                    self.path,
                    self.text,
                    level,
                    facts,
                    lambda text, functions: measure(
                        self.program, workspace.with_text(self.path, text, functions), self.path
                    ),
                )
            )
        )


Load = Callable[[str], Loaded]


@pytest.fixture
def load(tmp_path: Path) -> Iterator[Load]:
    """``load(text)`` writes the text to a file of its own and imports it."""
    names: list[str] = []

    def load(text: str) -> Loaded:
        module = imported(tmp_path, text)
        names.append(module.__name__)
        return Loaded(str(module.__file__), text, module)

    yield load
    for name in names:
        del sys.modules[name]


def _call(given: Any) -> Call:
    if (
        isinstance(given, tuple)
        and len(given) == 2
        and isinstance(given[0], tuple)
        and isinstance(given[1], dict)
    ):
        return Call(given[0], given[1])
    return Call(tuple(given))
