"""Packed rows: what is in them, and that a model trains on them as on single examples."""

import jax
import model_kit
import numpy as np
import pytest
import seqio
import tensorflow as tf
from t5x.feed import packed_converters, packing

RNG = np.random.default_rng(0)


def test_every_example_is_in_one_row_that_has_room():
    lengths = RNG.integers(1, 40, (200, 2))
    room = np.array([60, 45])
    rows = packing.assign(lengths, room)
    assert sorted(example for row in rows for example in row) == list(range(200))
    assert all((lengths[row].sum(axis=0) <= room).all() for row in rows)
    assert rows == sorted(sorted(row) for row in rows)
    # No packing needs fewer rows than the tokens of the fuller feature fill.
    least = np.ceil((lengths.sum(axis=0) / room).max())
    assert least <= len(rows) < 1.1 * least


def test_rows_of_few_examples():
    """4 + 2 and 3 + 3 fill two rows of 6; in the given order they would need three."""
    examples = [{"a": np.arange(n, dtype=np.int32) + 10 * n} for n in (4, 3, 2, 3)]
    packed = packing.pack(examples, {"a": 6})
    assert packed["a"].tolist() == [[40, 41, 42, 43, 20, 21], [30, 31, 32, 30, 31, 32]]
    assert packed["a_segment_ids"].tolist() == [[1, 1, 1, 1, 2, 2], [1, 1, 1, 2, 2, 2]]
    assert packed["a_positions"].tolist() == [[0, 1, 2, 3, 0, 1], [0, 1, 2, 0, 1, 2]]


def test_what_is_too_long_is_cut_off():
    packed = packing.pack([{"a": np.arange(1, 9)}, {"a": np.array([7])}], {"a": 4})
    assert packed["a"].tolist() == [[1, 2, 3, 4], [7, 0, 0, 0]]


def examples(number=12):
    """Inputs and targets of 2 to 6 tokens, the last one EOS."""
    for _ in range(number):
        yield {
            name: np.append(RNG.integers(2, 20, RNG.integers(1, 6)), 1).astype(np.int32)
            for name in ("inputs", "targets")
        }


EXAMPLES = list(examples())
LENGTHS = {"inputs": 12, "targets": 10}


def batch_of(converter, rows=None):
    dataset = tf.data.Dataset.from_generator(
        lambda: iter(EXAMPLES),
        output_signature=dict.fromkeys(LENGTHS, tf.TensorSpec((None,), tf.int32)),
    )
    converted = list(converter(dataset, LENGTHS).as_numpy_iterator())
    return {name: np.stack([row[name] for row in converted]) for name in converted[0]}


CONVERTERS = {
    "encoder-decoder": (
        packed_converters.enc_dec,
        seqio.EncDecFeatureConverter,
        model_kit.t5_model,
        model_kit.T5_PARAMS,
    ),
    "decoder-only": (
        packed_converters.prefix_lm,
        seqio.PrefixLMFeatureConverter,
        model_kit.language_model,
        model_kit.LM_PARAMS,
    ),
}


@pytest.mark.parametrize("kind", CONVERTERS)
def test_the_loss_is_that_of_single_examples(kind):
    """And so are the gradients; the metrics tell how full the rows are."""
    packed_cls, plain_cls, make_model, params = CONVERTERS[kind]
    packed = batch_of(packed_cls(pack=True))
    single = batch_of(plain_cls(pack=False))
    by_seqio = batch_of(plain_cls(pack=True))
    counts = [len(b["decoder_target_tokens"]) for b in (packed, by_seqio, single)]
    assert counts[0] <= counts[1] < counts[2] == len(EXAMPLES)
    assert {name: v.dtype for name, v in packed.items()} == {
        name: v.dtype for name, v in by_seqio.items()
    }

    model = make_model()
    step = jax.jit(jax.value_and_grad(model.loss_fn, has_aux=True), static_argnums=2)
    (loss, metrics), gradients = step(params(), packed, None)
    (expected, _), of_single = step(params(), single, None)
    np.testing.assert_allclose(loss, expected, rtol=1e-5)
    jax.tree.map(
        lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-3, atol=1e-4),
        gradients,
        of_single,
    )
    fraction = np.mean(packed["decoder_segment_ids"] != 0)
    name = "non_padding_fraction/decoder"
    np.testing.assert_allclose(metrics[name].compute(), fraction, rtol=1e-6)
    size = metrics["effective_batch_size/decoder"].compute()
    assert size == len(EXAMPLES)


def test_an_iterator_goes_on_where_it_was_saved(tmp_path):
    def iterator():
        numbers = tf.data.Dataset.range(1, 40).map(
            lambda n: {"a": tf.fill([n % 5 + 1], tf.cast(n, tf.int32))}
        )
        return iter(packed_converters.pack_dataset(numbers, {"a": 8}, window=6))

    whole = [row["a"].numpy().tolist() for row in iterator()]
    assert sorted({n for row in whole for n in row} - {0}) == list(range(1, 40))
    first = iterator()
    begun = [next(first)["a"].numpy().tolist() for _ in range(5)]
    saved = tf.train.Checkpoint(iterator=first).save(str(tmp_path / "at"))
    second = iterator()
    tf.train.Checkpoint(iterator=second).restore(saved)
    assert begun + [row["a"].numpy().tolist() for row in second] == whole
