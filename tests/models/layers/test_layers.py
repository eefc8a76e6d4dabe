"""The shared layers, compared with torch, NumPy, and themselves."""

import functools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch
from transformers.activations import ACT2FN
from transformers.models.marian import modeling_marian
from transformers.models.pegasus import modeling_pegasus

from jaxaug.core.errors import UserError
from jaxaug.models import layers


def normal(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape, np.float32)


def made(module: Any, *args: Any, **kwargs: Any) -> Any:
    """Returns random parameters, also for biases and scales."""
    shapes = jax.eval_shape(
        lambda: module.init(jax.random.PRNGKey(0), *args, **kwargs)
    )["params"]
    leaves, tree = jax.tree.flatten(shapes)
    drawn = [normal(*leaf.shape, seed=i) for i, leaf in enumerate(leaves)]
    return {"params": jax.tree.unflatten(tree, drawn)}


@pytest.mark.parametrize("name", sorted(layers.ACTIVATIONS))
def test_activation_equals_transformers(name: str):
    x = normal(50) * 3
    expected = ACT2FN[name](torch.from_numpy(x)).numpy()
    np.testing.assert_allclose(layers.activation(name)(x), expected, atol=1e-6)


def test_unknown_activation():
    with pytest.raises(UserError, match=r"activation 'gelo' .* did you mean 'gelu'"):
        layers.activation("gelo")


def test_layer_norm_equals_torch():
    x, module = normal(2, 3, 8) + 5, layers.LayerNorm(epsilon=0.1)
    variables = made(module, x)
    scale, bias = (torch.from_numpy(variables["params"][n]) for n in ("scale", "bias"))
    expected = torch.nn.functional.layer_norm(
        torch.from_numpy(x), (8,), scale, bias, eps=0.1
    )
    np.testing.assert_allclose(module.apply(variables, x), expected, atol=1e-5)


def test_rms_norm_equals_torch():
    x, module = normal(2, 3, 8) + 5, layers.RMSNorm(epsilon=0.1)
    variables = made(module, x)
    expected = torch.nn.functional.rms_norm(
        torch.from_numpy(x),
        (8,),
        torch.from_numpy(variables["params"]["scale"]),
        eps=0.1,
    )
    np.testing.assert_allclose(module.apply(variables, x), expected, atol=1e-5)


@pytest.mark.parametrize("norm", [layers.LayerNorm, layers.RMSNorm])
def test_norms_compute_in_float32(norm: Any):
    # In bfloat16 the differences between these numbers would be lost.
    x = 256.0 + jnp.arange(8.0)[None]
    module = norm(dtype=jnp.bfloat16)
    variables = module.init(jax.random.PRNGKey(0), x)
    normed = module.apply(variables, x)
    assert normed.dtype == jnp.bfloat16
    exact = norm().apply(variables, x)
    np.testing.assert_array_equal(normed, exact.astype(jnp.bfloat16))


def test_linear_contracts_several_axes():
    x = normal(2, 3, 4, 5)
    module = layers.linear(
        (6, 7), ("heads", "kv", "embed", "mlp"), axis=(-2, -1), use_bias=True
    )
    variables = made(module, x)
    kernel, bias = (variables["params"][name] for name in ("kernel", "bias"))
    assert kernel.shape == (4, 5, 6, 7)
    expected = np.einsum("blij,ijmn->blmn", x, kernel) + bias
    np.testing.assert_allclose(module.apply(variables, x), expected, atol=1e-4)


def test_gated_mlp():
    x = normal(1, 2, 4)
    module = layers.mlp(6, activation="silu", gated=True)
    variables = made(module, x)
    gate, up, down = (variables["params"][name] for name in ("wi_0", "wi_1", "wo"))

    def linear(y, part):
        return y @ part["kernel"] + part["bias"]

    hidden = layers.activation("silu")(linear(x, gate)) * linear(x, up)
    np.testing.assert_allclose(
        module.apply(variables, x), linear(hidden, down), atol=1e-4
    )


@pytest.mark.parametrize("length, features", [(11, 8), (5, 2)])
def test_sinusoids_equal_transformers(length: int, features: int):
    ours = layers.sinusoidal_positions(length, features)
    assert ours.dtype == np.float32
    for theirs in (
        modeling_marian.MarianSinusoidalPositionalEmbedding(length, features),
        modeling_pegasus.PegasusSinusoidalPositionalEmbedding(length, features),
    ):
        np.testing.assert_allclose(ours, theirs.create_weight().numpy(), atol=1e-6)


def test_learned_positions_have_an_offset_and_an_end():
    module = layers.LearnedPositions(6, 3, offset=2)
    positions = np.arange(4)[None]
    variables = made(module, positions)
    table = variables["params"]["embedding"]
    np.testing.assert_array_equal(module.apply(variables, positions), table[None, 2:])
    message = "model has 4 positions, but the sequences are 5 long: shorten them"
    with pytest.raises(UserError, match=message):
        module.apply(variables, np.arange(5)[None])


def test_positions_count_steps_and_start_after_the_prompt():
    module, tokens = layers.Positions(), jnp.zeros((2, 5), jnp.int32)
    assert module.apply({}, tokens).tolist() == [[0, 1, 2, 3, 4]]
    given = jnp.asarray([[0, 1, 0, 1, 2]] * 2)
    assert module.apply({}, tokens, given).tolist() == given.tolist()
    step = functools.partial(
        module.apply, tokens=tokens[:, :1], decode=True, mutable=["cache"]
    )
    _, cache = module.apply({}, tokens, decode=True, mutable=["cache"])
    for expected in range(3):
        positions, cache = step(cache)
        assert positions.tolist() == [[expected]]
    _, cache = module.apply(
        cache, tokens, prefill_lengths=jnp.asarray([2, 4]), mutable=["cache"]
    )
    for expected in ([[2], [4]], [[3], [5]]):
        positions, cache = step(cache)
        assert positions.tolist() == expected


def test_rotary_turns_pairs_by_the_position():
    x = normal(1, 3, 2, 6)
    positions = np.asarray([[0, 3, 10]])
    turned = np.asarray(layers.rotary(x, positions, 100.0))
    pairs = x[..., :3] + 1j * x[..., 3:]
    angles = positions[0][:, None] * 100.0 ** (-np.arange(3) / 3)
    expected = pairs * np.exp(1j * angles)[None, :, None]
    np.testing.assert_allclose(turned[..., :3], expected.real, atol=1e-5)
    np.testing.assert_allclose(turned[..., 3:], expected.imag, atol=1e-5)
    # Scores depend on the distance alone.
    later = np.asarray(layers.rotary(x, positions + 7, 100.0))
    scores, same = (np.einsum("bqhd,bkhd->bhqk", y, y) for y in (turned, later))
    np.testing.assert_allclose(scores, same, atol=1e-4)


def test_grouped_queries_equal_repeated_keys():
    query = normal(2, 3, 6, 4)
    key, value = normal(2, 5, 2, 4, seed=1), normal(2, 5, 2, 4, seed=2)
    mask = np.random.default_rng(3).integers(0, 2, (2, 1, 3, 5))
    mask[0, 0, 0] = 0
    grouped = layers.dot_product_attention(query, key, value, mask, scale=0.5)
    key, value = (np.repeat(x, 3, axis=2) for x in (key, value))
    logits = 0.5 * np.einsum("bqhd,bkhd->bhqk", query, key)
    logits = np.where(mask > 0, logits, -1e10)
    weights = np.exp(logits - logits.max(-1, keepdims=True))
    weights /= weights.sum(-1, keepdims=True)
    expected = np.einsum("bhqk,bkhd->bqhd", weights, value)
    np.testing.assert_allclose(grouped, expected, atol=1e-5)


def test_cached_attention_in_bfloat16_is_near_that_in_float32():
    """XLA for CPUs with AMX compiles some products of bfloat16 that it cannot run."""
    rng = np.random.default_rng(0)
    shapes = ((2, 1, 4, 8), (2, 2, 8, 6), (2, 2, 8, 6))
    half = [jnp.asarray(rng.normal(size=shape), jnp.bfloat16) for shape in shapes]
    attend = jax.jit(
        functools.partial(layers.dot_product_attention, scale=0.3, cache_layout=True)
    )
    exact = attend(*[x.astype(jnp.float32) for x in half])
    got = attend(*half)
    assert got.dtype == jnp.bfloat16
    np.testing.assert_allclose(got.astype(jnp.float32), exact, atol=0.02)


def test_attention_dropout_keeps_the_mean():
    query, key = jnp.zeros((1, 1, 1, 2)), jnp.zeros((1, 4000, 1, 2))
    value = jnp.ones_like(key)
    dropped = layers.dot_product_attention(
        query, key, value, scale=1.0, dropout_rng=jax.random.PRNGKey(0),
        dropout_rate=0.5,
    )  # fmt: skip
    assert dropped[0, 0, 0, 0] == pytest.approx(1.0, abs=0.05)
    assert dropped[0, 0, 0, 0] != pytest.approx(1.0, abs=1e-6)


def test_cache_holds_the_key_heads_and_the_length_last():
    x = normal(2, 5, 8)
    module = layers.Attention(num_heads=4, head_dim=6, num_kv_heads=2)
    _, variables = module.apply(made(module, x, x), x, x, decode=True, mutable=True)
    cache = variables["cache"]
    assert set(cache) == {"cached_key", "cached_value", "cache_index"}
    assert cache["cached_key"].shape == cache["cached_value"].shape == (2, 2, 6, 5)
    assert cache["cache_index"].shape == ()
    assert not np.any(cache["cached_key"])


def test_steps_of_several_positions():
    """They equal single steps, if all rows are at the same position."""
    x = normal(2, 5, 8)
    module = layers.Attention(num_heads=2, head_dim=4, rope_theta=50.0)
    places = jnp.arange(5)[None]
    params = made(module, x, x, positions=places)
    _, empty = module.apply(
        params, x, x, decode=True, positions=places, mutable=["cache"]
    )

    def run(*sizes):
        cache, found, start = empty, [], 0
        for size in sizes:
            own = slice(start, start + size)
            y, cache = module.apply(
                {**params, **cache}, x[:, own], x[:, own], decode=True,
                positions=places[:, own], mutable=["cache"],
            )  # fmt: skip
            found.append(y)
            start += size
        return np.concatenate(found, axis=1), cache["cache"]

    (one, whole), (several, cache) = run(1, 1, 1, 1, 1), run(2, 1, 2)
    np.testing.assert_allclose(several, one, atol=1e-5)
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, atol=1e-5), cache, whole)
    cache["cache_index"] = np.array([2, 3])
    for state, wrong in (({"cache": cache}, x[:, :2]), (empty, x[:1, :1])):
        with pytest.raises(ValueError, match=r"needs one position .* queries \[2, 1"):
            module.apply(
                {**params, **state}, wrong, wrong, decode=True,
                positions=places[:, : wrong.shape[1]], mutable=["cache"],
            )  # fmt: skip


@pytest.mark.parametrize("kv_heads", [None, 2])
def test_cross_attention_reads_shared_keys(kv_heads: int | None):
    """Two decodes of each input; keys and values are projected once for each input."""
    encoded = normal(3, 5, 8)
    steps = normal(6, 1, 8, seed=1)
    module = layers.Attention(4, 6, num_kv_heads=kv_heads, qkv_bias=True, out_bias=True)
    is_token = np.ones((3, 1, 1, 5))
    is_token[1, ..., 3:] = 0
    params = made(module, steps[:3], encoded)
    _, kept = module.apply(
        params,
        steps[:3],
        encoded,
        is_token,
        decode=True,
        cross=True,
        mutable=["cache", "cross_cache"],
    )
    leaves = kept["cross_cache"]
    assert leaves["cached_cross_key"].shape == (3, kv_heads or 4, 6, 5)
    repeated = np.repeat(encoded, 2, axis=0)
    mask = np.repeat(is_token, 2, axis=0)
    expected = module.apply(params, steps, repeated, mask)
    attended = module.apply(
        {**params, "cache": leaves}, steps, np.full_like(repeated, np.nan), mask,
        decode=True, cross=True,
    )  # fmt: skip
    np.testing.assert_allclose(attended, expected, atol=1e-4)


def test_embedding_attends_in_float32():
    module = layers.Embed(7, 4, dtype=jnp.bfloat16)
    tokens = np.asarray([[0.0, 6.0]])
    variables = made(module, tokens)
    table = variables["params"]["embedding"]
    embedded = module.apply(variables, tokens)
    np.testing.assert_array_equal(embedded[0], table[[0, 6]].astype(jnp.bfloat16))
    logits = module.apply(variables, embedded, method="attend")
    assert logits.dtype == jnp.float32
    rounded = np.asarray(jnp.asarray(table, jnp.bfloat16), np.float32)
    expected = np.asarray(embedded, np.float32) @ rounded.T
    np.testing.assert_allclose(logits, expected, rtol=1e-5, atol=1e-5)


def test_id_offset_leaves_the_table_and_frees_ids():
    module = layers.Embed(5, 4, id_offset=1, bos_token_id=3)
    tokens = np.asarray([[0, 1, 5]])
    variables = made(module, tokens)
    table = variables["params"]["embedding"]
    assert table.shape == (5, 4)
    np.testing.assert_array_equal(module.apply(variables, tokens)[0], table[[3, 0, 4]])
    logits = layers.shift_logits(jnp.asarray([[1.0, 2.0]]), 1)
    assert logits.tolist() == [[layers.MASKED, 1.0, 2.0]]
    assert layers.shift_logits(logits, 0) is logits
