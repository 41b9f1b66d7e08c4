"""One artifact for every size: what recompiles, which line asks for it, and the proof that nothing does."""

from onegraph.diagnose.causes import Cause, cause_of
from onegraph.shapes.axes import Axis, AxisError
from onegraph.shapes.plan import shapes
from onegraph.shapes.result import Proof, ShapesResult, Step, Trial

__all__ = ["Axis", "AxisError", "Cause", "Proof", "ShapesResult", "Step", "Trial", "cause_of", "shapes"]
