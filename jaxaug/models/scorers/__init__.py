"""Scores of texts and pairs of texts by published models; batched and stored on disk."""
