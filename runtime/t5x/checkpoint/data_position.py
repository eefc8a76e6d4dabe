"""The position of the training data iterator as a part of a checkpoint."""

import contextlib
import os
from typing import Any

import jax
from absl import logging
from etils import epath

from t5x import digests
from t5x.checkpoint.folders import DATASET, dataset_files
from t5x.partition.base_partitioner import BasePartitioner

_STATEFUL_ERRORS = ("FailedPreconditionError", "UnimplementedError")


def _is_stateful_source(error: Exception) -> bool:
    # By name: TensorFlow must not be imported to train from a tokenised cache.
    return isinstance(error, NotImplementedError) or any(
        cls.__name__ in _STATEFUL_ERRORS for cls in type(error).__mro__
    )


class DatasetCheckpoint:
    """Saves and restores one data iterator, file `train_ds-<shard>-of-<shards>`."""

    def __init__(self, iterator: Any, partitioner: BasePartitioner):
        """Wraps `iterator`.

        Args:
          iterator: object with `save(prefix)` and `restore(prefix)` (or `load`), a
            tf.data iterator, or None.
          partitioner: gives the data shard of this process.
        """
        layout = partitioner.get_data_layout()
        self.name = f"train_ds-{layout.shard_id:03}-of-{layout.num_shards:03}"
        self._iterator = iterator
        self._writes = iterator is not None and layout.is_first_host_in_replica_set

    def _process_folder(self, folder: epath.Path) -> epath.Path:
        if jax.process_count() == 1:
            return folder
        return folder / f"process_{jax.process_index()}-of-{jax.process_count()}"

    def save(self, folder: epath.PathLike, per_process: bool = False) -> None:
        """Writes the iterator's state into `folder` of an unfinished checkpoint.

        An iterator whose source cannot be saved (a Python generator) is reported
        once and left out from then on.
        """
        if not self._writes:
            return
        target = epath.Path(folder)
        if per_process:
            target = self._process_folder(target)
            target.mkdir(parents=True, exist_ok=True)
        prefix = os.fspath(target / self.name)
        try:
            _save_iterator(self._iterator, prefix)
        except Exception as e:
            if not _is_stateful_source(e):
                raise
            self._writes = False
            for left_over in target.glob(f"{self.name}*"):
                left_over.unlink()
            logging.warning(
                "The training data iterator cannot be saved (%s), so a restarted run "
                "begins the data from its first batch. Cache the source to files, or "
                "set SaveCheckpointConfig.save_dataset = False to silence this.",
                str(e).splitlines()[0] if str(e) else type(e).__name__,
            )

    def restore(self, root: epath.PathLike) -> bool:
        """Sets the iterator to the position stored in checkpoint folder `root`.

        Returns:
          Whether a position was found; a warning explains why not.

        Raises:
          UserError: the position has changed since it was saved, or a part is lost.
        """
        if self._iterator is None:
            return False
        root = epath.Path(root)
        digests.verify(root, lambda name: name.rpartition("/")[2].startswith(self.name))
        places = (self._process_folder(root / DATASET), root / DATASET, root)
        for folder in places:
            if any(folder.glob(f"{self.name}*")):
                _restore_iterator(self._iterator, os.fspath(folder / self.name))
                return True
        others = sorted({p.name for p in dataset_files(root)})
        reason = f"it has {others} for another number of hosts" if others else "none"
        logging.warning(
            "No data iterator state %s in %s (%s): the training data starts from its "
            "first batch.",
            self.name,
            root,
            reason,
        )
        return False


def _save_iterator(iterator: Any, prefix: str) -> None:
    if hasattr(iterator, "save"):
        iterator.save(prefix)
        return
    import tensorflow as tf

    tf.train.Checkpoint(ds=iterator).write(prefix)


def _restore_iterator(iterator: Any, prefix: str) -> None:
    for name in ("restore", "load"):
        with contextlib.suppress(AttributeError):
            method = getattr(iterator, name)
            break
    else:
        import tensorflow as tf

        tf.train.Checkpoint(ds=iterator).read(prefix).assert_consumed()
        return
    method(prefix)
