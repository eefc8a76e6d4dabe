"""Flags, gin, and startup of the programs."""
