"""Examples and near misses of the kind."""

from __future__ import annotations

from onegraph.kinds.base import Example, Untouched

EXAMPLES: tuple[Example, ...] = ()
UNTOUCHED: tuple[Untouched, ...] = ()
