"""The experiments of DiPS: paraphrase generators and classifiers trained on their output."""

from pathlib import Path


def folder() -> str:
    """Returns the folder that holds configs/; an entry point names this function."""
    return str(Path(__file__).parent)
