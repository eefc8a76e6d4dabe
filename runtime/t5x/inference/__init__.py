"""Inference over datasets, its output, and evaluation by it."""
