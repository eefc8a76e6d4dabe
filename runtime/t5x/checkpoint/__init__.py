"""Checkpoints: layouts, saving, restoring, and initial states."""
