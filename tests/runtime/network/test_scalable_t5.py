"""T5 over scanned layers equals unrolled layers, and T5."""

import dataclasses
import functools
import types

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import traverse_util
from flax.core import unfreeze
from t5x import decoding, models
from t5x.errors import UserError
from t5x.examples.scalable_t5 import network
from t5x.examples.t5 import network as t5_network

from tests.support import grids

SCANNED = network.T5Config(
    vocab_size=20, emb_dim=8, num_heads=2, head_dim=4, mlp_dim=16, num_encoder_layers=2,
    num_decoder_layers=3, mlp_activations=("gelu", "linear"),
)  # fmt: skip
UNROLLED = dataclasses.replace(SCANNED, scan_layers=False)
INPUTS = np.array([[5, 6, 7, 1, 0, 0], [8, 9, 10, 11, 12, 1]])
TARGETS = np.array([[3, 4, 1, 0, 0], [13, 14, 15, 16, 1]])
SHIFTED = np.array([[0, 3, 4, 0, 0], [0, 13, 14, 15, 16]])


def shapes_of(config):
    start = functools.partial(network.Transformer(config).init, enable_dropout=False)
    shapes = jax.eval_shape(start, jax.random.key(0), INPUTS, SHIFTED, TARGETS)
    return unfreeze(shapes)


def random_params(config):
    rng = np.random.default_rng(0)
    return jax.tree.map(
        lambda x: np.float32(0.5 * rng.standard_normal(x.shape)),
        shapes_of(config)["params"],
    )


def unroll(params, axis=1):
    """Returns parameters of the scanned network in the layout of the unrolled one."""
    flat = {}
    for path, value in traverse_util.flatten_dict(params).items():
        if path[:2] not in (("encoder", "encoder"), ("decoder", "decoder")):
            flat[path] = value
            continue
        for i, layer in enumerate(np.moveaxis(value, axis, 0)):
            flat[path[0], f"layers_{i}", *path[2:]] = layer
    return traverse_util.unflatten_dict(flat)


@functools.partial(jax.jit, static_argnums=0)
def logits(config, params, rng=None):
    return network.Transformer(config).apply(
        {"params": params},
        INPUTS,
        SHIFTED,
        TARGETS,
        enable_dropout=rng is not None,
        rngs=None if rng is None else {"dropout": rng},
    )


def test_scanned_equals_unrolled():
    params = random_params(SCANNED)
    expected = logits(UNROLLED, unroll(params))
    assert np.abs(expected).max() > 1
    np.testing.assert_allclose(logits(SCANNED, params), expected, atol=1e-5)


def test_other_scan_axis():
    config = dataclasses.replace(SCANNED, param_scan_axis=0)
    params = random_params(config)
    expected = logits(UNROLLED, unroll(params, axis=0))
    np.testing.assert_allclose(logits(config, params), expected, atol=1e-5)


@pytest.mark.parametrize(
    ("policy", "scan"), grids.first(1, [("dots_saveable", False), ("minimal", True)])
)
def test_rematerialisation_changes_no_value_and_no_gradient(policy, scan):
    plain = dataclasses.replace(
        SCANNED, scan_layers=scan, num_encoder_layers=1, num_decoder_layers=1
    )
    saving = dataclasses.replace(plain, remat_policy=policy)
    params = random_params(plain)
    # Threefry, the default, compiles slowly.
    rng = jax.random.key(1, impl="rbg")

    def loss(params, config):
        log_probs = jax.nn.log_softmax(logits(config, params, rng))
        return log_probs[..., 3].sum()

    value_and_gradient = jax.jit(jax.value_and_grad(loss), static_argnums=1)
    value, gradient = value_and_gradient(params, plain)
    same_value, same_gradient = value_and_gradient(params, saving)
    np.testing.assert_allclose(value, same_value, rtol=1e-6)
    jax.tree.map(
        lambda a, b: np.testing.assert_allclose(a, b, atol=2e-4),
        gradient,
        same_gradient,
    )
    # The backward pass does recompute.
    text = str(jax.make_jaxpr(jax.grad(loss), static_argnums=1)(params, saving))
    assert "remat" in text or "checkpoint" in text


def test_unknown_policy_is_named_with_the_choices():
    config = dataclasses.replace(SCANNED, remat_policy="some")
    with pytest.raises(UserError, match="remat_policy = 'some'.*'minimal' or 'full'"):
        shapes_of(config)


def test_parameter_tree_and_logical_axes():
    variables = shapes_of(SCANNED)
    params = traverse_util.flatten_dict(variables["params"], sep="/")
    axes = traverse_util.flatten_dict(variables["params_axes"], sep="/")
    table = {
        name: (p.shape, tuple(axes[f"{name}_axes"].names)) for name, p in params.items()
    }
    layer, attention = "decoder/decoder", "decoder/decoder/self_attention"
    expected = {
        "token_embedder/embedding": ((20, 8), ("vocab", "embed")),
        f"{attention}/query/kernel": ((8, 3, 2, 4), ("embed", "layers", "heads", "kv")),
        f"{attention}/out/kernel": ((2, 3, 4, 8), ("heads", "layers", "kv", "embed")),
        f"{layer}/mlp/wi_0/kernel": ((8, 3, 16), ("embed", "layers", "mlp")),
        f"{layer}/pre_mlp_layer_norm/scale": ((8, 3), ("embed", "layers")),
        f"{layer}/relpos_bias/rel_embedding": ((2, 3, 32),
         ("heads", "layers", "relpos_buckets")),
        "decoder/decoder_norm/scale": ((8,), ("embed",)),
        "decoder/logits_dense/kernel": ((8, 20), ("embed", "vocab")),
        "encoder/encoder/attention/key/kernel": ((8, 2, 2, 4),
         ("embed", "layers", "heads", "kv")),
    }  # fmt: skip
    assert {name: table[name] for name in expected} == expected
    assert len(table) == 29


def test_equals_t5_where_layers_have_the_same_position_bias():
    params = unroll(random_params(SCANNED))
    flat = traverse_util.flatten_dict(params)
    t5_params = {}
    for path, value in flat.items():
        if "relpos_bias" in path:
            value = flat[path[0], "layers_0", *path[2:]]
            flat[path] = value
            t5_params[path[0], *path[2:]] = value
        elif path[-2] in ("query", "key", "value") or path[-2] == "out":
            t5_params[path] = value.reshape(8, 8)
        else:
            t5_params[path] = value
    fields = dataclasses.fields(t5_network.T5Config)
    config = t5_network.T5Config(**{f.name: getattr(SCANNED, f.name) for f in fields})
    expected = jax.jit(
        functools.partial(t5_network.Transformer(config).apply, enable_dropout=False)
    )({"params": traverse_util.unflatten_dict(t5_params)}, INPUTS, SHIFTED, TARGETS)
    ours = logits(UNROLLED, traverse_util.unflatten_dict(flat))
    np.testing.assert_allclose(ours, expected, atol=1e-5)


@pytest.mark.parametrize(
    "decode_fn",
    grids.first(1, [decoding.beam_search, decoding.temperature_sample]),
)
def test_decoding_with_a_layer_axis_in_the_cache(decode_fn):
    vocabulary = types.SimpleNamespace(eos_id=1)
    batch = {"encoder_input_tokens": INPUTS, "decoder_input_tokens": SHIFTED}
    params = random_params(SCANNED)
    greedy = {"temperature": 0.0, "topk": 0}
    options = greedy if decode_fn is decoding.temperature_sample else {}

    def predict(config, params):
        module = network.Transformer(config)
        model = models.EncoderDecoderModel(
            module, vocabulary, vocabulary, None, decode_fn
        )
        assert model._cache_offset == int(config.scan_layers)
        return model.predict_batch_with_aux(
            params,
            batch,
            decoder_params=options,
            num_decodes=2,
            return_all_decodes=True,
        )

    predict = jax.jit(predict, static_argnums=0)
    decodes, aux = predict(SCANNED, params)
    expected, expected_aux = predict(UNROLLED, unroll(params))
    assert decodes.shape == (2, 2, 5) and jnp.unique(decodes).size > 2
    np.testing.assert_array_equal(decodes, expected)
    np.testing.assert_allclose(aux["scores"], expected_aux["scores"], atol=1e-4)
