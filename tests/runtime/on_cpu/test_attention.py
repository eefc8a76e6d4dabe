"""Attention in blocks equals the plain softmax, gradients included."""

import dataclasses
import functools
import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from t5x.examples.t5 import fused_attention
from t5x.on_cpu import attention, features

from jaxaug.models import llama
from tests.runtime import network_kit
from tests.support import grids

BATCH, DIM, SCALE = 2, 8, 0.3


@pytest.fixture
def small_blocks(monkeypatch):
    """Limits blocks to 32 positions, for short sequences."""
    monkeypatch.setattr(attention, "_BLOCK", 32)
    monkeypatch.setattr(attention, "_LEAST_PAIRS", 1)
    monkeypatch.setattr(attention, "_LEAST_BIASED", 1)
    monkeypatch.setattr(attention, "_LEAST_BIASED_MANY_CORES", 1)
    monkeypatch.setattr(attention, "_LEAST_QUERIES", 1)


def drawn(*shape):
    return np.random.default_rng(sum(shape)).standard_normal(shape).astype(np.float32)


def plain(query, key, value, bias, mask):
    """Equation 1 of Vaswani et al. (2017), head by head; hidden queries give 0."""
    heads = query.shape[2] // key.shape[2]
    key, value = (jnp.repeat(x, heads, axis=2) for x in (key, value))
    logits = SCALE * jnp.einsum("bqhd,bkhd->bhqk", query, key)
    if bias is not None:
        logits += bias
    # The gradient of a maximum is NaN where XLA rounds the logits in another way than
    # for the maximum, so that none equals it: jaxlib 0.12 without optimizations does.
    top = lax.stop_gradient(logits.max(-1, keepdims=True))
    weights = jnp.exp(logits - top)
    if mask is not None:
        weights = weights * (mask > 0)
    total = weights.sum(-1, keepdims=True)
    weights = jnp.where(total > 0, weights / jnp.where(total > 0, total, 1), 0)
    return jnp.einsum("bhqk,bkhd->bqhd", weights, value)


def causal(queries, keys):
    return (np.arange(queries)[:, None] >= np.arange(keys))[None, None]


def packed(queries, keys):
    """Returns a causal mask of packed examples of different lengths, with padding."""
    del keys
    segments = np.repeat([[1, 2, 3, 0], [1, 2, 0, 0]], queries // 4 + 1, 1)[:, :queries]
    same = segments[:, :, None] == segments[:, None]
    seen = same & (segments[:, :, None] > 0)
    return seen[:, None] & causal(queries, queries)


def window(queries, keys):
    near = np.abs(np.arange(queries)[:, None] - np.arange(keys)) < 9
    return near[None, None] & causal(queries, keys)


def keys_of_rows(queries, keys):
    """Returns one mask row for all queries."""
    del queries
    return (np.arange(keys) < np.array([[keys], [keys // 3]]))[:, None, None]


MASKS = [None, causal, packed, window, keys_of_rows]
# Lengths that are multiples of blocks, and others.
LENGTHS = [(64, 64), (45, 77)]
SHORT = [
    (None, LENGTHS[0], True), (causal, LENGTHS[1], True), (packed, LENGTHS[0], False),
    (window, LENGTHS[1], False), (keys_of_rows, LENGTHS[0], True),
]  # fmt: skip
CASES = [
    (mask, lengths, with_bias)
    for mask, lengths, with_bias in itertools.product(MASKS, LENGTHS, (False, True))
    if (mask is not packed or lengths[0] == lengths[1])
    and (mask, lengths, with_bias) not in SHORT
]


@pytest.mark.parametrize("mask, lengths, with_bias", grids.first(5, [*SHORT, *CASES]))
def test_values_and_gradients(small_blocks, mask, lengths, with_bias):
    queries, keys = lengths
    heads, kv_heads = 4, 2
    arrays = {
        "query": drawn(BATCH, queries, heads, DIM),
        "key": drawn(BATCH, keys, kv_heads, DIM),
        "value": drawn(BATCH, keys, kv_heads, DIM),
        "bias": drawn(1, heads, queries, keys) if with_bias else None,
    }
    seen = None if mask is None else jnp.asarray(mask(queries, keys), jnp.float32)
    above = drawn(BATCH, queries, heads, DIM)

    def both(attend):
        def function(arrays):
            out = attend(**arrays, mask=seen)
            return jnp.sum(out * above), out

        gradient = jax.value_and_grad(function, has_aux=True)
        (_, out), gradients = jax.jit(gradient)(arrays)
        return out, gradients

    found = both(functools.partial(attention.attend, scale=SCALE))
    expected = both(plain)
    close = functools.partial(np.testing.assert_allclose, rtol=1e-5, atol=2e-5)
    jax.tree.map(close, found, expected)


def test_hidden_blocks_are_not_computed(small_blocks):
    """Values there would spoil the sums, whatever their weight."""
    length = 96
    x = drawn(1, length, 2, DIM)
    spoilt = x.copy()
    spoilt[:, 64:] = np.nan
    mask = causal(length, length)
    attend = functools.partial(attention.attend, mask=mask, scale=SCALE)
    found = jax.jit(attend)(x, spoilt, spoilt)
    expected = plain(x, x, x, None, mask)
    np.testing.assert_allclose(found[:, :64], expected[:, :64], atol=1e-5)
    assert np.isnan(found[:, 64:]).all()


def test_sums_of_16_bit_factors_are_float32(small_blocks):
    query, key, value = (
        jnp.asarray(drawn(1, 64, h, DIM), jnp.bfloat16) for h in (4, 2, 2)
    )
    mask = causal(64, 64)
    found = attention.attend(query, key, value, None, mask, scale=SCALE)
    assert found.dtype == jnp.bfloat16
    wide = (x.astype(jnp.float32) for x in (query, key, value))
    np.testing.assert_allclose(
        np.float32(found), plain(*wide, None, mask), rtol=0.02, atol=0.02
    )


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({}, True),
        ({"dtype": jnp.bfloat16}, True),
        ({"dtype": jnp.float16}, False),
        ({"queries": 60}, False),
        ({"queries": 16, "keys": 4096}, False),
        ({"key_rows": 1}, False),
        ({"bias_rows": 2}, False),
        ({"devices": 2}, False),
        ({"backend": "gpu"}, False),
    ],
)
def test_cases_that_use_blocks(monkeypatch, change, expected):
    values = {
        "dtype": jnp.float32, "queries": 512, "keys": 512, "key_rows": 2,
        "bias_rows": 1, "devices": 1, "backend": "cpu", **change,
    }  # fmt: skip
    monkeypatch.setattr(jax, "device_count", lambda: values["devices"])
    monkeypatch.setattr(jax, "default_backend", lambda: values["backend"])
    monkeypatch.setattr(features, "cores", lambda: 1)
    query = jax.ShapeDtypeStruct((2, values["queries"], 4, 64), values["dtype"])
    key = jax.ShapeDtypeStruct((values["key_rows"], values["keys"], 2, 64), query.dtype)
    bias = jax.ShapeDtypeStruct((values["bias_rows"], 4, 512, 512), query.dtype)
    assert attention.possible(query, key, bias) is expected
    if values["bias_rows"] == 1 and values["backend"] == "cpu":
        assert fused_attention.possible(query, key) is expected


@pytest.mark.parametrize("dtype", [jnp.float32, jnp.bfloat16])
def test_a_bias_in_float32_needs_more_pairs(dtype):
    query = key = jax.ShapeDtypeStruct((2, 256, 4, 64), dtype)
    assert attention.possible(query, key)
    bias = jax.ShapeDtypeStruct((1, 4, 256, 256), dtype)
    assert attention.possible(query, key, bias) is (dtype == jnp.bfloat16)


@pytest.mark.parametrize(
    ("cores", "length", "expected"), [(1, 512, True), (2, 512, False), (2, 1024, True)]
)
def test_a_bias_in_float32_needs_more_pairs_on_several_cores(
    monkeypatch, cores, length, expected
):
    monkeypatch.setattr(features, "cores", lambda: cores)
    query = key = jax.ShapeDtypeStruct((2, length, 4, 64), jnp.float32)
    assert attention.possible(query, key)
    bias = jax.ShapeDtypeStruct((1, 4, length, length), jnp.float32)
    assert attention.possible(query, key, bias) is expected


def test_blocks_are_equal_and_fit_the_cache():
    assert attention._sizes(9, 640, 640) == (128, 128)
    assert attention._sizes(9, 520, 513) == (112, 112)
    # 64 heads of 128 x 128 would be 4 MiB.
    assert attention._sizes(64, 640, 640) == (32, 128)


@pytest.mark.long
def test_dropout_of_t5_drops_the_same_weights(small_blocks, monkeypatch):
    """All queries of a head share it, so it can be applied to the values."""
    module, params = network_kit.build(network_kit.TINY)
    batch = network_kit.make_batch(input_length=40, target_length=36)
    calls = []
    attend = attention.attend

    def noted(*args, **kwargs):
        calls.append(args)
        return attend(*args, **kwargs)

    monkeypatch.setattr(attention, "attend", noted)

    def gradients(config):
        network = dataclasses.replace(module, config=config)

        def loss(params):
            rngs = {"dropout": jax.random.key(3)}
            logits = network.apply({"params": params}, *batch, rngs=rngs)
            return jnp.sum(jnp.sin(logits) * (batch[2] > 0)[..., None])

        return jax.jit(jax.value_and_grad(loss))(params)

    found = gradients(network_kit.TINY)
    assert len(calls) == 6
    expected = gradients(network_kit.TINY.replace(fused_attention=False))
    assert len(calls) == 6
    close = functools.partial(np.testing.assert_allclose, rtol=1e-3, atol=2e-3)
    jax.tree.map(close, found, expected)


def test_packed_rows_of_a_decoder(small_blocks):
    """Examples in one row give the same results as alone."""
    config = llama.Config(
        vocab_size=23, emb_dim=12, num_layers=2, num_heads=4, head_dim=6, mlp_dim=16,
        num_kv_heads=2, sliding_window=11,
    )  # fmt: skip
    module = llama.DecoderWrapper(config)
    lengths = (40, 13, 43)
    rng = np.random.default_rng(0)
    tokens = [rng.integers(2, 23, (1, n)) for n in lengths]
    start = functools.partial(module.init, enable_dropout=False)
    params = jax.jit(start)(jax.random.key(0), tokens[1], tokens[1])["params"]
    apply = jax.jit(functools.partial(module.apply, enable_dropout=False))
    row = np.concatenate(tokens, axis=1)
    together = apply(
        {"params": params},
        row,
        row,
        decoder_segment_ids=np.repeat([1, 2, 3], lengths)[None],
        decoder_positions=np.concatenate([np.arange(n) for n in lengths])[None],
    )
    # Each alone, without blocks.
    module = llama.DecoderWrapper(dataclasses.replace(config, fused_attention=False))
    alone = [
        jax.jit(functools.partial(module.apply, enable_dropout=False))(
            {"params": params}, x, x
        )
        for x in tokens
    ]
    np.testing.assert_allclose(together, np.concatenate(alone, axis=1), atol=1e-5)
