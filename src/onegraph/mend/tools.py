"""The stages as the loop calls them in earnest."""

from __future__ import annotations

import functools
from collections.abc import Callable

from onegraph import verify
from onegraph.kinds import registry
from onegraph.mend.look import findings_of
from onegraph.mend.loop import Tools
from onegraph.model import Evidence, Level, Predicate, Program, Trace
from onegraph.observe import observe
from onegraph.rewrite.workspace import Workspace


def standard() -> Tools:
    """Observation by Dynamo, the registered kinds, the judge. For one program: on what it has no end is kept."""
    endless: set[str] = set()
    return Tools(
        observe=observe,
        residual=functools.partial(observe, residual=True),
        diagnose=findings_of,
        repairs=registry.repairs,
        trial=functools.partial(_trial, endless),
        whole=functools.partial(_whole, endless),
    )


def _trial(
    endless: set[str],
    program: Program,
    before: Workspace,
    after: Workspace,
    predicates: tuple[Predicate, ...],
    level: Level,
    rounding: bool,
) -> Evidence:
    return verify.uncompiled(
        program, before, after, predicates, level=level, rounding=rounding, endless=endless
    )


def _whole(
    endless: set[str],
    program: Program,
    mended: Workspace,
    predicates: tuple[Predicate, ...],
    level: Level,
    backends: tuple[str, ...] | None = None,
    goes_on: Callable[[Trace], bool] | None = None,
    rounding: bool = False,
) -> Evidence:
    chosen = verify.BACKENDS if backends is None else backends
    return verify.whole(
        program,
        Workspace(),
        mended,
        predicates,
        level=level,
        backends=chosen,
        goes_on=goes_on,
        rounding=rounding,
        endless=endless,
    )
