"""Will CUDA graphs hold the compiled program? A prediction on any machine, from the graphs and torch's own rules."""

from onegraph.cudagraphs.predict import Prediction, predict
from onegraph.cudagraphs.rules import Obstacle

__all__ = ["Obstacle", "Prediction", "predict"]
