"""Tiny modules whose effects are moved into ops, with facts measured for real."""

from __future__ import annotations

import ast
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

from imported import imported
from onegraph.lowering.effects import Effect, Moved, move_to_op
from onegraph.model import Call, Level, Outcome, Owner, Program, Site
from onegraph.rewrite import text as text_
from onegraph.rewrite.facts import measure
from onegraph.rewrite.request import Request
from onegraph.rewrite.workspace import Workspace


@dataclass(frozen=True)
class Loaded:
    """A module text, written and imported."""

    path: str
    text: str
    module: ModuleType

    def statement(self, start: str) -> ast.stmt:
        """The innermost-first found statement whose text starts so."""
        found = [
            n
            for n in ast.walk(text_.parse(self.text))
            if isinstance(n, ast.stmt) and text_.segment(self.text, n).startswith(start)
        ]
        assert found, start
        return found[-1]

    def request(self, statement: ast.stmt, *calls: tuple[Any, ...], level: Level = Level.RELAXED) -> Request:
        program = Program("f", self.module.f, tuple(Call(call) for call in calls))
        site = Site(
            kind="",
            span=text_.span_of(statement, self.path),
            source="",
            function="f",
            outcome=Outcome.RESUMED,
            owner=Owner.USER,
            package="",
            count=1,
            recompiles=0,
            intended=False,
            reason="",
        )
        return Request(site, self.path, self.text, level, measure(program, Workspace(), self.path))


def load(folder: Path, text: str, name: str = "") -> Loaded:
    module = imported(folder, text, name)
    return Loaded(str(module.__file__), text, module)


def move(loaded: Loaded, start: str, *calls: tuple[Any, ...], verb: str = "print", **how: Any) -> Moved:
    """Move the statement that starts with ``start``."""
    statement = loaded.statement(start)
    return move_to_op(loaded.request(statement, *calls), Effect(statement, verb, **how))


def without_helper(text: str) -> str:
    """A mended text behind the helper."""
    return text.partition("    return call\n")[2].lstrip("\n")
