"""The pieces of benchmarks/fuzz.py: a grammar of programs, an oracle of its own, and shrinking."""
