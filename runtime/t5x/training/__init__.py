"""A training run: set-up, loop, trainer, step."""
