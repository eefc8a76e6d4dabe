"""Products of 16-bit factors: sums and gradients as in float32."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from t5x.examples.t5 import parts
from t5x.on_cpu import features, products

from jaxaug.models import gpt2, llama
from tests.runtime import network_kit
from tests.support import grids

RNG = np.random.default_rng(0)
NARROW = jnp.bfloat16
OFF = f"--{features.YNN}="
TOKENS = np.random.default_rng(0).integers(2, 23, (2, 6)).astype(np.int32)


@pytest.fixture
def tiles(monkeypatch):
    """Simulates a machine whose CPU multiplies tiles."""
    monkeypatch.setattr(features, "has_bfloat16", lambda: True)
    monkeypatch.setenv("XLA_FLAGS", OFF)


def drawn(*shape):
    return RNG.standard_normal(shape).astype(np.float32)


def rounded(x):
    """Returns the nearest 16-bit numbers, as float64."""
    return np.asarray(jnp.asarray(x, NARROW), np.float64)


def compiled(function, *args):
    lowered = jax.jit(function).lower(*args)
    return lowered.compile(features.compiler_options(lowered))


# In the last two, one factor is far narrower than the other.
@grids.diagonal(
    "rows, size, width, by_row, result",
    [(24, 40, 56), (96, 64, 8), (96, 8, 64)],
    [(True, NARROW), (False, jnp.float32), (False, NARROW), (True, jnp.float32)],
)
def test_values_and_gradients(tiles, rows, size, width, by_row, result):
    x, kernel, above = drawn(rows, size), drawn(size, width), drawn(rows, width)

    def product(x, kernel):
        if by_row:
            return products.with_rows(x, kernel.T, NARROW, result)
        return products.contract(x, kernel, dtype=NARROW, result=result)

    def both(x, kernel, above):
        out, pull = jax.vjp(product, x, kernel)
        return out, *pull(above.astype(result))

    out, of_x, of_kernel = compiled(both, x, kernel, above)(x, kernel, above)
    close = functools.partial(np.testing.assert_allclose, rtol=1e-5, atol=1e-4)
    expected = rounded(x) @ rounded(kernel)
    assert out.dtype == result
    close(out, expected if result == jnp.float32 else rounded(expected))
    # The gradient of the kernel is never rounded; the gradient of the inputs is, once.
    assert of_kernel.dtype == jnp.float32
    close(of_kernel, rounded(x).T @ rounded(above))
    close(of_x, rounded(rounded(above) @ rounded(kernel).T), rtol=1e-2, atol=1e-2)


def test_several_axes_are_contracted_in_the_type_asked_for():
    x, kernel = drawn(2, 3, 4, 5), drawn(4, 5, 6, 7)
    expected = np.einsum("abcd,cdef->abef", x, kernel)
    np.testing.assert_allclose(products.contract(x, kernel, 2), expected, atol=1e-5)
    narrow = products.contract(x, kernel, 2, NARROW)
    assert narrow.dtype == NARROW
    np.testing.assert_allclose(np.float32(narrow), expected, rtol=0.1, atol=0.1)


def test_all_products_of_a_step_have_kernels(tiles):
    """Transposes of left factors count, and products that are transposed afterwards."""
    x, kernel = drawn(64, 32), drawn(32, 48)

    def gradients(x, kernel):
        def loss(x, kernel):
            return jnp.sum(products.contract(x, kernel, dtype=NARROW).T ** 2)

        return jax.grad(loss, (0, 1))(x, kernel)

    program = compiled(gradients, x, kernel)
    jax.block_until_ready(program(x, kernel))
    code = program.as_text()
    assert code.count("kind=kCustom") == code.count(" dot(") == 3


@pytest.mark.parametrize(("policy", "count"), [("minimal", 6), ("full", 8)])
def test_rematerialization_keeps_these_products_too(policy, count):
    """Two products forward and four backward; the full policy repeats two."""
    kernel = drawn(16, 16)
    product = functools.partial(products.contract, dtype=NARROW, result=jnp.float32)

    def layer(x, kernel):
        return jnp.sum(jnp.sin(product(jnp.sin(product(x, kernel)), kernel)))

    name = parts._OURS[policy]
    kept = jax.checkpoint(layer, policy=getattr(jax.checkpoint_policies, name))
    program = jax.make_jaxpr(jax.grad(kept, (0, 1)))(drawn(8, 16), kernel)
    assert str(program).count("dot_general[") == count


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({}, True),
        ({"dtype": jnp.float32}, False),
        ({"flags": ""}, False),
        ({"flags": f"{OFF}LIBRARY_FUSION_TYPE_DOT"}, False),
        ({"tiles": False}, False),
    ],
)
def test_options_are_for_products_of_16_bits_on_such_a_cpu(
    monkeypatch, change, expected
):
    values = {"dtype": NARROW, "flags": OFF, "tiles": True, **change}
    monkeypatch.setattr(features, "has_bfloat16", lambda: values["tiles"])
    monkeypatch.setenv("XLA_FLAGS", values["flags"])
    product = functools.partial(products.contract, dtype=values["dtype"])
    lowered = jax.jit(product).lower(drawn(8, 16), drawn(16, 24))
    options = {features.YNN: "LIBRARY_FUSION_TYPE_INDIVIDUAL_DOT"} if expected else {}
    assert features.compiler_options(lowered) == options


def of_t5():
    config = network_kit.TINY.replace(dtype="bfloat16")
    module, params = network_kit.build(config)
    return module, params, network_kit.make_batch()


def of_decoder(family, **options):
    config = family.Config(
        vocab_size=23, emb_dim=16, num_layers=2, num_heads=2, head_dim=8, mlp_dim=24,
        dtype=NARROW, **options,
    )  # fmt: skip
    module = family.DecoderWrapper(config)
    start = functools.partial(module.init, enable_dropout=False)
    shapes = jax.eval_shape(start, jax.random.key(0), TOKENS, TOKENS)["params"]
    params = jax.tree.map(lambda leaf: 0.3 * drawn(*leaf.shape), shapes)
    return module, params, (TOKENS, TOKENS)


@pytest.mark.parametrize(
    "make",
    grids.first(
        1,
        [
            of_t5,
            functools.partial(of_decoder, llama, num_kv_heads=1, tie_embeddings=True),
            functools.partial(of_decoder, gpt2, num_positions=16),
        ],
    ),
    ids=["t5", "llama", "gpt2"],
)
def test_networks_train_with_these_kernels(tiles, make):
    """XLA has no kernel for products that only seem to fit; none may remain."""
    module, params, batch = make()

    def loss(params):
        logits = module.apply({"params": params}, *batch, enable_dropout=False)
        return jax.nn.log_softmax(logits)[..., 3].mean()

    program = compiled(jax.value_and_grad(loss), params)
    assert "ynn_fusion" in program.as_text()
    value, gradients = jax.block_until_ready(program(params))
    assert np.isfinite(value)
    norm = sum(jnp.sum(leaf**2) for leaf in jax.tree.leaves(gradients))
    assert np.isfinite(norm) and norm > 0
