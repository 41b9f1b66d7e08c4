"""The judge: is the mended program the same program?"""

from onegraph.verify.compare import Comparison, compare
from onegraph.verify.later import allowed, later
from onegraph.verify.uncompiled import uncompiled
from onegraph.verify.values import Difference
from onegraph.verify.whole import BACKENDS, whole

__all__ = ["BACKENDS", "Comparison", "Difference", "allowed", "compare", "later", "uncompiled", "whole"]
