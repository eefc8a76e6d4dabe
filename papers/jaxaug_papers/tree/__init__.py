"""The experiments on schema augmentation (Coca et al., 2023)."""

from pathlib import Path


def folder() -> str:
    """Returns the folder that holds configs/; an entry point names this function."""
    return str(Path(__file__).parent)
