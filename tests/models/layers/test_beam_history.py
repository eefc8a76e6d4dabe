"""Beams that look up their history equal beams that copy their cache.

Both attentions, of T5 and of the other families, are tested step by step. One cache is
moved as a whole in every step; the other is shared by all beams of an input.
"""

import functools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from t5x import decoding
from t5x.examples.t5 import layers as t5_layers
from t5x.search import decode_state

from jaxaug.models import layers
from tests.support import grids

BATCH, BEAMS, LENGTH, EMB = 2, 3, 6, 8
MODULES = {
    "t5": t5_layers.MultiHeadDotProductAttention(num_heads=2, head_dim=5),
    "plain": layers.Attention(2, 5, qkv_bias=True),
    "grouped": layers.Attention(4, 6, num_kv_heads=2, rope_theta=100.0),
    "window": layers.Attention(2, 5, window=2),
}


def normal(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape, np.float32)


def bias_at(positions: jax.Array, keys: int) -> jax.Array:
    """Returns a bias as in T5's attention; it differs for heads, queries, and keys."""
    apart = jnp.arange(keys) - positions[..., None]
    return jnp.stack([jnp.sin(apart), 0.3 * apart], axis=1)


def created(name: str, prefill: np.ndarray | None) -> tuple[Any, Any]:
    """Returns parameters, and the cache of one row per input, after its prompt."""
    module = MODULES[name]
    x = normal(BATCH, LENGTH, EMB)
    places = {} if name == "t5" else {"positions": np.arange(LENGTH)[None]}
    apply = functools.partial(module.apply, mutable=["cache", "beam_cache"])
    shapes = jax.eval_shape(lambda: module.init(jax.random.key(0), x, x, **places))
    leaves, tree = jax.tree.flatten(shapes["params"])
    drawn = [0.5 * normal(*leaf.shape, seed=i) for i, leaf in enumerate(leaves)]
    params = {"params": jax.tree.unflatten(tree, drawn)}
    _, variables = apply(params, x, x, decode=True, **places)
    cache = decode_state.merged_cache(variables["cache"], variables["beam_cache"])
    assert cache["cached_ancestors"].shape == (BATCH, LENGTH)
    if prefill is not None:
        _, variables = apply(
            {**params, "cache": cache}, x, x, prefill_lengths=prefill, **places
        )
        cache = variables["cache"]
    return params, cache


def of_beams(cache: Any) -> Any:
    """Returns the shared cache as the first step gets it."""
    expand = functools.partial(decoding.flat_batch_beam_expand, beam_size=BEAMS)
    return decoding.cache_map(expand, decode_state.share_history(cache, BEAMS))


def attended(name: str, prefill: np.ndarray | None, shared: bool) -> Any:
    """Returns outputs of some steps with other parents in each, and the last cache."""
    module, (params, cache) = MODULES[name], created(name, prefill)
    parents = np.random.default_rng(3).integers(0, BEAMS, (LENGTH, BATCH, BEAMS))
    if shared:
        cache = decode_state.share_history(cache, BEAMS)
    cache = decoding.beam_init(BATCH, BEAMS, LENGTH, cache, 0, prefill, None).cache
    assert ("cached_key" in cache) is not shared
    found = []
    steps = LENGTH if prefill is None else LENGTH - min(prefill)
    start = np.zeros(BATCH, int) if prefill is None else prefill

    @jax.jit
    def step(cache, x, positions):
        given: Any = {"bias": bias_at} if name == "t5" else {"positions": positions}
        return module.apply(
            {**params, "cache": cache}, x, x, decode=True, mutable=["cache"], **given
        )

    for i in range(steps):
        x = normal(BATCH * BEAMS, 1, EMB, seed=i)
        move = functools.partial(decoding.cache_map, apply_to_index=prefill is not None)
        cache = move(decoding.flatten_beam_dim, cache)
        y, variables = step(cache, x, np.repeat(start + i, BEAMS)[:, None])
        unflatten = functools.partial(
            decoding.unflatten_beam_dim, batch_size=BATCH, beam_size=BEAMS
        )
        cache = move(unflatten, variables["cache"])
        cache = decoding.cache_gather_beams(cache, parents[i], BATCH, BEAMS, BEAMS)
        found.append(y.reshape(BATCH, BEAMS, EMB))
    return np.stack(found), cache


@grids.diagonal("name, prefill", MODULES, [None, np.array([3, 1])])
def test_shared_histories_equal_moved_caches(name, prefill):
    expected, moved = attended(name, prefill, shared=False)
    found, cache = attended(name, prefill, shared=True)
    # Entries after the end of a row are never read.
    start = np.zeros(BATCH, int) if prefill is None else prefill
    for row in range(BATCH):
        inside = LENGTH - start[row]
        np.testing.assert_allclose(
            found[:inside, row], expected[:inside, row], atol=1e-5
        )
        assert np.abs(expected[:inside, row]).max() > 0.1
        # At the places of its ancestors, the history contains the cache of a beam.
        for beam, place in np.ndindex(BEAMS, LENGTH):
            slot = place * BEAMS + cache["cached_ancestors"][row, beam, place]
            np.testing.assert_allclose(
                cache["cached_beam_value"][row, ..., slot],
                moved["cached_value"][row, beam, ..., place],
                atol=1e-5,
            )


def test_a_mask_of_positions_hides_them_from_all_beams():
    params, cache = created("plain", None)
    x, mask = normal(BATCH * BEAMS, 1, EMB), np.ones((BATCH * BEAMS, 1, 1, LENGTH))
    mask[..., 0] = 0
    shared = of_beams(cache)
    shared["cache_index"] = jnp.int32(1)
    shared["cached_beam_value"] += 1e4

    def step(mask):
        return MODULES["plain"].apply(
            {**params, "cache": shared}, x, x, mask, decode=True, mutable=["cache"]
        )[0]

    assert np.abs(step(mask)).max() < 20 < np.abs(step(None)).min()


@pytest.mark.parametrize("name", ["t5", "plain"])
def test_a_step_has_one_position_for_each_beam(name):
    params, cache = created(name, None)
    x = normal(BATCH, 1, EMB)
    with pytest.raises(
        ValueError, match=r"step of 2 x 3 beams .*\[6, 1.* got \[2, 1\]"
    ):
        MODULES[name].apply(
            {**params, "cache": of_beams(cache)},
            x, x, decode=True, mutable=["cache"],
        )  # fmt: skip


@pytest.mark.parametrize("scanned", [False, True])
def test_the_layout_of_a_history(scanned):
    _, cache = created("plain", np.array([3, 1]))
    cache = {"layer": jax.tree.map(lambda x: x[None], cache) if scanned else cache}
    found = decoding.share_history(cache, BEAMS)
    # A prompt is stored once, in the first beam, for all beams.
    layer = found["layer"]
    slots = layer["cached_beam_key"].reshape(*cache["layer"]["cached_key"].shape, BEAMS)
    np.testing.assert_array_equal(slots[..., 0], cache["layer"]["cached_key"])
    assert not slots[..., 1:].any() and not layer["cached_ancestors"].any()
    assert layers.cache_length(layer) == layers.cache_length(cache["layer"]) == LENGTH
    for beams in (1, 64):
        assert decoding.share_history(cache, beams) is cache
