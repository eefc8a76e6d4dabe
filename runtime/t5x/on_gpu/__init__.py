"""Faster implementations of network operations on one GPU, with the same values."""
