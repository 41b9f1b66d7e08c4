"""The stages as the loop calls them in earnest."""

from __future__ import annotations

import functools
from collections.abc import Callable

from onegraph import verify
from onegraph.diagnose import diagnose
from onegraph.kinds import families, registry
from onegraph.mend.loop import Tools
from onegraph.model import Break, Evidence, Level, Predicate, Program
from onegraph.observe import observe
from onegraph.rewrite.workspace import Workspace


def standard() -> Tools:
    """Observation by Dynamo, the registered kinds, the judge."""
    return Tools(
        observe=observe,
        residual=functools.partial(observe, residual=True),
        diagnose=functools.partial(diagnose, classify=registry.classify, explain=_reason),
        repairs=registry.repairs,
        trial=_trial,
        whole=_whole,
    )


def _reason(break_: Break) -> str:
    own: Callable[[Break], str] | None = getattr(registry.get(registry.classify(break_)), "reason", None)
    return own(break_) if own is not None else families.of(break_.gb_type).meaning


def _trial(
    program: Program,
    before: Workspace,
    after: Workspace,
    predicates: tuple[Predicate, ...],
    level: Level,
    rounding: bool,
) -> Evidence:
    return verify.uncompiled(program, before, after, predicates, level=level, rounding=rounding)


def _whole(
    program: Program,
    mended: Workspace,
    predicates: tuple[Predicate, ...],
    level: Level,
    backends: tuple[str, ...] | None = None,
    *,
    rounding: bool = False,
) -> Evidence:
    chosen = verify.BACKENDS if backends is None else backends
    return verify.whole(
        program, Workspace(), mended, predicates, level=level, backends=chosen, rounding=rounding
    )
