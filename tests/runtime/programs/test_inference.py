"""get_infer_fn: order, padding, keys, and auxiliary values."""

import functools
from collections import namedtuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from t5x import partitioning
from t5x.errors import UserError
from t5x.inference.runner import _padded_batches, get_infer_fn
from t5x.partitioning import DataLayout

State = namedtuple("State", ["params", "flax_mutables"])
STATE = State({"w": jnp.float32(10.0)}, {})
AXES = State({"w": None}, {})


class Examples(list):
    """An enumerated dataset of known length, without TensorFlow."""


def examples(length, order=None):
    rows = [(i, {"x": np.full(3, i, np.int32)}) for i in range(length)]
    return Examples(rows if order is None else [rows[i] for i in order])


def infer_fn(step, batch_size=4, **kwargs):
    partitioner = partitioning.PjitPartitioner(num_partitions=1)
    return get_infer_fn(step, batch_size, AXES, partitioner, **kwargs)


@pytest.mark.parametrize("length", [0, 1, 4, 6, 8])
def test_results_in_index_order_without_the_padding(length):
    def step(params, batch):
        return batch["x"] * params["w"].astype(jnp.int32)

    shuffled = np.random.default_rng(0).permutation(length)
    for ds in (examples(length), examples(length, shuffled)):
        found = infer_fn(step)(ds, STATE)
        assert found == [(i, [10 * i] * 3) for i in range(length)]
        assert all(type(v) is int for _, row in found for v in row)


def test_auxiliary_values():
    def step(params, batch):
        return batch["x"], {"scores": batch["x"][:, 0] / 2.0, "deep": {"x": batch["x"]}}

    found, aux = infer_fn(step)(examples(5), STATE)
    assert found == [(i, [i] * 3) for i in range(5)]
    assert aux == {
        "scores": [0.0, 0.5, 1.0, 1.5, 2.0],
        "deep": {"x": [[i] * 3 for i in range(5)]},
    }
    _, aux = infer_fn(step, keep_aux_as_numpy=True)(examples(5), STATE)
    assert isinstance(aux["deep"]["x"], list)
    assert isinstance(aux["deep"]["x"][4], np.ndarray)


def test_results_may_be_trees():
    def step(params, batch):
        return {"a": batch["x"][:, 0], "b": (batch["x"],)}

    found = infer_fn(step)(examples(2), STATE)
    assert found == [(0, {"a": 0, "b": ([0] * 3,)}), (1, {"a": 1, "b": ([1] * 3,)})]


def test_the_key_is_split_once_a_batch():
    def step(params, batch, rng):
        return jnp.broadcast_to(jax.random.uniform(rng), batch["x"].shape[:1])

    rng = jax.random.PRNGKey(7)
    found = infer_fn(step)(examples(6), STATE, rng=rng)
    expected = []
    for rows in (4, 2):
        step_rng, rng = jax.random.split(rng)
        expected += [float(jax.random.uniform(step_rng))] * rows
    np.testing.assert_allclose([v for _, v in found], expected, rtol=1e-6)


def test_a_step_without_rng_gets_none():
    found = infer_fn(lambda params, batch: batch["x"][:, 0])(
        examples(3), STATE, rng=jax.random.PRNGKey(0)
    )
    assert found == [(0, 0), (1, 1), (2, 2)]


def test_flax_mutables_are_passed_by_name():
    def step(params, batch, flax_mutables):
        return batch["x"][:, 0] + flax_mutables["n"].astype(jnp.int32)

    partitioner = partitioning.PjitPartitioner(num_partitions=1)
    fn = get_infer_fn(step, 4, State({"w": None}, {"n": None}), partitioner)
    state = State(STATE.params, {"n": jnp.float32(100)})
    assert fn(examples(2), state) == [(0, 100), (1, 101)]


def test_a_dataset_that_is_not_enumerated():
    with pytest.raises(ValueError, match="returned 2 results; their indices are not"):
        infer_fn(lambda params, batch: batch["x"])(Examples(examples(4)[2:]), STATE)


@pytest.mark.parametrize("length", [1, 5, 8, 9])
def test_all_shards_have_as_many_batches(length):
    ds = examples(length)
    shards = [
        list(_padded_batches(ds, length, 8, DataLayout(8, shard, 2, True)))
        for shard in range(2)
    ]
    assert len(shards[0]) == len(shards[1]) == -(-length // 8)
    indices = np.concatenate([i for shard in shards for i, _ in shard])
    assert sorted(indices[indices >= 0]) == list(range(length))
    for shard in shards:
        for index, batch in shard:
            assert index.shape == (4,)
            assert batch["x"].shape == (4, 3)
            # Padding repeats the first example.
            np.testing.assert_array_equal(
                batch["x"][:, 0], np.where(index >= 0, index, 0)
            )


def test_a_tf_dataset_gives_the_same():
    import tensorflow as tf

    ds = tf.data.Dataset.from_tensor_slices({"x": np.arange(7)}).enumerate()
    found = infer_fn(lambda params, batch: batch["x"] * 2)(ds, STATE)
    assert found == [(i, 2 * i) for i in range(7)]


@pytest.mark.parametrize("method", ["predict_batch", "predict_batch_with_aux"])
def test_predictions_of_a_model_whose_logits_are_nan_are_an_error(method):
    class Model:
        decode_fn = None

        def predict_batch(self, params, batch):
            return jnp.where(batch["x"] == 4, jnp.array([3, -1, 0]), batch["x"])

        def predict_batch_with_aux(self, params, batch):
            return self.predict_batch(params, batch), {"scores": batch["x"][:, 0] + 0.5}

    step = getattr(Model(), method)
    with pytest.raises(
        UserError, match=r"step 1 \(counted from 0\) of row 4: the logits"
    ):
        infer_fn(step)(examples(6), STATE)
    infer_fn(functools.partial(step))(examples(4), STATE)
    # Another step may return any values.
    assert (
        infer_fn(lambda params, batch: -batch["x"])(examples(2), STATE)[1][1]
        == [-1] * 3
    )
