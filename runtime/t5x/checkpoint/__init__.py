"""Checkpoints: layouts, saving, restoring, and states from them."""
