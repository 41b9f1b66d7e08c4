"""All kinds: the modules of this package, and third-party ones from the entry point group ``onegraph.kinds``.

A break belongs to the first kind that recognises it. Kinds are asked in the order of their optional ``ORDER``
(default 50), then of their name; ``other`` recognises everything and is asked last.
"""

from __future__ import annotations

import ast
import importlib
import linecache
import pkgutil
import re
from collections.abc import Callable, Iterator
from functools import cache
from importlib.metadata import entry_points
from typing import cast

import onegraph.kinds
from onegraph.diagnose.sites import site_frame
from onegraph.kinds import families, opaque_call, tree
from onegraph.kinds.base import Kind, is_kind
from onegraph.model import Break, Candidate, Declined
from onegraph.rewrite.request import Request

ENTRY_POINTS = "onegraph.kinds"


@cache
def all_kinds() -> tuple[Kind, ...]:
    """Every kind, in the order in which they are asked.

    Raises ValueError where two kinds have one name, or where an entry point names something that is no kind.
    """
    own = [
        importlib.import_module(f"onegraph.kinds.{m.name}")
        for m in pkgutil.iter_modules(onegraph.kinds.__path__)
    ]
    kinds = [cast(Kind, module) for module in own if is_kind(module)]
    for entry in entry_points(group=ENTRY_POINTS):
        module = entry.load()
        if not is_kind(module):
            raise ValueError(
                f"entry point {entry.name} = {entry.value}: not a kind; see onegraph.kinds.base.Kind"
            )
        kinds.append(cast(Kind, module))
    kinds.sort(key=lambda kind: (getattr(kind, "ORDER", 50), kind.NAME))
    listed = [kind.NAME for kind in kinds]
    if doubled := {name for name in listed if listed.count(name) > 1}:
        raise ValueError(f"two kinds have the same name: {', '.join(sorted(doubled))}")
    return tuple(kinds)


def names() -> tuple[str, ...]:
    """The names of all kinds, sorted; imports no torch."""
    return tuple(sorted(kind.NAME for kind in all_kinds()))


def get(name: str) -> Kind:
    """The kind called ``name``. Raises KeyError."""
    for kind in all_kinds():
        if name == kind.NAME:
            return kind
    raise KeyError(name)


def classify(break_: Break, source_text: str | None = None) -> str:
    """The name of the kind of a break; "other" where none recognises it. Never raises on missing source.

    ``source_text`` is the text of the file that the break's site lies in; without it the text is read through
    ``linecache``.
    """
    node = node_at(break_, source_text)
    return next(kind.NAME for kind in all_kinds() if kind.recognises(break_, node))


def reason(break_: Break) -> str:
    """One sentence on why the graph breaks: the kind's own, else what its page says happens, else its
    family's.
    """
    kind = get(classify(break_))
    own: Callable[[Break], str] | None = getattr(kind, "reason", None)
    if own is not None:
        return own(break_)
    happens = re.search(r"^What happens: (.+?)[.;:](?:\s|$)", kind.__doc__ or "", re.MULTILINE | re.DOTALL)
    if happens is None:
        return families.of(break_.gb_type).meaning
    sentence = " ".join(happens[1].split()).replace("``", "`")
    return sentence[0].upper() + sentence[1:] + "."


def repairs(request: Request) -> Iterator[Candidate | Declined]:
    """What the kind of the request's site proposes, best first; an unknown kind name counts as "other".

    Where it has nothing, the whole function that the site stands in may still run as one op."""
    kind = get(request.site.kind if request.site.kind in names() else "other")
    whole = list(opaque_call.whole_function(request))
    possible = any(isinstance(each, Candidate) for each in whole)
    if opaque_call.runs_as_op(request) or (possible and opaque_call.draws(request)):
        yield from whole
        return
    found = list(kind.repairs(request))
    yield from found
    if kind.NAME != opaque_call.NAME and possible and not any(isinstance(each, Candidate) for each in found):
        yield from whole


def node_at(break_: Break, source_text: str | None = None) -> ast.stmt | ast.expr | None:
    """The innermost statement or expression at a break; None without source."""
    if not break_.stack:
        return None
    span = site_frame(break_).span
    text = source_text if source_text is not None else "".join(linecache.getlines(span.file))
    module = tree.parse(text)
    return tree.innermost(module, span) if module else None
