"""Dialogues to text and back, one format a file: `format` and `parse` side by side."""
