"""A decoder-only transformer of T5 layers."""
