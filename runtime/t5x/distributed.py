"""Helpers for multi-process runs; all are cheap or do nothing in a single process."""

import contextlib
from collections.abc import Iterator
from typing import Any

import jax
import numpy as np
from jax.experimental import multihost_utils
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from t5x.errors import UserError

PyTree = Any


def sync_global_devices(name: str) -> None:
    """Blocks until every process has reached the barrier called `name`."""
    if jax.process_count() > 1:
        multihost_utils.sync_global_devices(name)


def multihost_assert_equal(input_tree: PyTree, fail_message: str = "") -> None:
    """Raises AssertionError unless all processes hold the same `input_tree`."""
    if jax.process_count() > 1:
        multihost_utils.assert_equal(input_tree, fail_message)


def broadcast_one_to_all(input_tree: PyTree) -> PyTree:
    """Sends the values of process 0 to every process (numeric leaves)."""
    if jax.process_count() == 1:
        return input_tree
    return multihost_utils.broadcast_one_to_all(input_tree)


class _OtherFailedError(RuntimeError, UserError):
    """Error on processes that did not fail; the log of the failed process says more."""


def raise_if_any_failed(error: Exception | None) -> None:
    """Raises an error on every process if one of them failed; also a barrier.

    `error` is the error of this process, or None. Without this the others would wait
    forever in the next collective operation.
    """
    if jax.process_count() > 1:
        done = multihost_utils.process_allgather(np.int32(error is None))
        if error is None and not np.all(done):
            failed = np.flatnonzero(np.asarray(done) == 0).tolist()
            raise _OtherFailedError(f"Process {failed} failed; see its log.")
    if error is not None:
        raise error


@contextlib.contextmanager
def failing_together() -> Iterator[None]:
    """Calls `raise_if_any_failed` with the error of the context, if there is one."""
    error = None
    try:
        yield
    except Exception as found:  # noqa: BLE001 - raised on every process
        error = found
    raise_if_any_failed(error)


def greatest_of_all(x: np.ndarray) -> np.ndarray:
    """Returns the element-wise maximum of equally shaped arrays over all processes."""
    if jax.process_count() == 1:
        return x
    return np.max(multihost_utils.process_allgather(x), axis=0)


def get_local_data(x: Any) -> Any:
    """Returns the first addressable shard of a jax.Array as numpy, or `x` unchanged."""
    if isinstance(x, jax.Array):
        return np.asarray(x.addressable_data(0))
    return x


def fetch_global(x: Any) -> Any:
    """Returns the whole value of a jax.Array as numpy on every process, or `x` itself.

    The call is a collective operation if the array is sharded across processes.
    """
    if not isinstance(x, jax.Array):
        return x
    if x.is_fully_addressable or x.is_fully_replicated:
        return np.asarray(x)
    return np.asarray(multihost_utils.process_allgather(x, tiled=True))


def place(x: Any, sharding: NamedSharding) -> jax.Array:
    """Puts a whole array, the same on every process, on the devices of `sharding`."""
    if isinstance(x, jax.Array):
        if x.sharding.is_equivalent_to(sharding, x.ndim):
            return x
        if not x.is_fully_addressable:
            return jax.jit(lambda a: a, out_shardings=sharding)(x)
    if sharding.is_fully_addressable:
        return jax.device_put(x, sharding)
    value = np.asarray(x)
    return jax.make_array_from_callback(value.shape, sharding, lambda i: value[i])


def process_local_to_global(x: Any, sharding: NamedSharding) -> Any:
    """Joins this host's rows of a batch with the rows of the other hosts.

    A jax.Array that is already global stays as it is.
    """
    if isinstance(x, jax.Array) and not x.is_fully_addressable:
        return x
    return jax.make_array_from_process_local_data(sharding, np.asarray(x))


def host_local_array_to_global_array(
    arr_tree: PyTree, mesh: Mesh, pspecs: PyTree
) -> PyTree:
    """Converts host-local arrays to global ones; None as a spec means replicated."""
    pspecs = jax.tree.map(
        lambda spec: PartitionSpec() if spec is None else spec,
        pspecs,
        is_leaf=lambda spec: spec is None,
    )
    return multihost_utils.host_local_array_to_global_array(arr_tree, mesh, pspecs)
