"""Facts: what expressions and names really are, measured by running the current text uncompiled."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Mapping
from contextlib import AbstractContextManager, nullcontext

import torch

from onegraph import state
from onegraph.model import Program
from onegraph.rewrite import probes, text
from onegraph.rewrite.probes import Enough, Key, Record, key
from onegraph.rewrite.request import Fact, Facts
from onegraph.rewrite.swap import swapped
from onegraph.rewrite.workspace import Workspace
from onegraph.state.effects import listening

_Force = tuple[tuple[Key, bool], ...]


def measure(program: Program, workspace: Workspace, path: str, world: state.World | None = None) -> Facts:
    """Facts about one file's current text. A run is made when a question needs one, and answers many: all
    expressions of a function, and all names around a statement, the statements in it and those it stands in.

    Every run leaves the program's state as it found it. ``world`` is a snapshot of that state, where one is
    there already.
    """
    return _Measured(program, workspace, path, world)


class _Measured:
    def __init__(self, program: Program, workspace: Workspace, path: str, world: state.World | None) -> None:
        self._world = world
        self._program = program
        self._workspace = workspace
        self._path = path
        self._tree = text.parse(workspace.current(path))
        self._records: dict[_Force, list[Record]] = {}
        self._functions: dict[_Force, set[Key]] = {}

    def values(
        self, *nodes: ast.expr, force: Mapping[ast.expr, bool] | None = None
    ) -> tuple[tuple[Fact, ...], ...]:
        """See ``Facts.values``."""
        forced = _forced(force)
        self._ask(nodes, forced)
        return tuple(self._facts_of(key(node), forced) for node in nodes)

    def names(
        self,
        at: ast.stmt,
        names: Iterable[str],
        *,
        after: bool = False,
        force: Mapping[ast.expr, bool] | None = None,
    ) -> Mapping[str, tuple[Fact, ...]]:
        """See ``Facts.names``."""
        forced = _forced(force)
        wanted = list(dict.fromkeys(names))
        self._ask((at,), forced, frozenset(wanted))
        return {name: self._names_of(key(at), after, name, forced) for name in wanted}

    def _facts_of(self, where: Key, forced: _Force) -> tuple[Fact, ...]:
        for record in self._records.get(forced, ()):
            if where in record.values:
                return tuple(record.values[where].values())
        return ()

    def _names_of(self, where: Key, after: bool, name: str, forced: _Force) -> tuple[Fact, ...]:
        for record in self._records.get(forced, ()):
            found = record.locals.get((where, after), {})
            if name in found:
                return tuple(found[name].values())
        return ()

    def _ask(self, nodes: Iterable[ast.AST], forced: _Force, names: frozenset[str] = frozenset()) -> None:
        """Make a run when one of the nodes was not recorded yet under these forced outcomes."""
        functions: set[Key] = set()
        statements: set[Key] = set()
        wanted: dict[tuple[Key, bool], frozenset[str]] = {}
        for node in nodes:
            path = text.path_at(self._tree, text.span_of(node))
            function = next((p for p in path if isinstance(p, text.Function)), None)
            if function is None:
                continue  # module level: it does not run in a call
            functions.add(key(function))
            around = [p for p in path[path.index(function) + 1 :] if isinstance(p, ast.stmt)]
            inside = [s for s in ast.walk(around[-1]) if isinstance(s, ast.stmt)] if around else []
            statements |= {key(s) for s in (*around, *inside)}
            if isinstance(node, ast.stmt) and not self._knows_names(key(node), forced, names):
                wanted[key(node), False] = names
        functions -= self._functions.get(forced, set())
        if functions or wanted:
            self._functions.setdefault(forced, set()).update(functions)
            self._run(functions, statements, wanted, forced)

    def _knows_names(self, where: Key, forced: _Force, names: frozenset[str]) -> bool:
        for record in self._records.get(forced, ()):
            known = record.wanted.get((where, False))
            if known is not None and names <= {name.removeprefix(".") for name in known}:
                return True
        return False

    def _run(
        self,
        functions: set[Key],
        statements: set[Key],
        wanted: dict[tuple[Key, bool], frozenset[str]],
        forced: _Force,
    ) -> None:
        record = Record(dict(forced), wanted=wanted)
        self._records.setdefault(forced, []).append(record)
        change = {self._path: lambda tree: probes.instrument(tree, functions, statements, record)}
        with (
            swapped(self._workspace, instrument=change, inject=record.names_in(), reset=False),
            self._preserved() as world,
            listening(),
            torch.compiler.set_stance("force_eager"),
        ):
            patience = world.patience
            timed = patience.bounded if patience.known else patience.learning
            for call in self._program.calls:
                copied = state.copy_call(call)
                state.seed_all(0)
                try:
                    with timed():
                        self._program.target(*copied.args, **copied.kwargs)
                except (Exception, SystemExit, Enough, state.Overrun) as error:  # noqa: BLE001 (what was seen so far counts)
                    record.errors.append(error)
                finally:
                    world.restore()
        record.alive.clear()

    def _preserved(self) -> AbstractContextManager[state.World]:
        return state.preserved(self._program) if self._world is None else nullcontext(self._world)


def _forced(force: Mapping[ast.expr, bool] | None) -> _Force:
    return tuple(sorted((key(node), outcome) for node, outcome in (force or {}).items()))
