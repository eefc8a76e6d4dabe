"""Judgment of candidates: filters and measures."""
