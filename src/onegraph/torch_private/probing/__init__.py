"""Probe mode: one trace that goes on behind every break, with the real values of the inputs."""

from onegraph.torch_private.probing.tracer import Probed, trace

__all__ = ["Probed", "trace"]
