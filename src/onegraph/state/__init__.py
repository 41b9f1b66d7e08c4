"""State: what a run can change, put back afterwards; and one run with everything about it recorded."""

from onegraph.state.copying import copy_call, freeze, map_tensors
from onegraph.state.observation import Logged, Observation, Raised, Warned
from onegraph.state.patience import Overrun, deadline
from onegraph.state.reach import Reach
from onegraph.state.run import run_call, seed_all
from onegraph.state.saved import same_random_state
from onegraph.state.sort import sort_of
from onegraph.state.walk import children, tensors_in
from onegraph.state.world import DELETED, World, preserved

__all__ = [
    "DELETED",
    "Logged",
    "Observation",
    "Overrun",
    "Raised",
    "Reach",
    "Warned",
    "World",
    "children",
    "copy_call",
    "deadline",
    "freeze",
    "map_tensors",
    "preserved",
    "run_call",
    "same_random_state",
    "seed_all",
    "sort_of",
    "tensors_in",
]
