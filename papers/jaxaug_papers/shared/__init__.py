"""Shared code of the experiments of several papers."""
