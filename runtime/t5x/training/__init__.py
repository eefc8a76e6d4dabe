"""Parts of a training run: setup, loop, trainer, and step."""
