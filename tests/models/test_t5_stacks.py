"""T5 as scanned stacks and back: same logits, gradients, weights, and files."""

import functools

import jax
import numpy as np
import pytest
from t5x.examples.scalable_t5 import network as scalable
from t5x.examples.t5 import network

from jaxaug.core.errors import UserError
from jaxaug.models import convert, t5_weights
from jaxaug.models.weights import families, t5x_layout

CONFIG = network.T5Config(
    vocab_size=20,
    emb_dim=8,
    num_heads=2,
    head_dim=4,
    mlp_dim=16,
    num_encoder_layers=2,
    num_decoder_layers=3,
    mlp_activations=("gelu", "linear"),
    logits_via_embedding=False,
)
INPUTS = np.array([[5, 6, 7, 1, 0, 0], [8, 9, 10, 11, 12, 1]])
TARGETS = np.array([[3, 4, 1, 0, 0], [13, 14, 15, 16, 1]])
SHIFTED = np.array([[0, 3, 4, 0, 0], [0, 13, 14, 15, 16]])


@pytest.fixture(scope="module")
def params():
    start = functools.partial(network.Transformer(CONFIG).init, enable_dropout=False)
    shapes = jax.eval_shape(start, jax.random.key(0), INPUTS, SHIFTED, TARGETS)
    draw = np.random.default_rng(0)
    return jax.tree.map(
        lambda x: np.float32(0.3 * draw.standard_normal(x.shape)), shapes["params"]
    )


def same(found, expected):
    assert jax.tree.structure(found) == jax.tree.structure(expected)
    jax.tree.map(np.testing.assert_array_equal, found, expected)


@pytest.mark.parametrize("axis", [0, 1])
def test_there_and_back(params, axis):
    stacked = t5_weights.stacked(params, t5_weights.scanned_config(CONFIG, axis))
    assert t5_weights.is_stacked(stacked) and not t5_weights.is_stacked(params)
    kernel = stacked["decoder"]["decoder"]["self_attention"]["out"]["kernel"]
    assert kernel.shape == ((3, 2, 4, 8) if axis == 0 else (2, 3, 4, 8))
    same(t5_weights.unstacked(stacked, "x"), params)


def test_logits_and_gradients_equal_t5(params):
    config = t5_weights.scanned_config(CONFIG)

    def loss(params, module):
        logits = module.apply(
            {"params": params}, INPUTS, SHIFTED, TARGETS, enable_dropout=False
        )
        return jax.nn.log_softmax(logits)[..., 3].sum(), logits

    compute = jax.jit(jax.value_and_grad(loss, has_aux=True), static_argnums=1)
    (_, expected), gradient = compute(params, network.Transformer(CONFIG))
    (_, logits), found = compute(
        t5_weights.stacked(params, config), scalable.Transformer(config)
    )
    np.testing.assert_allclose(logits, expected, atol=1e-5)
    wanted = t5_weights.stacked(gradient, config)
    for stack in ("encoder", "decoder"):
        # A bias shared by the stack gets the sum of the gradients of all layers.
        own = found[stack][stack].pop("relpos_bias")["rel_embedding"]
        shared = wanted[stack][stack].pop("relpos_bias")["rel_embedding"][:, 0]
        np.testing.assert_allclose(own.sum(1), shared, atol=1e-4)
    jax.tree.map(
        lambda a, b: np.testing.assert_allclose(a, b, atol=1e-4), found, wanted
    )


def test_convert_both_ways(params, tmp_path):
    t5 = families.FAMILIES["t5"]
    source = t5x_layout.write(
        tmp_path / "plain", t5, network.Transformer(CONFIG), params, step=7
    )
    there = convert.convert(source, tmp_path / "scanned", form="t5x", scan_layers=True)
    text = (tmp_path / "scanned/network.gin").read_text()
    assert "import network" in text and "scan_layers = True" in text
    stored = t5x_layout.read(there)
    assert stored.step == 7 and t5_weights.is_stacked(stored.params)
    back = convert.convert(there, tmp_path / "back", form="t5x")
    same(t5x_layout.read(back).params, params)


def test_input_that_cannot_be_converted(params, tmp_path):
    stacked = t5_weights.stacked(params, t5_weights.scanned_config(CONFIG))
    bias = stacked["encoder"]["encoder"]["relpos_bias"]
    bias["rel_embedding"] = bias["rel_embedding"] + np.arange(2)[:, None]
    with pytest.raises(
        UserError, match="here: the encoder's scanned layers have different posit"
    ):
        t5_weights.unstacked(stacked, "here")
    with pytest.raises(UserError, match="--scan-layers: use it with --format t5x"):
        convert.convert("any", tmp_path / "x", form="hf", scan_layers=True)
