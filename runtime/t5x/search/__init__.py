"""Decoding: beam search, sampling, and the state they carry."""
