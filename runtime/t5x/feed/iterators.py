"""Iterators over training batches: prefetching, placement on devices, and resumption.

An iterator of batches is any object with `__next__` and `element_spec`. `__next__`
returns a dict of numpy arrays, the rows of this process. `element_spec` maps a name to
an object with shape and dtype. A resumable iterator also has `save(path)` and
`restore(path)`. An iterator whose next batch depends on the steps so far has
`is_ready`; while it is false, no batch is read ahead.
"""

import collections
import os
import sys
import threading
from collections.abc import Callable, Mapping
from concurrent import futures
from typing import Any

import jax
from etils import epath
from jaxaug_base.clu_names import iterators as clu_iterators

from t5x.distributed import process_local_to_global
from t5x.errors import UserError
from t5x.feed.shards import DataShards, Rewindable, method

Batch = Mapping[str, Any]
_POLL_SECONDS = 0.02  # between two looks at a source that is not ready


def is_tf_dataset(value: Any) -> bool:
    """Returns whether a value is a `tf.data.Dataset`; never imports TensorFlow."""
    tensorflow = sys.modules.get("tensorflow")
    return tensorflow is not None and isinstance(value, tensorflow.data.Dataset)


def batches_of(dataset: Any) -> Any:
    """Iterates over the batches of a dataset as numpy arrays, from the beginning."""
    return dataset.as_numpy_iterator() if is_tf_dataset(dataset) else dataset


def in_thread(function: Callable[[], Any], name: str) -> futures.Future:
    """Calls a function in a daemon thread; returns the future of its result."""
    future: futures.Future = futures.Future()

    def run() -> None:
        try:
            future.set_result(function())
        except BaseException as error:  # noqa: BLE001 - raised by result()
            future.set_exception(error)

    threading.Thread(target=run, name=name, daemon=True).start()
    return future


def shard_batch(batch: Batch, partitioner: Any) -> Batch:
    """Puts the rows of this process onto its devices as global arrays.

    Arrays that are already spread over devices stay as they are. A partitioner
    without a mesh leaves the batch to its own partitioned functions.
    """
    mesh = getattr(partitioner, "mesh", None)
    if mesh is None or all(isinstance(x, jax.Array) for x in batch.values()):
        return batch
    sharding = jax.sharding.NamedSharding(mesh, partitioner.data_partition_spec)
    if jax.process_count() > 1:
        return {k: process_local_to_global(v, sharding) for k, v in batch.items()}
    return jax.device_put(dict(batch), sharding)


class ShardedDatasetIterator(clu_iterators.DatasetIterator):
    """Yields the batches of an iterator as global arrays on the mesh.

    `global_shapes` is part of the T5X signature and unused.
    """

    def __init__(self, iterator: Any, partitioner: Any, global_shapes: Any = None):
        del global_shapes
        self._iterator = iterator
        self._partitioner = partitioner

    def __next__(self) -> Batch:
        return shard_batch(next(self._iterator), self._partitioner)

    def get_next(self) -> Batch:
        """Returns the next batch."""
        return next(self)

    def reset(self) -> None:
        """Restarts from the first batch."""
        self._iterator.reset()

    @property
    def element_spec(self) -> Any:
        """Shapes and types of the batches of this process."""
        return self._iterator.element_spec

    def save(self, filename: str | os.PathLike) -> None:
        """Writes the position under the given path prefix."""
        method(self._iterator, "save")(epath.Path(filename))

    def restore(self, filename: str | os.PathLike) -> None:
        """Moves to the position written under the given path prefix."""
        method(self._iterator, "restore")(epath.Path(filename))

    @property
    def iterator(self) -> Any:
        """The innermost wrapped iterator, such as a tf.data iterator."""
        return getattr(self._iterator, "iterator", self._iterator)


class PrefetchIterator(clu_iterators.DatasetIterator):
    """Prefetches a few batches in a thread and still resumes exactly.

    `save` writes the position of the wrapped iterator and the batches that were read
    but not yet used (see `pending`). `restore` yields those batches first, so no batch
    is lost or repeated. The thread starts with the first `peek`, `peek_async`, or
    `next`, that is, after a restore.
    """

    def __init__(
        self,
        iterator: Any,
        depth: int = 2,
        partitioner: Any = None,
        shards: DataShards | None = None,
    ):
        """Prepares the iterator; nothing is read yet.

        With `shards`, `iterator` maps the index of each shard that this process reads
        to its iterator. Without `partitioner` the batches stay on the host.
        """
        parts = {0: iterator} if shards is None else iterator
        self.shards = shards
        self.parts = {i: Rewindable(part, most=depth) for i, part in parts.items()}
        self._partitioner = partitioner
        self._depth = depth
        self._ready: collections.deque[Batch] = collections.deque()
        self._error: BaseException | None = None
        self._closed = False
        self._asked = False  # whether `next` or `peek` waits for a batch
        self._changed = threading.Condition()
        # Held while the wrapped iterator is read or saved.
        self._source = threading.Lock()
        self._thread: threading.Thread | None = None

    def _start(self) -> None:
        if self._thread is None:
            self._thread = threading.Thread(
                target=self._read_ahead, name="prefetch", daemon=True
            )
            self._thread.start()

    def _read_ahead(self) -> None:
        while True:
            with self._changed:
                while not (self._closed or self._may_read()):
                    full = len(self._ready) >= self._depth
                    self._changed.wait(None if full else _POLL_SECONDS)
                if self._closed:
                    return
            # The source lock covers both reading and queueing: a save in between would
            # miss the batch in hand.
            with self._source:
                try:
                    rows = [next(part) for part in self.parts.values()]
                    joined = rows[0] if self.shards is None else self.shards.join(rows)
                    batch = shard_batch(joined, self._partitioner)
                except Exception as error:  # noqa: BLE001 - raised in the reader
                    with self._changed:
                        self._error = error
                        self._changed.notify_all()
                    return
                with self._changed:
                    self._ready.append(batch)
                    self._changed.notify_all()

    def _may_read(self) -> bool:
        # A reader that waits reaches a source that is not ready: it raises the error.
        asked = self._asked and not self._ready
        is_ready = asked or all(part.is_ready for part in self.parts.values())
        return is_ready and len(self._ready) < self._depth

    def _wait_for_first(self) -> None:
        self._start()
        self._asked = True
        self._changed.notify_all()
        self._changed.wait_for(lambda: self._ready or self._error is not None)
        self._asked = False
        if not self._ready:
            assert self._error is not None
            raise self._error

    def __next__(self) -> Batch:
        with self._changed:
            self._wait_for_first()
            batch = self._ready.popleft()
            self._changed.notify_all()
            return batch

    def get_next(self) -> Batch:
        """Returns the next batch."""
        return next(self)

    def peek(self) -> Batch:
        """Returns the next batch without consuming it."""
        with self._changed:
            self._wait_for_first()
            return self._ready[0]

    def peek_async(self) -> futures.Future:
        """Returns a future of `peek()`, to warm up the pipeline in the background."""
        return in_thread(self.peek, "peek")

    @property
    def element_spec(self) -> Any:
        """Shapes and types of the batches of this process."""
        first = next(iter(self.parts.values())).element_spec
        if self.shards is None or self.shards.taken == self.shards.rows:
            return first
        return {
            name: jax.ShapeDtypeStruct(
                (self.shards.taken, *spec.shape[1:]),
                getattr(spec.dtype, "as_numpy_dtype", spec.dtype),
            )
            for name, spec in first.items()
        }

    @property
    def iterator(self) -> Any:
        """The innermost iterator (of the first shard that is read)."""
        wrapped = next(iter(self.parts.values())).wrapped
        return getattr(wrapped, "iterator", wrapped)

    @property
    def positions(self) -> dict[int, "ShardPosition"]:
        """Maps each shard that is read to its position, for saving and restoring."""
        return {index: ShardPosition(self, index) for index in self.parts}

    def reset(self) -> None:
        """Restarts from the first batch."""
        with self._source, self._changed:
            for part in self.parts.values():
                part.reset()
            self._ready.clear()

    def close(self) -> None:
        """Stops the thread."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()
        if self._thread is not None:
            self._thread.join(timeout=5)

    def save(self, filename: str | os.PathLike) -> None:
        """Writes the position under a path prefix; raises what the source raises.

        If there are several shards, each has its own prefix `<filename>.shard<index>`.
        """
        for prefix, position in self._prefixes(filename):
            position.save(prefix)

    def restore(self, filename: str | os.PathLike) -> None:
        """Moves to the position written under the given path prefix.

        Raises:
            UserError: prefetched batches are lost or damaged.
        """
        for prefix, position in self._prefixes(filename):
            position.restore(prefix)

    def _prefixes(
        self, filename: str | os.PathLike
    ) -> list[tuple[str, "ShardPosition"]]:
        if self.shards is None or self.shards.count == 1:
            return [(os.fspath(filename), self.positions[0])]
        return [
            (f"{os.fspath(filename)}.shard{index:03}", position)
            for index, position in self.positions.items()
        ]


class ShardPosition:
    """The position of a `PrefetchIterator` in one shard."""

    def __init__(self, iterator: PrefetchIterator, index: int):
        self._owner = iterator
        self._part = iterator.parts[index]

    def save(self, filename: str | os.PathLike) -> None:
        """See `PrefetchIterator.save`."""
        with self._owner._source:
            with self._owner._changed:
                ahead = len(self._owner._ready)
            self._part.save(epath.Path(filename), ahead)

    def restore(self, filename: str | os.PathLike) -> None:
        """See `PrefetchIterator.restore`."""
        with self._owner._source:
            if self._owner._thread is not None:
                raise RuntimeError("restore() after the first batch was read")
            self._part.restore(epath.Path(filename))


def prepare_train_iter(
    train_iter: Any, *, checkpoint_cfg: Any, partitioner: Any, data_layout: Any
) -> PrefetchIterator:
    """Wraps the result of `get_dataset_fn` for the train loop.

    `checkpoint_cfg` and `data_layout` are part of the T5X signature and unused.

    Raises:
        ValueError: `train_iter` has another type.
    """
    del checkpoint_cfg, data_layout
    return PrefetchIterator(_readable(train_iter), partitioner=partitioner)


def prepare_shards(
    open_shard: Callable[[int], Any], shards: DataShards, partitioner: Any
) -> PrefetchIterator:
    """Opens and wraps all shards that this process reads; see `prepare_train_iter`.

    `open_shard` maps an index to the result of `get_dataset_fn`.
    """
    parts = {index: _readable(open_shard(index)) for index in shards.mine}
    return PrefetchIterator(parts, partitioner=partitioner, shards=shards)


def _readable(train_iter: Any) -> Any:
    if is_tf_dataset(train_iter):
        return clu_iterators.TfDatasetIterator(
            _with_few_threads(train_iter), checkpoint=True
        )
    if hasattr(train_iter, "__next__") and hasattr(train_iter, "element_spec"):
        return train_iter
    raise UserError(
        f"get_dataset_fn returned unsupported type {type(train_iter)}; return a "
        "tf.data.Dataset, a clu DatasetIterator, or an iterator of dicts of numpy "
        "arrays with an `element_spec`."
    )


def _with_few_threads(dataset: Any) -> Any:
    """Limits tf.data threads if XLA computes on the same cores."""
    if jax.default_backend() != "cpu":
        return dataset
    tensorflow = sys.modules["tensorflow"]
    options = tensorflow.data.Options()
    options.threading.private_threadpool_size = max(1, (os.cpu_count() or 1) // 4)
    options.threading.max_intra_op_parallelism = 1
    return dataset.with_options(options)
