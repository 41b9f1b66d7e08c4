"""What one graph buys: eager, as it is compiled today, and mended, side by side in one run."""

from onegraph.bench.arms import Arm, arms
from onegraph.bench.measure import Measured, Result, measure

__all__ = ["Arm", "Measured", "Result", "arms", "measure"]
