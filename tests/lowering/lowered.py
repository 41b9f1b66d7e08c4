"""Lowers the branches of tiny modules for real: imported from a file, measured, and run."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from imported import imported
from onegraph.lowering import helper, lower_branch
from onegraph.model import Call, Candidate, Declined, Level, Outcome, Owner, Program, Site
from onegraph.rewrite import text as edit
from onegraph.rewrite.facts import measure
from onegraph.rewrite.request import Facts, Request
from onegraph.rewrite.workspace import Workspace

HEAD = "import torch\nimport torch.nn.functional as F\nfrom torch import nn\n\n\n"


def inputs() -> list[torch.Tensor]:
    """Two shapes, on both sides of zero."""
    x = torch.linspace(-1, 2, 12).view(3, 4)
    return [x, x - 3, torch.linspace(-3, 1, 20).view(5, 4), torch.linspace(1, 3, 20).view(5, 4)]


@dataclass(frozen=True)
class Loaded:
    """A module text that defines ``f``, imported from a file of its own."""

    text: str
    path: str
    program: Program

    @property
    def workspace(self) -> Workspace:
        return Workspace()

    def mended(self, candidate: Candidate) -> Workspace:
        return self.workspace.with_text(self.path, candidate.text, candidate.functions)


def load(folder: Path, text: str, given: Sequence[tuple[Any, ...]] | None = None) -> Loaded:
    """``text`` is the module behind its imports; ``f`` takes one tensor, or what is ``given``."""
    module = imported(folder, HEAD + text)
    calls = tuple(Call(args) for args in (given or [(x,) for x in inputs()]))
    return Loaded(HEAD + text, str(module.__file__), Program("f", module.f, calls))


def lower(
    loaded: Loaded,
    condition: str,
    level: Level = Level.RELAXED,
    lowering: Callable[[Request], Iterable[Candidate | Declined]] = lower_branch,
) -> list[Candidate | Declined]:
    """What is proposed for the first expression with the source ``condition``."""
    tree = edit.parse(loaded.text)
    node = next(n for n in ast.walk(tree) if isinstance(n, ast.expr) and ast.unparse(n) == condition)
    function = [name for name, f in edit.functions(tree) if any(part is node for part in ast.walk(f))][-1]
    span = edit.span_of(node, loaded.path)
    site = Site(
        "branch_on_tensor", span, condition, function, Outcome.RESUMED, Owner.USER, "", 1, 0, False, ""
    )
    facts = measure(loaded.program, loaded.workspace, loaded.path)

    def again(text: str, functions: tuple[str, ...]) -> Facts:
        return measure(loaded.program, Workspace().with_text(loaded.path, text, functions), loaded.path)

    return list(lowering(Request(site, loaded.path, loaded.text, level, facts, again)))


def body(candidate: Candidate) -> str:
    """The new text without the imports and the helper."""
    text = candidate.text.replace(helper.definition() + "\n\n", "")
    assert text.startswith(HEAD.rstrip("\n"))
    return text[len(HEAD.rstrip("\n")) :].lstrip("\n")
