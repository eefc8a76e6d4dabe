"""Metrics, TensorBoard files, and messages to the user."""
