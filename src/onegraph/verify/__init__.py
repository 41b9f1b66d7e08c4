"""The judge: is the mended program the same program?"""

from onegraph.verify.as_compiled import AsCompiled, Divergence, as_compiled
from onegraph.verify.compare import Comparison, compare
from onegraph.verify.later import allowed, later
from onegraph.verify.uncompiled import uncompiled
from onegraph.verify.values import Difference
from onegraph.verify.whole import BACKENDS, whole

__all__ = [
    "BACKENDS",
    "AsCompiled",
    "Comparison",
    "Difference",
    "Divergence",
    "allowed",
    "as_compiled",
    "compare",
    "later",
    "uncompiled",
    "whole",
]
