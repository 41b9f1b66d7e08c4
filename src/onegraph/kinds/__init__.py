"""Kinds of graph breaks: one file a kind. Imports no torch."""
