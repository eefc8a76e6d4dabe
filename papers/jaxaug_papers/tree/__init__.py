"""The experiments on schema augmentation (Coca et al., 2023)."""

from pathlib import Path


def folder() -> str:
    """Returns the folder of this package, which holds configs/.

    The entry point `tree` in papers/pyproject.toml names this function.
    """
    return str(Path(__file__).parent)
