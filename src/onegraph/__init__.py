"""onegraph: give torch.compile one graph, with proof that nothing else changed."""

__version__ = "0.1.0"
