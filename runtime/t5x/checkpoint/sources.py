"""Readers of the orbax and legacy layouts, behind one interface.

A source offers the tree of the checkpoint with lazy leaves. Transformation functions
may rename, drop, or compute with them. `read` then fetches only the needed leaves, and
each process only its shards.
"""

import concurrent.futures
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import jax
import numpy as np
import orbax.checkpoint as ocp
import tensorstore as ts
from flax import serialization, traverse_util
from jax import numpy as jnp
from jax.sharding import NamedSharding
from jaxaug_base.files import check_folder, read_bytes
from jaxtyping import Array, Shaped

from t5x.checkpoint.folders import CheckpointLocation, quieten_orbax
from t5x.distributed import place
from t5x.errors import UserError

PyTree = Any
_READ_THREADS = 32


class LazyArray:
    """An array with known shape and dtype, whose values `get` fetches.

    State transformation functions may compute with it, as with a numpy array.
    """

    def __init__(
        self, shape: Sequence[int], dtype: Any, get_fn: Callable[[], np.ndarray]
    ):
        self.shape = tuple(int(n) for n in shape)
        self.dtype = jnp.dtype(dtype)
        self._get_fn = get_fn

    @property
    def ndim(self) -> int:
        """Number of dimensions."""
        return len(self.shape)

    @property
    def size(self) -> int:
        """Number of elements."""
        return int(np.prod(self.shape))

    def get(self) -> Shaped[np.ndarray, "..."]:
        """Fetches the values, cast to `dtype`."""
        return np.asarray(self._get_fn()).astype(self.dtype, copy=False)

    def astype(self, dtype: Any) -> "LazyArray":
        """Returns the same values in another dtype, still lazy."""
        return LazyArray(self.shape, dtype, self.get)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        value = np.asarray(self.get())
        return value if dtype is None else value.astype(dtype)

    def __repr__(self) -> str:
        return f"{type(self).__name__}(shape={self.shape}, dtype={self.dtype.name})"


class StoredArray(LazyArray):
    """One array of a checkpoint; `name` is its '/'-joined path on disk."""

    def __init__(self, name: str, shape: Sequence[int], dtype: Any, source: Any):
        super().__init__(shape, dtype, lambda: source.read({name: (self, None)})[name])
        self.name = name


# Key -> (StoredArray of the source to read, target sharding or None).
Requests = Mapping[str, tuple[Any, NamedSharding | None]]


def corrupt(path: Any, error: BaseException) -> UserError:
    """Returns the error for a checkpoint that exists but cannot be read."""
    text = f"{type(error).__name__}: {error}".strip(": \n")
    reason = text.splitlines()[0][:300]
    return UserError(
        f"Checkpoint {path} is damaged or incomplete, or cannot be read here "
        f"({reason}). Copy it again from where it came from, or restore another step: "
        "a run goes on from an earlier one once this folder is moved elsewhere."
    )


class OrbaxSource:
    """The `state/` folder written by orbax's PyTree handler.

    Its `tree` is a nested dict of LazyArray, None, and {} leaves.
    """

    def __init__(self, where: CheckpointLocation):
        self._root, self._path = where.root, where.state
        try:
            with _checkpointer() as checkpointer:
                metadata = checkpointer.metadata(self._path).item_metadata
            if metadata is None:
                raise ValueError(f"{self._path / '_METADATA'} cannot be read")
            metadata = metadata.tree
            flat = traverse_util.flatten_dict(metadata, keep_empty_nodes=True)
        except Exception as e:
            raise corrupt(self._root, e) from e
        self.tree = traverse_util.unflatten_dict(
            {path: self._leaf(path, entry) for path, entry in flat.items()}
        )

    def _leaf(self, path: tuple[str, ...], entry: Any) -> Any:
        if entry is traverse_util.empty_node or entry is None:
            return entry
        name = "/".join(path)
        shape, dtype = getattr(entry, "shape", ()), getattr(entry, "dtype", None)
        return StoredArray(name, shape or (), dtype or np.int32, self)

    def read(self, requests: Requests) -> dict[str, Any]:
        """Fetches arrays as stored: with the sharding, or as numpy arrays if None."""
        wanted: dict[str, tuple[Any, NamedSharding | None]] = {}
        for stored, sharding in requests.values():
            wanted.setdefault(stored.name, (stored, sharding))
        flat_args = {
            tuple(name.split("/")): _orbax_restore_args(stored, sharding)
            for name, (stored, sharding) in wanted.items()
        }
        args = traverse_util.unflatten_dict(flat_args)
        item = jax.tree.map(lambda _: 0, args)
        try:
            with _checkpointer() as checkpointer:
                restored = checkpointer.restore(
                    self._path,
                    args=ocp.args.PyTreeRestore(
                        item, restore_args=args, partial_restore=True
                    ),
                )
        except Exception as e:
            raise corrupt(self._root, e) from e
        values = traverse_util.flatten_dict(restored, sep="/")
        out = {}
        for key, (stored, sharding) in requests.items():
            value = values[stored.name]
            out[key] = value if sharding is None else place(value, sharding)
        return out


def _checkpointer() -> Any:
    quieten_orbax()
    return ocp.Checkpointer(ocp.PyTreeCheckpointHandler())


def _orbax_restore_args(stored: Any, sharding: NamedSharding | None) -> Any:
    if sharding is None or not stored.shape:
        # Scalars may have been saved as Python numbers, which orbax stores separately.
        return ocp.RestoreArgs(restore_type=np.ndarray)
    return ocp.ArrayRestoreArgs(sharding=sharding, global_shape=stored.shape)


def _is_spec(node: Any) -> bool:
    return isinstance(node, dict) and {"driver", "kvstore", "metadata"} <= set(node)


class LegacySource:
    """A msgpack file whose large leaves are TensorStore specs of zarr folders."""

    def __init__(self, where: CheckpointLocation):
        self._root, self._folder = where.root, where.state.parent
        try:
            contents = serialization.msgpack_restore(read_bytes(where.state))
        except Exception as e:
            raise corrupt(where.state, e) from e
        version = contents.get("version", 0) if isinstance(contents, dict) else 0
        if version < 2 or "optimizer" not in contents:
            raise UserError(
                "Checkpoint versions earlier than 2 are not supported. Got version: "
                f"{version} in {where.state}. Convert it with the T5X release that "
                "wrote it."
            )
        self._version = version
        self._specs: dict[str, dict[str, Any]] = {}
        self._inline: dict[str, Any] = {}
        flat = dict(self._flatten(contents["optimizer"], ()))
        self.tree = traverse_util.unflatten_dict(flat)

    def _flatten(
        self, node: Any, path: tuple[str, ...]
    ) -> Iterator[tuple[tuple[str, ...], Any]]:
        if isinstance(node, dict) and not _is_spec(node):
            if not node and path:
                yield path, traverse_util.empty_node
            for key, child in node.items():
                yield from self._flatten(child, (*path, key))
        elif node is None:
            yield path, None
        else:
            yield path, self._leaf("/".join(path), node)

    def _leaf(self, name: str, node: Any) -> StoredArray:
        if _is_spec(node):
            self._specs[name] = node
            dtype = node.get("dtype") or node["metadata"].get("dtype", "<f4")
            return StoredArray(
                name, node["metadata"]["shape"], self._dtype(name, dtype), self
            )
        self._inline[name] = value = np.asarray(node)
        return StoredArray(name, value.shape, self._dtype(name, value.dtype), self)

    def _dtype(self, name: str, dtype: Any) -> np.dtype:
        try:
            dtype = jnp.dtype(dtype)
        except TypeError as error:
            raise UserError(
                f"{name} in {self._root} has the unknown dtype {dtype!r:.80}. Save the "
                "checkpoint again in float32 or bfloat16."
            ) from error
        if dtype != np.uint16:
            return dtype
        if self._version > 2:
            raise UserError(
                f"{name} in {self._root} has dtype uint16, which version "
                f"{self._version} checkpoints do not use: save it as bfloat16."
            )
        return jnp.dtype(jnp.bfloat16)

    def read(self, requests: Requests) -> dict[str, Any]:
        with concurrent.futures.ThreadPoolExecutor(_READ_THREADS) as pool:
            jobs = {k: pool.submit(self._read_one, *r) for k, r in requests.items()}
            return {key: job.result() for key, job in jobs.items()}

    def _read_one(self, stored: StoredArray, sharding: NamedSharding | None) -> Any:
        if stored.name in self._inline:
            value = self._inline[stored.name]
            if value.dtype == np.uint16:
                value = value.view(stored.dtype)
            return value if sharding is None else place(value, sharding)
        try:
            array = ts.open(
                _read_spec(self._specs[stored.name], self._folder), open=True
            ).result()
            if sharding is None:
                return self._slice(array, stored, ...)
            return jax.make_array_from_callback(
                stored.shape, sharding, lambda index: self._slice(array, stored, index)
            )
        except UserError:
            raise
        except Exception as e:
            raise corrupt(f"{self._folder} (array {stored.name})", e) from e

    def _slice(
        self, array: Any, stored: StoredArray, index: Any
    ) -> Shaped[Array, "..."]:
        if tuple(array.shape) != stored.shape:
            raise UserError(
                f"Shape of {stored.name} in {self._folder} is {tuple(array.shape)} in "
                f"its zarr folder but {stored.shape} in the msgpack file: the "
                "checkpoint is damaged."
            )
        value = array[index].read().result()
        return value.view(stored.dtype) if value.dtype == np.uint16 else value


CheckpointSource = OrbaxSource | LegacySource


def open_source(where: CheckpointLocation) -> CheckpointSource:
    """Opens an orbax or legacy checkpoint."""
    try:
        check_folder(where.root)
    except OSError as error:
        raise corrupt(where.root, error) from error
    return OrbaxSource(where) if where.layout == "orbax" else LegacySource(where)


def _read_spec(stored_spec: Mapping[str, Any], folder: Any) -> dict[str, Any]:
    """Returns the spec to open an array in the current folder of the checkpoint.

    The stored driver, bucket, and folder describe where it was written. A missing chunk
    is an error: T5X arrays have no fill value, so every chunk was written.
    """
    kvstore = stored_spec["kvstore"]
    relative = kvstore.get("path") or stored_spec.get("path")
    if not relative:
        raise UserError(
            f"TensorStore spec without a path in the checkpoint {folder}: "
            f"{stored_spec}."
        )
    name = os.path.basename(os.path.normpath(relative))
    return {
        "driver": stored_spec["driver"],
        "kvstore": kvstore_for(folder, name),
        "fill_missing_data_reads": False,
    }


def kvstore_for(folder: Any, name: str) -> dict[str, str]:
    """Returns the TensorStore key-value store of an array in a folder."""
    path = os.fspath(folder)
    if path.startswith("gs:/"):
        bucket, _, prefix = path[len("gs:/") :].lstrip("/").partition("/")
        return {"driver": "gcs", "bucket": bucket, "path": f"{prefix}/{name}/"}
    return {"driver": "file", "path": os.path.join(os.path.abspath(path), name) + "/"}
