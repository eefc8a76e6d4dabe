"""What a run leaves: variants, records, comparison, report, trees."""
