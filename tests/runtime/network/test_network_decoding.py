"""Step-by-step decoding of the T5 network equals its forward pass."""

import dataclasses
import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import traverse_util
from flax.core import unfreeze
from network_kit import TINY, apply, build, make_batch

from tests.support import grids


@functools.partial(jax.jit, static_argnums=(0, 4, 5))
def start_decoding(module, params, encoded, inputs, length, cross):
    ones = jnp.ones((inputs.shape[0], length), jnp.int32)
    _, variables = module.apply(
        {"params": params}, encoded, inputs, ones, ones, decode=True,
        enable_dropout=False, mutable=["cache", "cross_cache"], method="decode",
    )  # fmt: skip
    flat = traverse_util.flatten_dict(variables["cache"])
    if cross:
        flat.update(traverse_util.flatten_dict(variables["cross_cache"]))
    return traverse_util.unflatten_dict(flat)


@functools.partial(jax.jit, static_argnums=0)
def step(module, params, cache, encoded, inputs, tokens):
    logits, variables = module.apply(
        {"params": params, "cache": cache}, encoded, inputs, tokens, tokens,
        decode=True, enable_dropout=False, max_decode_length=8, mutable=["cache"],
        method="decode",
    )  # fmt: skip
    return logits[:, 0], variables["cache"]


@pytest.mark.parametrize(
    "cross, dtype",
    grids.first(2, [(False, "float32"), (True, "float32"), (True, "bfloat16")]),
)
def test_cached_steps_equal_full_forward(cross, dtype):
    config = dataclasses.replace(TINY, dtype=dtype)
    module, params = build(config)
    inputs, shifted, _ = make_batch()
    targets = np.ones_like(shifted)
    full = apply(module, params, inputs, shifted, targets)
    encoded = apply(module, params, inputs, method="encode")
    cache = start_decoding(module, params, encoded, inputs, shifted.shape[1], cross)
    if cross:
        # Later steps must not read the encoder outputs.
        encoded = jnp.full_like(encoded, jnp.nan)
    tolerance = 1e-4 if dtype == "float32" else 0.2
    for i in range(shifted.shape[1]):
        tokens = shifted[:, i : i + 1]
        logits, cache = step(module, params, cache, encoded, inputs, tokens)
        np.testing.assert_allclose(logits, full[:, i], atol=tolerance)
    index = cache["decoder"]["layers_0"]["self_attention"]["cache_index"]
    assert index.shape == () and index == shifted.shape[1]


def test_rows_may_share_cross_keys():
    module, params = build(TINY)
    inputs, shifted, _ = make_batch(batch=2)
    other = np.roll(shifted, 1, axis=0)
    tokens = np.stack([shifted, other], axis=1).reshape(4, -1)
    repeated = np.repeat(inputs, 2, axis=0)
    full = apply(module, params, repeated, tokens, np.ones_like(tokens))
    encoded = apply(module, params, inputs, method="encode")
    cache = start_decoding(module, params, encoded, inputs, tokens.shape[1], True)
    # Some decode functions repeat the self-attention cache only.
    cache = traverse_util.path_aware_map(
        lambda path, x: (
            jnp.repeat(x, 2, axis=0)
            if path[-1] in ("cached_key", "cached_value")
            else x
        ),
        cache,
    )
    for i in range(3):
        logits, cache = step(
            module,
            params,
            cache,
            jnp.repeat(encoded, 2, axis=0),
            repeated,
            tokens[:, i : i + 1],
        )
        np.testing.assert_allclose(logits, full[:, i], atol=1e-4)


def test_cache_layout_and_names():
    module, params = build(TINY)
    inputs, shifted, targets = make_batch()
    # The T5X interface calls the network on placeholders, for the shapes.
    call = functools.partial(
        module.apply, enable_dropout=False, decode=True, mutable=["cache"]
    )
    _, created = jax.jit(call)(
        {"params": params},
        jnp.ones_like(inputs),
        jnp.ones_like(shifted),
        jnp.ones_like(targets),
    )
    flat = traverse_util.flatten_dict(unfreeze(created["cache"]), sep="/")
    expected = {}
    for i in range(2):
        prefix = f"decoder/layers_{i}/self_attention"
        expected |= {
            f"{prefix}/cached_key": (3, 3, 5, 8),
            f"{prefix}/cached_value": (3, 3, 5, 8),
            f"{prefix}/cache_index": (),
        }
    assert {name: leaf.shape for name, leaf in flat.items()} == expected
    assert all(not leaf.any() for leaf in flat.values())
    encoded = apply(module, params, inputs, method="encode")
    cache = start_decoding(module, params, encoded, inputs, 8, True)
    cross = cache["decoder"]["layers_1"]["encoder_decoder_attention"]
    assert {name: leaf.shape for name, leaf in cross.items()} == {
        "cached_cross_key": (3, 3, 5, 11),
        "cached_cross_value": (3, 3, 5, 11),
    }


def test_step_of_two_tokens_is_refused():
    module, params = build(TINY)
    inputs, shifted, _ = make_batch()
    encoded = apply(module, params, inputs, method="encode")
    cache = start_decoding(module, params, encoded, inputs, 8, False)
    with pytest.raises(ValueError, match=r"queries \[3, 1, ...\], but got \[3, 2\]"):
        step(module, params, cache, encoded, inputs, shifted[:, :2])
