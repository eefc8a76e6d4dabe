"""8-bit weights: the same networks up to rounding."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import linen as nn
from flax import traverse_util
from jax import lax
from t5x.examples.t5 import network

from jaxaug.models import bart, gpt2, llama
from jaxaug.models.layers import int8, linear

VOCAB = 31
SIZES = {"vocab_size": VOCAB, "emb_dim": 16, "num_heads": 2, "head_dim": 6}
NETWORKS = {
    "t5": network.Transformer(
        network.T5Config(
            **SIZES, mlp_dim=24, num_encoder_layers=1, num_decoder_layers=1,
            logits_via_embedding=True,
        )
    ),
    "bart": bart.Bart(
        bart.Config(
            "bart", VOCAB, 16, 1, 1, 2, 2, 24, 24, num_positions=20
        )
    ),
    "llama": llama.DecoderWrapper(
        llama.Config(
            **SIZES, num_layers=1, mlp_dim=24, num_kv_heads=1, attention_bias=True,
            mlp_bias=True, id_offset=1, bos_token_id=3,
        )
    ),
    "gpt2": gpt2.DecoderWrapper(
        gpt2.Config(
            **SIZES, num_layers=1, mlp_dim=24, norm_epsilon=1e-5, activation="gelu",
            tie_embeddings=True, num_positions=20,
        )
    ),
}  # fmt: skip


def arguments(module, tokens):
    return [tokens] * (3 if hasattr(module, "encode") else 2)


def random_params(module):
    tokens = jnp.ones((1, 4), jnp.int32)
    start = functools.partial(module.init, enable_dropout=False)
    shapes = jax.eval_shape(start, jax.random.key(0), *arguments(module, tokens))
    rng = np.random.default_rng(0)
    return jax.tree.map(
        lambda x: np.float32(0.3 * rng.standard_normal(x.shape)), shapes["params"]
    )


def in_int8(module, params):
    tokens = jnp.ones((1, 4), jnp.int32)
    call = functools.partial(module.apply, {"params": params}, enable_dropout=False)
    sizes = int8.found(functools.partial(call, *arguments(module, tokens)))
    return int8.quantised(params, sizes), sizes


@pytest.mark.parametrize("name", NETWORKS)
def test_networks_compute_with_the_floats_that_integers_stand_for(name, monkeypatch):
    monkeypatch.setattr(int8, "_FLOATS", 150)  # Several blocks; the last ones overlap.
    module = NETWORKS[name]
    params = random_params(module)
    packed, sizes = in_int8(module, params)
    flat = traverse_util.flatten_dict(packed)
    floats = dict(traverse_util.flatten_dict(params))
    for path, size in sizes.items():
        integers, scale = flat[path], flat[(*path[:-1], f"{path[-1]}_scale")]
        assert integers.dtype == np.int8 and integers.shape == floats[path].shape
        matrix = integers.reshape(size, -1)
        if path[-1] == "embedding":
            matrix = integers.T
        assert (np.abs(matrix).max(axis=0) == 127).all()
        meant = matrix * scale
        if path[-1] == "embedding":
            meant = meant.T
        meant = np.float32(meant.reshape(integers.shape))
        error = np.abs(meant - floats[path])
        assert error.max() <= 0.5001 * scale.max()
        floats[path] = meant
    kernels = {path for path in floats if path[-1] in ("kernel", "embedding")}
    positions = {p for p in kernels if "position" in "".join(p)}
    assert sizes.keys() == kernels - positions

    tokens = np.random.default_rng(1).integers(2, VOCAB, (2, 9)).astype(np.int32)

    @jax.jit
    def logits(params):
        with int8.products():
            return module.apply(
                {"params": params}, *arguments(module, tokens), enable_dropout=False
            )

    np.testing.assert_allclose(
        logits(packed),
        logits(traverse_util.unflatten_dict(floats)),
        rtol=1e-4,
        atol=1e-4,
    )


def test_floats_of_all_weights_never_exist():
    """XLA does not create them before the loop over the steps either."""
    module = linear(1024, ("embed", "mlp"))
    rng = np.random.default_rng(0)
    params = {"kernel": np.float32(rng.standard_normal((1024, 1024)) / 50)}
    x = jnp.ones((2, 1024))
    sizes = int8.found(lambda: module.apply({"params": params}, x))
    packed = int8.quantised(params, sizes)

    def loop(params, x):
        with int8.products():
            return lax.fori_loop(
                0, 9, lambda i, x: jnp.tanh(module.apply({"params": params}, x)), x
            )

    compiled = jax.jit(loop).lower(packed, x).compile()
    assert compiled.memory_analysis().temp_size_in_bytes < 2**21  # Of 2**22.
    exact = jax.jit(loop)(params, x)
    assert np.abs(compiled(packed, x) - exact).mean() < 0.02


class Plain(nn.Module):
    """A layer of another package."""

    @nn.compact
    def __call__(self, x):
        return nn.Dense(3)(x)


def test_other_layers_stay_as_they_are():
    module = Plain()
    params = {"Dense_0": {"kernel": np.ones((2, 3), np.float32), "bias": np.zeros(3)}}
    sizes = int8.found(lambda: module.apply({"params": params}, jnp.ones((1, 2))))
    assert sizes == {}
    assert int8.quantised(params, sizes) == params
