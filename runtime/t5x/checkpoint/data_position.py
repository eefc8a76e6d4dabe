"""The position of the training data iterator as a part of a checkpoint."""

import os
import re
from typing import Any

import jax
from absl import logging
from etils import epath

from t5x import digests
from t5x.checkpoint.folders import dataset_files
from t5x.distributed import failing_together
from t5x.errors import UserError
from t5x.partition.partitioner import BasePartitioner

_NAME = re.compile(r"train_ds-\d+-of-(?P<shards>\d+)")
_STATEFUL_ERRORS = ("FailedPreconditionError", "UnimplementedError")


def _is_stateful_source(error: Exception) -> bool:
    # Compared by name, because training from a tokenized cache must not import
    # TensorFlow.
    return isinstance(error, NotImplementedError) or any(
        cls.__name__ in _STATEFUL_ERRORS for cls in type(error).__mro__
    )


def _process_folder() -> str:
    return f"process_{jax.process_index()}-of-{jax.process_count()}"


def position_name(shard: int, shards: int) -> str:
    """Returns the file-name prefix of the position in one shard."""
    return f"train_ds-{shard:03}-of-{shards:03}"


def saved_shards(root: epath.PathLike) -> int | None:
    """Returns the number of data shards whose position a checkpoint holds, or None."""
    matches = (_NAME.match(path.name) for path in dataset_files(root))
    counts = {int(match["shards"]) for match in matches if match}
    return max(counts) if counts else None


class DatasetCheckpoint:
    """Saves and restores one data iterator, in files `train_ds-<shard>-of-<shards>*`.

    An iterator with `shards` and `positions` (`feed.iterators.PrefetchIterator`) is
    saved shard by shard. The first process that reads a shard saves it, and all
    processes that read it restore it. Any other iterator is saved and restored per
    process.
    """

    def __init__(self, iterator: Any, partitioner: BasePartitioner):
        """Wraps `iterator`."""
        layout = partitioner.get_data_layout()
        shards = getattr(iterator, "shards", None)
        if shards is None:
            name = position_name(layout.shard_id, layout.num_shards)
            self._parts = {} if iterator is None else {name: iterator}
            writes = layout.is_first_host_in_replica_set
            self._written = set(self._parts) if writes else set()
            self.count = layout.num_shards
        else:
            self.count = shards.count
            named = {i: position_name(i, self.count) for i in iterator.positions}
            self._parts = {named[i]: p for i, p in iterator.positions.items()}
            self._written = {named[i] for i in named if shards.writes(i)}

    def save(self, folder: epath.PathLike, per_process: bool = False) -> None:
        """Writes the iterator's state into `folder` of an unfinished checkpoint.

        An iterator whose source cannot be saved (a Python generator) is reported once
        and skipped from then on.
        """
        if not self._written:
            return
        target = epath.Path(folder)
        if per_process and jax.process_count() > 1:
            target /= _process_folder()
            target.mkdir(parents=True, exist_ok=True)
        try:
            for name in sorted(self._written):
                _save_iterator(self._parts[name], os.fspath(target / name))
        except Exception as e:
            if not _is_stateful_source(e):
                raise
            for name in self._written:
                for left_over in target.glob(f"{name}*"):
                    left_over.unlink()
            self._written = set()
            logging.warning(
                "The training data iterator cannot be saved (%s), so a restarted run "
                "begins the data from its first batch. Cache the source to files, or "
                "set SaveCheckpointConfig.save_dataset = False to silence this.",
                str(e).splitlines()[0] if str(e) else type(e).__name__,
            )

    def restore(self, root: epath.PathLike) -> bool:
        """Moves the iterator to the position stored in checkpoint folder `root`.

        Raises:
            UserError: the position has changed since it was saved, or a part is lost.
        """
        if not self._parts:
            return False
        root = epath.Path(root)
        names = tuple(self._parts)
        digests.verify(root, lambda n: n.rpartition("/")[2].startswith(names))
        with failing_together():
            return self._restore_parts(root)

    def _restore_parts(self, root: epath.Path) -> bool:
        # The files that this process wrote come last and replace the files of others.
        mine = _process_folder()
        paths = sorted(dataset_files(root), key=lambda path: path.parent.name == mine)
        found = {path.name: path for path in paths}
        folders = {
            name: next((p.parent for n, p in found.items() if n.startswith(name)), None)
            for name in self._parts
        }
        if missing := sorted(name for name, folder in folders.items() if not folder):
            self._explain_missing(root, missing)
            return False
        for name, folder in folders.items():
            assert folder is not None
            _restore_iterator(self._parts[name], os.fspath(folder / name))
        return True

    def _explain_missing(self, root: epath.Path, missing: list[str]) -> None:
        """Warns that the data restarts; raises UserError if only a part is missing."""
        shards = saved_shards(root)
        if shards == self.count:
            raise UserError(
                f"{root} holds the position in some of the {shards} shards of the "
                f"training data, but not {missing}: copy the checkpoint whole, or "
                f"begin the data anew with SaveCheckpointConfig.save_dataset = False."
            )
        logging.warning(
            "No data iterator state %s in %s (%s): the training data starts from its "
            "first batch.",
            missing[0],
            root,
            f"it has that of {shards} shards, this run reads {self.count}"
            if shards
            else "none",
        )


def _save_iterator(iterator: Any, prefix: str) -> None:
    if hasattr(iterator, "save"):
        iterator.save(prefix)
        return
    import tensorflow as tf

    tf.train.Checkpoint(ds=iterator).write(prefix)


def _restore_iterator(iterator: Any, prefix: str) -> None:
    restore = getattr(iterator, "restore", getattr(iterator, "load", None))
    if restore is not None:
        restore(prefix)
        return
    import tensorflow as tf

    tf.train.Checkpoint(ds=iterator).read(prefix).assert_consumed()
