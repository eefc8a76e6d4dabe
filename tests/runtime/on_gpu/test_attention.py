"""Attention kernels for GPUs: the numbers of plain products, pair by pair.

A GPU runs the kernels; elsewhere JAX interprets them.
"""

import dataclasses
import types

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from t5x.examples.t5 import fused_attention, network, parts
from t5x.examples.t5.position_bias import ByDistance
from t5x.on_cpu import features
from t5x.on_gpu import attention, attention_calls

from tests.support import grids

HEADS, DIM, RADIUS, SCALE = 2, 64, 128, 0.125


@pytest.fixture
def interpreted(monkeypatch):
    interpret = jax.default_backend() != "gpu"
    monkeypatch.setattr(attention_calls, "INTERPRET", interpret)
    monkeypatch.setattr(attention, "_are_there", lambda: True)


def plain(query, key, value, bias, mask):
    query, key, value = (x.astype(jnp.float32) for x in (query, key, value))
    logits = SCALE * jnp.einsum("bqhd,bkhd->bhqk", query, key)
    if bias is not None:
        radius = bias.shape[1] // 2
        apart = jnp.arange(key.shape[1]) - jnp.arange(query.shape[1])[:, None]
        logits += bias[:, jnp.clip(apart, -radius, radius) + radius]
    if mask is not None:
        logits = jnp.where(mask > 0, logits, -jnp.inf)
    top = jnp.max(logits, axis=-1, keepdims=True, initial=-1e9)
    weights = jnp.exp(logits - jax.lax.stop_gradient(top))
    total = jnp.sum(weights, axis=-1, keepdims=True)
    return jnp.einsum("bhqk,bkhd->bqhd", weights / jnp.maximum(total, 1e-30), value)


def draw(queries, keys, radius, seed=0):
    rng = np.random.default_rng(seed)

    def heads(length):
        return jnp.asarray(rng.standard_normal((2, length, HEADS, DIM)), jnp.bfloat16)

    bias = None
    if radius is not None:
        bias = jnp.asarray(rng.standard_normal((HEADS, 2 * radius + 1)), jnp.float32)
    return (heads(queries), heads(keys), heads(keys), bias), heads(queries)


def passes(attend, arrays, mask, gradient):
    """Returns output and gradients."""

    @jax.jit
    def run(arrays):
        out, back = jax.vjp(lambda *a: attend(*a, mask), *arrays)
        return out, back(gradient.astype(out.dtype))

    return jax.tree.leaves(run(arrays))


def packed(length):
    """Returns rows of three packed examples; padded queries see nothing."""
    rng = np.random.default_rng(1)
    segments = np.sort(rng.integers(1, 4, (2, length)), axis=1)
    segments[:, length - 70 :] = 0
    same = segments[:, :, None] == segments[:, None]
    return (same & (segments[:, :, None] > 0))[:, None]


def causal(length):
    return np.tril(np.ones((1, 1, length, length)))


@pytest.mark.parametrize(
    ("queries", "keys", "radius", "mask"),
    grids.first(
        3,
        [
            (256, 256, RADIUS, packed(256) * causal(256)),
            (128, 256, None, np.arange(256)[None, None, None] < 200),
            (128, 256, None, None),
            (256, 256, RADIUS, None),
            # Far pairs on both sides, a radius that is not a multiple of any block.
            (384, 384, 40, packed(384)),
            # A mask that rows share, of queries and of keys alone.
            (128, 128, RADIUS, causal(128)),
        ],
    ),
    ids=["packed and causal", "cross", "no mask", "all", "packed", "causal"],
)
@pytest.mark.usefixtures("interpreted")
def test_output_and_gradients_equal_plain_products(queries, keys, radius, mask):
    arrays, gradient = draw(queries, keys, radius)
    mask = None if mask is None else jnp.asarray(mask, jnp.bfloat16)

    def ours(*arguments):
        return attention.attend(*arguments, scale=SCALE)

    assert attention.possible(*arrays[:2])
    found = passes(ours, arrays, mask, gradient)
    expected = passes(plain, arrays, mask, gradient)
    assert len(found) == len(expected) == (4 if radius is None else 5)
    for x, y in zip(found, expected, strict=True):
        error = np.linalg.norm(np.float32(x) - np.float32(y)) / np.linalg.norm(y)
        assert error < 0.01


@pytest.mark.usefixtures("interpreted")
def test_a_query_that_sees_no_key_gets_zeros_and_gives_no_gradient():
    arrays, gradient = draw(128, 128, 16)
    mask = jnp.ones((2, 1, 128, 128)).at[1, 0, 5:9].set(0)

    def ours(*arguments):
        return attention.attend(*arguments, scale=SCALE)

    out, of_query, *rest = map(np.float32, passes(ours, arrays, mask, gradient))
    assert not out[1, 5:9].any() and not of_query[1, 5:9].any()
    assert out[1, 4].any() and of_query[1, 9].any()
    assert all(np.isfinite(x).all() for x in rest)


def test_biases_by_distance_equal_all_pairs():
    config = network.T5Config(vocab_size=9, num_heads=HEADS)
    module = parts.position_biases(config)
    params = {"rel_embedding": np.random.default_rng(0).standard_normal((HEADS, 32))}
    for bidirectional in (False, True):
        all_pairs = module.apply({"params": params}, 300, 200, bidirectional)
        by_distance = module.apply(
            {"params": params}, 300, 200, bidirectional, method=module.by_distance
        )
        assert isinstance(by_distance, ByDistance)
        np.testing.assert_array_equal(by_distance.of_pairs(), all_pairs)


def loss_and_gradients(config):
    """Returns loss and gradients of packed full rows, with dropout."""
    rng = np.random.default_rng(2)
    inputs = rng.integers(2, 37, (2, 256))
    targets = rng.integers(2, 37, (2, 128))
    segments = {
        "encoder_segment_ids": np.repeat([[1, 2], [1, 0]], [100, 156], axis=1),
        "decoder_segment_ids": np.repeat([[1, 2], [1, 0]], [50, 78], axis=1),
    }
    inputs, targets = (
        np.where(segments[f"{side}_segment_ids"] > 0, x, 0)
        for side, x in (("encoder", inputs), ("decoder", targets))
    )
    module = network.Transformer(config)
    shapes = jax.eval_shape(
        lambda: module.init(
            jax.random.PRNGKey(0), inputs, targets, targets, enable_dropout=False
        )
    )["params"]
    draws = np.random.default_rng(3)
    params = jax.tree.map(lambda x: 0.1 * draws.standard_normal(x.shape), shapes)

    @jax.jit
    @jax.value_and_grad
    def run(params):
        logits = module.apply(
            {"params": params}, inputs, targets, targets, **segments,
            rngs={"dropout": jax.random.PRNGKey(1)},
        )  # fmt: skip
        return jnp.sum(jnp.square(logits) * (targets > 0)[..., None])

    return run(jax.tree.map(jnp.float32, params))


@pytest.mark.usefixtures("interpreted")
@pytest.mark.long
def test_t5_trains_with_the_same_gradients(monkeypatch):
    config = network.T5Config(
        vocab_size=37, dtype=jnp.bfloat16, emb_dim=32, num_heads=HEADS,
        num_encoder_layers=1, num_decoder_layers=1, head_dim=DIM, mlp_dim=32,
    )  # fmt: skip
    calls = []
    attend = attention.attend

    def counted(query, key, value, bias, mask, *, scale):
        calls.append((query.shape[1], key.shape[1], bias is not None))
        return attend(query, key, value, bias, mask, scale=scale)

    monkeypatch.setattr(features, "is_used", lambda: False)
    monkeypatch.setattr(fused_attention, "possible", lambda query, key, bias=None: True)
    monkeypatch.setattr(attention, "attend", counted)
    fused = loss_and_gradients(config)
    assert set(calls) == {(256, 256, True), (128, 128, True), (128, 256, False)}
    plainly = dataclasses.replace(config, fused_attention=False)
    expected = loss_and_gradients(plainly)
    for x, y in zip(jax.tree.leaves(fused), jax.tree.leaves(expected), strict=True):
        assert np.linalg.norm(x - y) < 0.03 * np.linalg.norm(y)


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({}, True),
        ({"backend": "cpu"}, False),
        ({"devices": 2}, False),
        ({"capability": "8.0"}, False),
        ({"compiler": "jax.experimental.pallas.gone"}, False),
        ({"dtype": jnp.float32}, False),
        ({"dim": 32}, False),
        ({"queries": 192}, False),
        ({"keys": 64}, False),
        ({"key_heads": 1}, False),
    ],
)
def test_cases_that_use_the_kernels(monkeypatch, change, expected):
    values = {
        "backend": "gpu", "devices": 1, "capability": "9.0",
        "compiler": attention._COMPILER, "dtype": jnp.bfloat16, "dim": 64,
        "queries": 256, "keys": 384, "key_heads": 4, **change,
    }  # fmt: skip
    device = types.SimpleNamespace(compute_capability=values["capability"])
    monkeypatch.setattr(jax, "devices", lambda: [device])
    monkeypatch.setattr(attention, "_COMPILER", values["compiler"])
    monkeypatch.setattr(jax, "default_backend", lambda: values["backend"])
    monkeypatch.setattr(jax, "device_count", lambda: values["devices"])
    query = jnp.zeros((2, values["queries"], 4, values["dim"]), values["dtype"])
    key = jnp.zeros(
        (2, values["keys"], values["key_heads"], values["dim"]), query.dtype
    )
    assert attention.possible(query, key) is expected
