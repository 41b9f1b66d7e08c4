"""See what torch.compile does with a program: breaks, graphs, recompiles, and what hides behind a break."""

from onegraph.observe.probe import Probe, explore, probe
from onegraph.observe.run import observe
from onegraph.observe.watch import Watch, watch

__all__ = ["Probe", "Watch", "explore", "observe", "probe", "watch"]
