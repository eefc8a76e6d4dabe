"""Jitted decoding: warpers and sampling, and one beam loop with pluggable selection."""
