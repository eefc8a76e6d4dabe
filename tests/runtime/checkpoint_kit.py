"""A small train state, its checkpoint manager, and a writer of the legacy layout."""

import pathlib

import jax
import numpy as np
import tensorstore as ts
from flax import serialization, traverse_util
from flax.linen import partitioning as flax_partitioning
from jax import numpy as jnp
from t5x import adafactor, checkpoints, train_state
from t5x.partitioning import PjitPartitioner


def make_state(step=3, seed=0, width=4):
    key = jax.random.PRNGKey(seed)
    optimizer = adafactor.Adafactor(
        0.1,
        min_dim_size_to_factor=4,
        logical_factor_rules=adafactor.standard_logical_factor_rules(),
    )
    kernel = jax.random.normal(key, (width, 8)) / 3
    variables = {
        "params": {"layer": {"kernel": kernel, "scale": jnp.ones(width) / 3}},
        "params_axes": {
            "layer": {
                "kernel_axes": flax_partitioning.AxisMetadata(("embed", "mlp")),
                "scale_axes": flax_partitioning.AxisMetadata(("embed",)),
            }
        },
    }
    state = train_state.FlaxOptimTrainState.create(optimizer, variables)
    grads = jax.tree.map(lambda x: x * 2 + 1, state.params)
    state = state.apply_gradient(grads, learning_rate=0.1)
    return state.replace_step(jnp.asarray(step, jnp.int32))


PARTITIONER = PjitPartitioner(num_partitions=1)


def make_manager(folder, iterator=None, partitioner=PARTITIONER, **kwargs):
    return checkpoints.OrbaxCheckpointManagerInterface(
        str(folder), make_state(), partitioner, iterator, **kwargs
    )


def save_steps(manager, *steps):
    for step in steps:
        manager.save(make_state(step, seed=step))
    manager.wait_until_finished()


def write_legacy(folder, state, arrays=(), kvstore=None, version=3):
    """Writes a state as upstream T5X does.

    Args:
        folder: `checkpoint_N`, which must not exist.
        state: train state.
        arrays: names of the arrays in zarr folders; the others are inline.
        kvstore: key-value store in the file; default: the folder as it is.
        version: version in the file.
    """
    folder = pathlib.Path(folder)
    folder.mkdir(parents=True)
    flat = traverse_util.flatten_dict(
        jax.tree.map(np.asarray, state.state_dict()), keep_empty_nodes=True, sep="/"
    )
    for name in arrays:
        value, place = flat[name], name.replace("/", ".")
        # T5X wrote bfloat16 as uint16 in version 2.
        dtype = "uint16" if value.dtype == np.uint16 else value.dtype.name
        spec = {
            "driver": "zarr",
            "dtype": dtype,
            "metadata": {
                "chunks": [n // 2 for n in value.shape],
                "compressor": {"id": "gzip", "level": 1},
                "shape": list(value.shape),
            },
        }
        location = {"driver": "file", "path": f"{folder / place}/"}
        store = ts.open({**spec, "kvstore": location}, create=True).result()
        store.write(value).result()
        flat[name] = {**spec, "kvstore": {"driver": "file", "path": f"{place}/"}}
        if kvstore is not None:
            flat[name] |= kvstore(f"{place}/")
    tree = traverse_util.unflatten_dict(flat, sep="/")
    (folder / "checkpoint").write_bytes(
        serialization.msgpack_serialize({"version": version, "optimizer": tree})
    )


def assert_same_state(a, b):
    def same(x, y):
        assert jnp.asarray(x).dtype == jnp.asarray(y).dtype
        np.testing.assert_array_equal(np.asarray(x), np.asarray(y))

    jax.tree.map(same, a.state_dict(), b.state_dict())


def folders(path):
    return sorted(p.name for p in pathlib.Path(path).iterdir())


class Iterator:
    """Counts; its position is one number in one file."""

    def __init__(self, error=None):
        self.position = 0
        self.error = error
        self.saves = 0

    def __next__(self):
        self.position += 1
        return self.position

    def save(self, path):
        self.saves += 1
        pathlib.Path(f"{path}.index").write_text(str(self.position))
        if self.error:
            raise self.error

    def restore(self, path):
        self.position = int(pathlib.Path(f"{path}.index").read_text())
