"""The T5 network, compared with HF torch T5; its masks and its dropout."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch
from network_kit import TINY, apply, build, make_batch, parameter_shapes, run
from t5x.errors import UserError
from t5x.examples.t5 import layers, network

# Position biases. (Logits are compared in tests/models/test_t5_weights.py.)


@pytest.mark.parametrize("bidirectional", [True, False])
def test_position_buckets_equal_hf_torch(bidirectional):
    from transformers.models.t5.modeling_t5 import T5Attention

    positions = np.arange(-300, 301)
    theirs = T5Attention._relative_position_bucket(
        torch.tensor(positions), bidirectional, 32, 128
    ).numpy()
    ours = layers.relative_position_bucket(positions, bidirectional)
    traced = layers.relative_position_bucket(jnp.asarray(positions), bidirectional)
    assert ours.tolist() == theirs.tolist() == traced.tolist()


def test_position_biases_of_all_pairs_equal_those_by_position():
    module = layers.RelativePositionBiases(32, 128, num_heads=2, dtype=jnp.float32)
    variables = module.init(jax.random.key(0), 5, 9)
    table = np.asarray(variables["params"]["rel_embedding"])
    for bidirectional in (True, False):
        pairs = module.apply(variables, 5, 9, bidirectional)
        assert pairs.shape == (1, 2, 5, 9)
        relative = np.arange(9)[None] - np.arange(5)[:, None]
        buckets = layers.relative_position_bucket(relative, bidirectional)
        np.testing.assert_array_equal(pairs[0], table[:, buckets])
        rows = module.apply(
            variables, jnp.array([[3], [0]]), 9, bidirectional, method=module.at
        )
        np.testing.assert_array_equal(rows[:, :, 0], pairs[0, :, [3, 0]])


# Masks, padding, packing.


def test_decoder_mask_of_packed_prefix_examples():
    # Two examples of two inputs and one target, then padding.
    mask = layers.make_decoder_mask(
        jnp.array([[6, 7, 8, 3, 4, 5, 0]]),
        jnp.float32,
        decoder_causal_attention=jnp.array([[1, 1, 0, 1, 1, 0, 0]]),
        decoder_segment_ids=jnp.array([[1, 1, 1, 2, 2, 2, 0]]),
    )
    assert mask[0, 0].astype(int).tolist() == [
        [1, 1, 0, 0, 0, 0, 0], [1, 1, 0, 0, 0, 0, 0], [1, 1, 1, 0, 0, 0, 0],
        [0, 0, 0, 1, 1, 0, 0], [0, 0, 0, 1, 1, 0, 0], [0, 0, 0, 1, 1, 1, 0],
        [0, 0, 0, 0, 0, 0, 0],
    ]  # fmt: skip


def test_padding_changes_nothing():
    module, params = build(TINY)
    inputs, shifted, targets = make_batch(batch=1)
    logits = apply(module, params, inputs, shifted, targets)
    wider = [np.pad(x, ((0, 0), (0, 5))) for x in (inputs, shifted, targets)]
    padded = apply(module, params, *wider)
    np.testing.assert_allclose(padded[:, : targets.shape[1]], logits, atol=1e-5)


def test_packed_equals_unpacked():
    module, params = build(TINY)
    inputs, shifted, targets = make_batch(batch=2)
    separate = apply(module, params, inputs, shifted, targets)
    in_lengths, out_lengths = (inputs > 0).sum(1), (targets > 0).sum(1)

    def pack(rows, lengths):
        parts = [row[:n] for row, n in zip(rows, lengths, strict=True)]
        return np.concatenate([*parts, [0, 0]])[None]

    def segments(lengths):
        return pack([[1] * 99, [2] * 99], lengths)

    packed = apply(
        module, params, pack(inputs, in_lengths), pack(shifted, out_lengths),
        pack(targets, out_lengths), encoder_segment_ids=segments(in_lengths),
        decoder_segment_ids=segments(out_lengths),
        encoder_positions=pack(np.arange(99)[None].repeat(2, 0), in_lengths),
        decoder_positions=pack(np.arange(99)[None].repeat(2, 0), out_lengths),
    )[0]  # fmt: skip
    first, second = out_lengths
    np.testing.assert_allclose(packed[:first], separate[0, :first], atol=1e-4)
    np.testing.assert_allclose(
        packed[first : first + second], separate[1, :second], atol=1e-4
    )


def test_decoding_refuses_packed_inputs():
    module, params = build(TINY)
    inputs, shifted, targets = make_batch()
    with pytest.raises(ValueError, match="leave out encoder_segment_ids"):
        module.apply(
            {"params": params},
            inputs,
            shifted,
            targets,
            encoder_segment_ids=inputs > 0,
            enable_dropout=False,
            decode=True,
        )


# Dropout.


def dropout_key(seed):
    # Threefry, the default, compiles slowly.
    return jax.random.key(seed, impl="rbg")


def test_dropout_is_random_and_the_same_for_all_positions():
    config = dataclasses.replace(
        TINY, dropout_rate=0.5, num_encoder_layers=1, num_decoder_layers=1
    )
    module, params = build(config)
    batch = make_batch()
    still = apply(module, params, *batch)
    a, b, again = (
        run(module, {"params": params}, *batch, rngs={"dropout": dropout_key(k)})
        for k in (1, 2, 1)
    )
    np.testing.assert_array_equal(a, again)
    assert np.abs(a - b).max() > 0.1
    assert np.abs(a - still).max() > 0.1
    block = layers.MlpBlock(intermediate_dim=64, intermediate_dropout_rate=0.5)
    x = jnp.ones((2, 6, 4))
    y = block.init_with_output(
        {"params": dropout_key(0), "dropout": dropout_key(1)}, x
    )[0]
    np.testing.assert_array_equal(y, jnp.broadcast_to(y[:, :1], y.shape))
    assert np.abs(y[0] - y[1]).max() > 1e-3


def test_attention_dropout_keeps_the_expected_share_and_is_common_to_queries():
    query = jnp.zeros((64, 5, 1, 1))
    value = jnp.broadcast_to(jnp.eye(8)[None, :, None, :], (64, 8, 1, 8))
    out = layers.dot_product_attention(
        query,
        jnp.zeros((64, 8, 1, 1)),
        value,
        dropout_rng=dropout_key(0),
        dropout_rate=0.25,
    )
    np.testing.assert_array_equal(out, jnp.broadcast_to(out[:, :1], out.shape))
    kept = np.asarray(out[:, 0]) > 0
    np.testing.assert_allclose(out[:, 0][kept], 1 / 8 / 0.75, rtol=1e-6)
    assert 0.70 < kept.mean() < 0.80


def test_unknown_activation_is_named():
    config = dataclasses.replace(TINY, mlp_activations=("gleu",))
    with pytest.raises(UserError, match="mlp_activations names 'gleu'.*'gelu'"):
        parameter_shapes(network.Transformer(config))


def test_float32_attention_logits():
    # Logits 1000.0, 1000.1, ... are all 1000 in bfloat16.
    small = jnp.arange(8, dtype=jnp.bfloat16) / 10
    key = jnp.stack([jnp.full(8, 10, jnp.bfloat16), small], axis=-1)[None, :, None]
    query = jnp.array([100, 1], jnp.bfloat16)[None, None, None]
    value = small[None, :, None, None]
    coarse, fine = (
        layers.dot_product_attention(
            query, key, value, dtype=jnp.bfloat16, float32_logits=float32_logits
        )
        for float32_logits in (False, True)
    )
    assert coarse.dtype == fine.dtype == jnp.bfloat16
    values = np.asarray(small, np.float32)
    expected = np.average(values, weights=np.exp(values))
    assert float(fine[0, 0, 0, 0]) == pytest.approx(expected, rel=0.01)
    assert abs(float(coarse[0, 0, 0, 0]) - expected) > 0.02


def test_a_config_may_be_a_pytree():
    assert jax.tree.map(lambda x: None, TINY).num_heads is None
    assert jax.tree.map(lambda x: x, TINY) == TINY
