"""Data position from which an interrupted inference resumes."""

import os
from collections.abc import Callable
from typing import Any

from absl import logging
from etils import epath


class Position:
    """Position in the data, saved as a TensorFlow checkpoint `<tmp_dir>/input.ckpt`."""

    def __init__(self, iterator: Any, tmp_dir: str):
        import tensorflow as tf

        self._checkpoint = tf.train.Checkpoint(ds=iterator)
        self._folder = epath.Path(tmp_dir)
        self._usable = True

    def restore(self) -> None:
        """Moves to the saved position, if there is one."""
        if any(self._folder.glob("input.ckpt*")):
            prefix = os.fspath(self._folder / "input.ckpt")
            self._checkpoint.read(prefix).assert_consumed()

    def save(self, chunk: int) -> Callable[[], None] | None:
        """Saves the position; the returned function makes it the one to restore.

        Returns None if the position cannot be saved.
        """
        import tensorflow as tf

        if not self._usable:
            return None
        prefix = os.fspath(self._folder / f"{chunk}.ckpt")
        try:
            self._checkpoint.write(prefix)
        except (tf.errors.FailedPreconditionError, tf.errors.UnimplementedError):
            self._usable = False
            logging.warning(
                "The position in the data cannot be saved (its source is a Python "
                "generator); after a stop the finished chunks are skipped one by one."
            )
            for path in self._folder.glob(f"{chunk}.ckpt*"):
                path.unlink()
            return None

        def move() -> None:
            for path in self._folder.glob(f"{chunk}.ckpt*"):
                suffix = path.name.removeprefix(f"{chunk}.ckpt")
                path.replace(self._folder / f"input.ckpt{suffix}")

        return move
