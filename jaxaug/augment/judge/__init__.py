"""Which candidates are good: filters and measures."""
