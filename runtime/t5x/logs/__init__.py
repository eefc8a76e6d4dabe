"""Metrics, TensorBoard files and what a person sees of a run."""
