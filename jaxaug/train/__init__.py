"""The small trainers that T5X does not cover."""
