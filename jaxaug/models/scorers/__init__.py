"""Scores of texts and pairs of texts by published models; batched and kept on disk."""
