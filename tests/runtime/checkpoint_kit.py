"""A small train state and checkpoint managers of both layouts, for checkpoint tests."""

import pathlib

import jax
import numpy as np
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


def make_manager(layout, folder, iterator=None, partitioner=PARTITIONER, **kwargs):
    if layout == "orbax":
        return checkpoints.OrbaxCheckpointManagerInterface(
            str(folder), make_state(), partitioner, iterator, **kwargs
        )
    cls = checkpoints.Checkpointer
    if "metric_name_to_monitor" in kwargs:
        cls = checkpoints.SaveBestCheckpointer
    return cls(make_state(), partitioner, str(folder), iterator, **kwargs)


def wait(manager):
    if hasattr(manager, "wait_until_finished"):
        manager.wait_until_finished()


def save_steps(manager, *steps):
    for step in steps:
        manager.save(make_state(step, seed=step))
    wait(manager)


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
