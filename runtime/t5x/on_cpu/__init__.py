"""Faster CPU implementations of network operations, with the same values."""
