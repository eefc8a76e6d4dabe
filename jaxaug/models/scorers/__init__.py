"""Scores of texts and pairs of texts by published models, in batches and stored."""
