"""T5, T5.1.1, mT5 and ByT5."""
