"""Meshes, logical axes, and partitioned functions."""
