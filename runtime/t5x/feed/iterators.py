"""Iterators over training batches: onto the devices, ahead of time, resumable.

An iterator of batches is any object with `__next__` (dict of numpy arrays, the rows of
this process) and `element_spec` (name -> object with shape and dtype); one that can be
resumed also has `save(path)` and `restore(path)`.
"""

import collections
import io
import json
import os
import sys
import threading
import zipfile
import zlib
from collections.abc import Mapping
from concurrent import futures
from typing import Any

import jax
import numpy as np
from clu.data import dataset_iterator as clu_iterators
from etils import epath

from t5x import digests
from t5x.errors import UserError

Batch = Mapping[str, Any]


def is_tf_dataset(value: Any) -> bool:
    """Whether a value is a `tf.data.Dataset`; never imports TensorFlow."""
    tensorflow = sys.modules.get("tensorflow")
    return tensorflow is not None and isinstance(value, tensorflow.data.Dataset)


def batches_of(dataset: Any) -> Any:
    """Iterates over the batches of a dataset as numpy arrays, from its beginning."""
    return dataset.as_numpy_iterator() if is_tf_dataset(dataset) else dataset


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
        return {
            k: jax.make_array_from_process_local_data(sharding, np.asarray(v))
            for k, v in batch.items()
        }
    return jax.device_put(dict(batch), sharding)


class ShardedDatasetIterator(clu_iterators.DatasetIterator):
    """Yields the batches of an iterator as global arrays on the mesh.

    `global_shapes` is part of the T5X signature; the shapes follow from the sharding.
    """

    def __init__(self, iterator: Any, partitioner: Any, global_shapes: Any = None):
        del global_shapes
        self._iterator = iterator
        self._partitioner = partitioner

    def __next__(self) -> Batch:
        return shard_batch(next(self._iterator), self._partitioner)

    def get_next(self) -> Batch:
        """The next batch."""
        return next(self)

    def reset(self) -> None:
        """Starts again from the first batch."""
        self._iterator.reset()

    @property
    def element_spec(self) -> Any:
        """Shapes and types of the batches of this process."""
        return self._iterator.element_spec

    def save(self, filename: str | os.PathLike) -> None:
        """Writes the position under the given path prefix."""
        _method(self._iterator, "save")(epath.Path(filename))

    def restore(self, filename: str | os.PathLike) -> None:
        """Goes to the position written under the given path prefix."""
        _method(self._iterator, "restore")(epath.Path(filename))

    @property
    def iterator(self) -> Any:
        """The wrapped iterator (of tf.data where there is one)."""
        return getattr(self._iterator, "iterator", self._iterator)


class PrefetchIterator(clu_iterators.DatasetIterator):
    """Reads a few batches ahead in a thread, and resumes exactly nevertheless.

    `save` writes the position of the wrapped iterator together with the batches that
    were read but not used yet (`<prefix>.pending.npz`, and their number and checksum in
    `<prefix>.pending.json`), and `restore` yields those first: no batch is lost, none
    comes twice. The thread starts with the first `peek`, `peek_async` or `next`, hence
    after a restore.
    """

    def __init__(self, iterator: Any, depth: int = 2):
        self._iterator = iterator
        self._depth = depth
        self._ready: collections.deque[Batch] = collections.deque()
        self._error: BaseException | None = None
        self._closed = False
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
                self._changed.wait_for(
                    lambda: self._closed or len(self._ready) < self._depth
                )
                if self._closed:
                    return
            # The source lock goes around both reading and queueing: a save in between
            # would otherwise miss the batch in hand.
            with self._source:
                try:
                    batch = next(self._iterator)
                except Exception as error:  # noqa: BLE001 - raised in the reader
                    with self._changed:
                        self._error = error
                        self._changed.notify_all()
                    return
                with self._changed:
                    self._ready.append(batch)
                    self._changed.notify_all()

    def _wait_for_first(self) -> None:
        self._start()
        self._changed.wait_for(lambda: self._ready or self._error is not None)
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
        """The next batch."""
        return next(self)

    def peek(self) -> Batch:
        """The next batch, which stays the next one."""
        with self._changed:
            self._wait_for_first()
            return self._ready[0]

    def peek_async(self) -> futures.Future:
        """A future of `peek()`: warms the pipeline up while something else happens."""
        future: futures.Future = futures.Future()

        def peek() -> None:
            try:
                future.set_result(self.peek())
            except Exception as error:  # noqa: BLE001 - raised by result()
                future.set_exception(error)

        threading.Thread(target=peek, name="peek", daemon=True).start()
        return future

    @property
    def element_spec(self) -> Any:
        """Shapes and types of the batches of this process."""
        return self._iterator.element_spec

    @property
    def iterator(self) -> Any:
        """The innermost iterator."""
        return getattr(self._iterator, "iterator", self._iterator)

    def reset(self) -> None:
        """Starts again from the first batch."""
        with self._source, self._changed:
            self._iterator.reset()
            self._ready.clear()

    def close(self) -> None:
        """Ends the thread."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()
        if self._thread is not None:
            self._thread.join(timeout=5)

    def save(self, filename: str | os.PathLike) -> None:
        """Writes the position under the given path prefix.

        Raises:
            Exception: the source cannot be saved (a Python generator); the type is
                the source's own.
        """
        with self._source:
            with self._changed:
                pending = list(self._ready)
            self._iterator.save(filename)
        _write_pending(filename, pending)

    def restore(self, filename: str | os.PathLike) -> None:
        """Goes to the position written under the given path prefix.

        Raises:
            UserError: batches that were read ahead are lost or damaged.
        """
        with self._source, self._changed:
            if self._thread is not None:
                raise RuntimeError("restore() after the first batch was read")
            pending = _read_pending(filename)
            self._iterator.restore(filename)
            partitioner = getattr(self._iterator, "_partitioner", None)
            self._ready.extend(shard_batch(batch, partitioner) for batch in pending)


def _pending_paths(filename: str | os.PathLike) -> tuple[epath.Path, epath.Path]:
    """(the batches, the note of how many they are)"""
    prefix = f"{os.fspath(filename)}.pending"
    return epath.Path(f"{prefix}.npz"), epath.Path(f"{prefix}.json")


def _write_pending(filename: str | os.PathLike, batches: list[Batch]) -> None:
    arrays: dict[str, Any] = {
        f"{i}/{name}": _local_rows(value)
        for i, batch in enumerate(batches)
        for name, value in batch.items()
    }
    # Bytes first: numpy seeks in what it writes, which files on gs:// cannot.
    buffer = io.BytesIO()
    np.savez(buffer, **arrays)
    data = buffer.getvalue()
    size, checksum = digests.of_bytes(data)
    note = {"batches": len(batches), "bytes": size, "crc32": checksum}
    path, note_path = _pending_paths(filename)
    for target, content in ((path, data), (note_path, json.dumps(note).encode())):
        temporary = epath.Path(f"{os.fspath(target)}.tmp")
        temporary.write_bytes(content)
        temporary.replace(target)


def _local_rows(value: Any) -> np.ndarray:
    """The rows of this process of a global array, in order."""
    if not isinstance(value, jax.Array) or value.is_fully_addressable:
        return np.asarray(value)
    rows = {
        (shard.index[0].start or 0): np.asarray(shard.data)
        for shard in value.addressable_shards
    }
    return np.concatenate([rows[start] for start in sorted(rows)])


def _read_pending(filename: str | os.PathLike) -> list[dict[str, np.ndarray]]:
    """The batches of `_write_pending`; none where other programs wrote the position."""
    path, note_path = _pending_paths(filename)
    noted: Mapping[str, Any] = {}
    if note_path.exists():
        try:
            noted = json.loads(note_path.read_text())
            expected = int(noted["batches"]), (int(noted["bytes"]), noted["crc32"])
        except (
            ArithmeticError,
            LookupError,
            RecursionError,
            TypeError,
            ValueError,
        ) as error:
            raise _bad_pending(note_path, "cannot be read", noted) from error
    if not path.exists():
        if noted and expected[0]:
            raise _bad_pending(path, "is missing", noted)
        return []
    data = path.read_bytes()
    if noted and digests.of_bytes(data) != expected[1]:
        what = f"has changed since it was saved ({len(data):,} bytes)"
        raise _bad_pending(path, what, noted)
    batches: dict[int, dict[str, np.ndarray]] = {}
    try:
        with np.load(io.BytesIO(data)) as arrays:
            for key in arrays.files:
                number, name = key.split("/", 1)
                batches.setdefault(int(number), {})[name] = arrays[key]
    except (zipfile.BadZipFile, zlib.error, ValueError, KeyError, EOFError) as error:
        raise _bad_pending(path, f"cannot be read ({error})", noted) from error
    return [batches[number] for number in sorted(batches)]


def _bad_pending(path: epath.Path, what: str, noted: Any) -> UserError:
    count = noted.get("batches") if isinstance(noted, Mapping) else None
    batches = "the batches" if count is None else f"{count} batches"
    return UserError(
        f"{path} {what}. It held {batches} that were read ahead but not trained on yet: "
        "without them training would leave them out. Restore another step, or move "
        "this checkpoint away so that the run continues from an earlier one."
    )


def _method(iterator: Any, name: str) -> Any:
    if not hasattr(iterator, name):
        raise NotImplementedError(f"{type(iterator).__name__} has no {name}(path)")
    return getattr(iterator, name)


def prepare_train_iter(
    train_iter: Any,
    *,
    checkpoint_cfg: Any,
    partitioner: Any,
    data_layout: Any,
) -> PrefetchIterator:
    """Wraps what `get_dataset_fn` returned for the train loop.

    Args:
        train_iter: a `tf.data.Dataset`, a clu `DatasetIterator`, or an iterator of
            batches with `element_spec`.
        checkpoint_cfg, data_layout: part of the T5X signature.

    Raises:
        ValueError: another type.
    """
    del checkpoint_cfg, data_layout
    if is_tf_dataset(train_iter):
        train_iter = clu_iterators.TfDatasetIterator(
            _with_few_threads(train_iter), checkpoint=True
        )
    elif not (hasattr(train_iter, "__next__") and hasattr(train_iter, "element_spec")):
        raise UserError(
            f"get_dataset_fn returned unsupported type {type(train_iter)}; return a "
            "tf.data.Dataset, a clu DatasetIterator, or an iterator of dicts of numpy "
            "arrays with an `element_spec`."
        )
    return PrefetchIterator(ShardedDatasetIterator(train_iter, partitioner))


def _with_few_threads(dataset: Any) -> Any:
    """Keeps tf.data from crowding out XLA where both compute on the same cores."""
    if jax.default_backend() != "cpu":
        return dataset
    tensorflow = sys.modules["tensorflow"]
    options = tensorflow.data.Options()
    options.threading.private_threadpool_size = max(1, (os.cpu_count() or 1) // 4)
    options.threading.max_intra_op_parallelism = 1
    return dataset.with_options(options)
