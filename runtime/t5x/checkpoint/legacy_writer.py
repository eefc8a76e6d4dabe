"""Writes arrays in the legacy layout: zarr folders through TensorStore."""

import concurrent.futures
import math
from collections.abc import Mapping, Sequence
from typing import Any

import jax
import numpy as np
import tensorstore as ts

from t5x.checkpoint.lazy_array import LazyArray
from t5x.checkpoint.sources import kvstore_for
from t5x.checkpoint.state_dict import ParameterInfo, is_target, to_dtype, unflatten
from t5x.distributed import fetch_global, sync_global_devices

_MAX_CHUNK_BYTES = 64 * 2**20
_WRITE_THREADS = 32


def choose_chunk_shape(shape: Sequence[int], max_elements: int) -> list[int]:
    """Divides `shape` into equal chunks, largest dimension first.

    Returns:
        A shape that divides `shape`, with at most `max_elements` elements.
    """
    chunk = list(shape)
    while math.prod(chunk) > max_elements:
        i = max(range(len(chunk)), key=lambda d: chunk[d])
        chunk[i] //= next(f for f in range(2, chunk[i] + 1) if chunk[i] % f == 0)
    return chunk


def _array_spec(folder: str, name: str, array: Any, dtype: np.dtype) -> dict[str, Any]:
    """Returns a TensorStore spec with a relative path, for the msgpack file."""
    shape = tuple(array.shape)
    if isinstance(array, jax.Array):
        # Two processes must not write to the same chunk.
        shape = array.sharding.shard_shape(shape)
    on_store = folder.startswith("gs:/")
    location = {"driver": "gcs", "bucket": "t5x-dummy-bucket"} if on_store else {}
    return {
        "driver": "zarr",
        "dtype": dtype.name,
        "kvstore": {"driver": "file", **location, "path": name.replace("/", ".") + "/"},
        "metadata": {
            "chunks": choose_chunk_shape(shape, _MAX_CHUNK_BYTES // dtype.itemsize),
            "compressor": {"id": "gzip", "level": 1},
            "shape": list(array.shape),
        },
    }


def _write_array(folder: str, spec: Mapping[str, Any], array: Any) -> None:
    """Writes the parts of `array` that this process is responsible for."""
    name = spec["kvstore"]["path"].rstrip("/")
    located = {**spec, "kvstore": kvstore_for(folder, name)}
    store = ts.open(located, open=True).result()
    dtype = np.dtype(store.dtype.numpy_dtype)
    if isinstance(array, jax.Array):
        parts = [
            (s.index, s.data) for s in array.addressable_shards if s.replica_id == 0
        ]
    else:
        parts = [(..., array)] if jax.process_index() == 0 else []
    for index, data in parts:
        store[index].write(np.asarray(data).astype(dtype, copy=False)).result()


class LegacyWriter:
    """Writes one state into an unfinished checkpoint folder."""

    def __init__(self, folder: str, save_dtype: Any):
        self._folder = folder
        self._save_dtype = to_dtype(save_dtype)

    def _dtype(self, name: str, array: Any) -> np.dtype:
        if self._save_dtype is not None and is_target(name):
            return self._save_dtype
        return np.dtype(array.dtype)

    def write(
        self, flat: Mapping[str, Any], infos: Mapping[str, ParameterInfo | None]
    ) -> dict[str, Any]:
        """Writes zarr folders; returns the tree for the msgpack file."""
        out: dict[str, Any] = {}
        arrays: dict[str, Any] = {}
        for name, leaf in flat.items():
            if isinstance(leaf, LazyArray):
                leaf = leaf.get()
            info = infos.get(name)
            if not hasattr(leaf, "dtype"):
                out[name] = leaf
            elif isinstance(info, ParameterInfo) and info.axes is not None:
                arrays[name] = leaf
                dtype = self._dtype(name, leaf)
                out[name] = _array_spec(self._folder, name, leaf, dtype)
            else:
                value = np.asarray(fetch_global(leaf))
                out[name] = value.astype(self._dtype(name, value), copy=False)
        self._create(out, arrays)
        with concurrent.futures.ThreadPoolExecutor(_WRITE_THREADS) as pool:
            jobs = [
                pool.submit(_write_array, self._folder, out[name], array)
                for name, array in arrays.items()
            ]
            for job in jobs:
                job.result()
        return unflatten(out)

    def _create(self, specs: Mapping[str, Any], arrays: Mapping[str, Any]) -> None:
        if jax.process_index() == 0:
            for name in arrays:
                spec = specs[name]
                file_name = spec["kvstore"]["path"].rstrip("/")
                located = {**spec, "kvstore": kvstore_for(self._folder, file_name)}
                ts.open(located, create=True, open=True).result()
        sync_global_devices(f"legacy_checkpoint:created:{self._folder}")
