"""Caches and beams: gathering, reshaping, and top-k."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from t5x import decoding
from t5x.search import decode_state
from t5x.search.candidates import Continuations, most_probable

from tests.support import grids


def test_cache_gather_moves_only_leaves_that_differ_between_beams():
    x = jnp.arange(2 * 3 * 2.0).reshape(2, 3, 2)
    names = ("cached_key", "cached_cross_key", "cached_cross_value", "cache_index")
    indices = jnp.array([[2, 0, 0], [1, 1, 2]])
    moved = decoding.cache_gather_beams(
        {"l": dict.fromkeys(names, x)}, indices, 2, 3, 3
    )
    expected = np.stack([np.asarray(x)[b, indices[b]] for b in range(2)])
    np.testing.assert_array_equal(moved["l"]["cached_key"], expected)
    for name in names[1:]:
        np.testing.assert_array_equal(moved["l"][name], x)
    scanned = jnp.stack([x, 2 * x])
    moved = decoding.cache_gather_beams({"v": scanned}, indices, 2, 3, 3, offset=1)
    np.testing.assert_array_equal(moved["v"], np.stack([expected, 2 * expected]))


def test_gather_does_not_spread_nan_between_beams():
    x = jnp.array([[[1.0], [jnp.nan], [3.0]]])
    kept = decoding.gather_beams(x, jnp.array([[0, 2]]), 1, 3, 2)
    np.testing.assert_array_equal(kept, [[[1.0], [3.0]]])


def test_beam_axis_helpers():
    x = jnp.arange(4.0).reshape(2, 2)
    expanded = decoding.flat_batch_beam_expand(x, 2)
    np.testing.assert_array_equal(expanded, [[0, 1], [0, 1], [2, 3], [2, 3]])
    np.testing.assert_array_equal(
        decoding.flatten_beam_dim(decoding.add_beam_dim(x, 2)), expanded
    )
    np.testing.assert_array_equal(
        decoding.unflatten_beam_dim(expanded, 2, 2), decoding.add_beam_dim(x, 2)
    )
    scanned = decoding.flat_batch_beam_expand(x[None], 2, offset=1)
    np.testing.assert_array_equal(scanned, expanded[None])
    best = decoding.gather_topk_beams(x, jnp.array([[0.0, 1.0], [5.0, 2.0]]), 2, 2)
    np.testing.assert_array_equal(best, [[0, 1], [3, 2]])
    with pytest.raises(ValueError, match=r"batch_size \* beam_size = 3 \* 2"):
        decoding.unflatten_beam_dim(expanded, 3, 2)


def test_cache_map_skips_arrays_without_batch_axis():
    cache = {
        name: jnp.ones(()) for name in ("cached_key", "cache_index", "cached_bias")
    } | {"position_embedder_index": jnp.ones(()), "empty": {}}
    doubled = decoding.cache_map(lambda x: 2 * x, cache)
    assert float(doubled["cached_key"]) == 2
    assert float(doubled["cache_index"]) == 1
    assert float(doubled["cached_bias"]) == 1
    assert float(doubled["position_embedder_index"]) == 1
    shared = decoding.beam_init(2, 3, 5, {"cached_cross_key": jnp.ones((2, 4))})
    assert shared.cache["cached_cross_key"].shape == (2, 4)
    doubled = decoding.cache_map(lambda x: 2 * x, cache, apply_to_index=True)
    assert float(doubled["cache_index"]) == 2


def test_two_stage_top_k_equals_one_stage_with_ties(monkeypatch):
    x = jnp.asarray(np.random.RandomState(0).randint(0, 400, (3, 9001)), jnp.float32)
    x = x.at[0].set(-jnp.inf)
    monkeypatch.setattr(decode_state.jax, "default_backend", lambda: "tpu")
    calls = []
    top_k = lax.top_k
    monkeypatch.setattr(
        decode_state.lax, "top_k", lambda *a: (calls.append(1), top_k(*a))[1]
    )
    values, indices = decoding.top_k_two_stage(x, 8)
    assert len(calls) == 2
    expected = top_k(x, 8)
    np.testing.assert_array_equal(values, expected[0])
    np.testing.assert_array_equal(indices, expected[1])


def test_beam_init_starts_with_one_live_beam():
    state = decoding.beam_init(2, 3, 5, {"k": jnp.ones((2, 4)), "cache_index": 0})
    np.testing.assert_array_equal(state.live_logprobs, [[0, -1e7, -1e7]] * 2)
    assert state.cache["k"].shape == (2, 3, 4)
    assert state.live_seqs.shape == (2, 3, 5)
    assert not state.finished_flags.any()
    assert float(decoding.brevity_penalty(0.6, 7)) == pytest.approx(2**0.6)


def proposed(logits, before, m=8):
    """Returns the most probable continuations of beams."""
    told = Continuations.of(
        logits, scores=before, log_probs=before, sequences=before[..., None],
        lengths=before, last=before[:, 0], eos_id=1,
    )  # fmt: skip
    return most_probable(told, m)


@grids.diagonal("vocab, kind", [4096, 3001, 7], ["random", "tied", "masked"])
def test_most_probable_equals_a_full_softmax(vocab, kind):
    """Bit for bit, ties included; 7 has one stage, 3,001 has a partial last block."""
    rng = np.random.default_rng(vocab)
    logits = rng.normal(size=(3, 4, vocab)).astype(np.float32) * 3
    if kind == "tied":
        logits = np.round(logits)
        logits[0] = 2.0
    if kind == "masked":
        logits[rng.random(logits.shape) < 0.7] = -1e7
    before = np.array([[0, -1, -1, -3], [0, *[-1e7] * 3], [-9, -7, -8, -9]], np.float32)

    @jax.jit
    def whole(logits, before):
        total = jax.nn.log_softmax(logits) + before[..., None]
        values, best = lax.top_k(total.reshape(3, -1), 8)
        return values, values, best % vocab, best // vocab

    found = jax.jit(proposed)(logits, before)
    for one, expected in zip(found, whole(logits, before), strict=True):
        np.testing.assert_array_equal(one, expected)


def test_no_step_holds_log_probabilities_of_a_whole_vocabulary():
    """Values computed from 4 x 32,128 logits are never stored."""
    shapes = [jax.ShapeDtypeStruct(s, jnp.float32) for s in ((8, 4, 32128), (8, 4))]
    plan = jax.jit(proposed).lower(*shapes).compile().memory_analysis()
    assert plan.temp_size_in_bytes < 0.2 * 8 * 4 * 32128 * 4
