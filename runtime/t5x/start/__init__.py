"""Flags, gin and start-up of the programs."""
