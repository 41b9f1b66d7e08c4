"""From break events to sites: one row for each source expression, with its owner, its cost and its reason."""

from onegraph.diagnose.owner import display_path, owner_of
from onegraph.diagnose.recompiles import attributed
from onegraph.diagnose.sites import diagnose

__all__ = ["attributed", "diagnose", "display_path", "owner_of"]
