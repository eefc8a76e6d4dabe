"""Fused attention: the numbers of plain products, and the cases that use it."""

import dataclasses
import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from t5x.examples.t5 import fused_attention, network
from t5x.on_cpu import features

from jaxaug.models import llama
from tests.runtime.network_kit import TINY, apply, build, make_batch
from tests.support import compiled

LLAMA = llama.Config(
    vocab_size=23, emb_dim=12, num_layers=1, num_heads=4, head_dim=6, mlp_dim=16,
    num_kv_heads=2,
)  # fmt: skip


@pytest.fixture
def calls(monkeypatch):
    """Runs JAX's implementation instead of the kernel, and counts its calls."""
    made = []

    def possible(query, key, bias=None):
        del bias
        made.append((query.shape, key.shape))
        return True

    monkeypatch.setattr(fused_attention, "_IMPLEMENTATION", "xla")
    monkeypatch.setattr(fused_attention, "possible", possible)
    # Otherwise the CPU would use another path.
    monkeypatch.setattr(features, "is_used", lambda: False)
    return made


def t5_loss(config):
    module = network.Transformer(config)
    inputs, shifted, targets = make_batch()
    weights = np.random.default_rng(3).standard_normal((*targets.shape, 37))

    def loss(params):
        logits = module.apply(
            {"params": params}, inputs, shifted, targets, enable_dropout=False
        )
        return jnp.sum(logits * weights * (targets > 0)[..., None])

    return jax.jit(jax.value_and_grad(loss))


def test_t5_and_its_gradients_are_the_same(calls):
    _, params = build(TINY)
    calls.clear()
    fused = t5_loss(TINY)(params)
    # Two layers of an encoder, two of a decoder with two kinds of attention.
    traced = len(calls)
    assert traced and traced % 6 == 0
    plain = t5_loss(dataclasses.replace(TINY, fused_attention=False))(params)
    assert len(calls) == traced
    bias = fused[1]["encoder"]["relpos_bias"]["rel_embedding"]
    assert np.abs(bias).max() > 0.01
    jax.tree.map(
        lambda a, b: np.testing.assert_allclose(a, b, rtol=2e-6, atol=2e-4),
        fused,
        plain,
    )


def test_grouped_queries_in_a_packed_row_are_the_same(calls):
    rng = np.random.default_rng(0)
    tokens = jnp.asarray(rng.integers(2, 23, (2, 10)))
    options = {
        "decoder_segment_ids": jnp.asarray([[1] * 6 + [2] * 4, [1] * 7 + [0] * 3]),
        "decoder_positions": jnp.asarray([[*range(6), *range(4)], [*range(10)]]),
        "decoder_causal_attention": jnp.asarray([[1, 1, 0, 0, 0, 0, 1, 0, 0, 0]] * 2),
        "enable_dropout": False,
    }

    def logits(config):
        module = llama.DecoderWrapper(config)
        params = jax.jit(module.init)(jax.random.PRNGKey(0), tokens, tokens)["params"]
        apply = jax.jit(functools.partial(module.apply, **options))
        return apply({"params": params}, tokens, tokens)

    plain = logits(dataclasses.replace(LLAMA, fused_attention=False))
    assert not calls
    np.testing.assert_allclose(logits(LLAMA), plain, atol=1e-5)
    assert calls


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({}, True),
        ({"backend": "cpu"}, False),
        ({"dtype": jnp.float32}, False),
        ({"dim": 256}, False),
        ({"dim": 60}, False),
        ({"queries": 1}, False),
        ({"keys": 20}, False),
        ({"key_rows": 1}, False),
    ],
)
def test_cases_with_a_kernel(monkeypatch, change, expected):
    values = {
        "backend": "gpu", "dtype": jnp.bfloat16, "dim": 64, "queries": 16, "keys": 24,
        "key_rows": 3, **change,
    }  # fmt: skip
    monkeypatch.setattr(jax, "default_backend", lambda: values["backend"])
    query = jnp.zeros((3, values["queries"], 4, values["dim"]), values["dtype"])
    key = jnp.zeros((values["key_rows"], values["keys"], 2, values["dim"]), query.dtype)
    assert fused_attention.possible(query, key) is expected


def test_dropout_drops_the_same_weights(calls):
    # All queries of a head drop the same keys; dropout of values is equivalent.
    module, params = build(TINY)
    rngs = {"dropout": jax.random.PRNGKey(0)}
    calls.clear()  # The initialization of parameters runs the network, too.
    fused = compiled.apply(module, params, *make_batch(), rngs=rngs)
    assert calls
    plainly = network.Transformer(dataclasses.replace(TINY, fused_attention=False))
    expected = compiled.apply(plainly, params, *make_batch(), rngs=rngs)
    np.testing.assert_allclose(fused, expected, atol=1e-4)
    without = apply(module, params, *make_batch())
    assert np.abs(fused - without).max() > 0.01
