"""States and comparisons for tests of the trainer."""

import functools

import jax
import numpy as np
from t5x import partitioning
from t5x.checkpoint import state_init
from toy_run import TinyModel

TINY = TinyModel()


KEY = jax.random.PRNGKey(1)


def close(a, b, rtol=1e-4, atol=1e-5):
    """Asserts that two trees hold nearly the same numbers."""
    same = functools.partial(np.testing.assert_allclose, rtol=rtol, atol=atol)
    jax.tree.map(same, a, b)


def same_metrics(found, expected):
    close(found["loss"].total, expected["loss"].total)
    for name in ("accuracy", "loss_per_nonpadding_target_token"):
        close(found[name].compute(), expected[name].compute())


def make_state(model, batches):
    return make_initializer(model, batches).from_scratch(jax.random.PRNGKey(0))


def make_initializer(model, batches):
    spec = batches.element_spec
    return state_init.TrainStateInitializer(
        model.optimizer_def,
        model.get_initial_variables,
        {k: v.shape for k, v in spec.items()},
        partitioning.PjitPartitioner(num_partitions=1),
        {k: v.dtype for k, v in spec.items()},
    )
