"""A model trains on packed rows as on single examples."""

import jax
import model_kit
import numpy as np
import pytest
import seqio
import tensorflow as tf

from tests.support import grids

RNG = np.random.default_rng(0)


def examples(number=12):
    """Returns inputs and targets of 2 to 6 tokens, the last one EOS."""
    for _ in range(number):
        yield {
            name: np.append(RNG.integers(2, 20, RNG.integers(1, 6)), 1).astype(np.int32)
            for name in ("inputs", "targets")
        }


EXAMPLES = list(examples())
LENGTHS = {"inputs": 12, "targets": 10}


def batch_of(converter):
    dataset = tf.data.Dataset.from_generator(
        lambda: iter(EXAMPLES),
        output_signature=dict.fromkeys(LENGTHS, tf.TensorSpec((None,), tf.int32)),
    )
    converted = list(converter(dataset, LENGTHS).as_numpy_iterator())
    return {name: np.stack([row[name] for row in converted]) for name in converted[0]}


CONVERTERS = {
    "encoder-decoder": (seqio.EncDecFeatureConverter, model_kit.t5_model,
     model_kit.T5_PARAMS),
    "decoder-only": (seqio.PrefixLMFeatureConverter, model_kit.language_model,
     model_kit.LM_PARAMS),
}  # fmt: skip


@pytest.mark.parametrize("kind", grids.first(1, CONVERTERS))
def test_the_loss_is_that_of_single_examples(kind):
    """The gradients are equal too; the metrics report how full the rows are."""
    converter_cls, make_model, params = CONVERTERS[kind]
    packed = batch_of(converter_cls(pack=True))
    single = batch_of(converter_cls(pack=False))
    counts = [len(b["decoder_target_tokens"]) for b in (packed, single)]
    assert counts[0] < counts[1] == len(EXAMPLES)

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
