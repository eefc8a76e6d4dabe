"""Datasets, vocabularies, and iterators over batches."""
