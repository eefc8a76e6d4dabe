"""The experiments of PCC: few-shot classification and persona dialogue."""

from pathlib import Path


def folder() -> str:
    """Returns the folder that holds configs/; an entry point names this function."""
    return str(Path(__file__).parent)
