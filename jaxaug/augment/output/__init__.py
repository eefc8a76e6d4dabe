"""Outputs of a run: variants, records, and the report."""
