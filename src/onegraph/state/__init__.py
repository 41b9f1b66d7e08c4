"""State: what a run can change, put back afterwards; and one run with everything about it recorded."""

from onegraph.state.world import DELETED, World, preserved

__all__ = ["DELETED", "World", "preserved"]
