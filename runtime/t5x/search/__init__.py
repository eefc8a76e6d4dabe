"""Decoding: beam search, sampling, and their loop state."""
