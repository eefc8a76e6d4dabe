"""Inference over datasets, its output, and evaluation by decoding or scoring."""
