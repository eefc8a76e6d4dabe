"""Faster CPU implementations of network operations, with the same values.

jaxaug's networks use this package if it exists; with upstream T5X they work without it.
"""
