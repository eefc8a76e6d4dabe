"""Sources of candidates: one scheme per module."""
