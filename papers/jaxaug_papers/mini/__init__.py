"""The pretraining of the model `mini`: generated data, exercises, and a vocabulary."""

from pathlib import Path


def folder() -> str:
    """Returns the folder that holds configs/; an entry point names this function."""
    return str(Path(__file__).parent)
