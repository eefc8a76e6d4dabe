"""Outputs of a run: variants, records, comparison, report, and trees."""
