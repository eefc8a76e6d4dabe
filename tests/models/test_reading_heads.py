"""Three heads whose initial weights help to read a schema."""

import functools

import flax
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from t5x.examples.scalable_t5 import network as scalable
from t5x.examples.t5 import network

from jaxaug.core.errors import UserError
from jaxaug.models import t5

HEADS, SIZE, WIDTH = 4, 32, 96
SHAPES = {
    "encoder_input_tokens": (2, 8),
    "decoder_input_tokens": (2, 4),
    "decoder_target_tokens": (2, 4),
}


def transformer(net=network, num_heads=HEADS):
    config = net.T5Config(
        vocab_size=64, emb_dim=WIDTH, num_heads=num_heads, num_encoder_layers=2,
        num_decoder_layers=2, head_dim=SIZE, mlp_dim=16,
    )  # fmt: skip
    return net.Transformer(config)


class Words:
    eos_id = 1
    vocab_size = 64


def initial(net=network, num_heads=HEADS, **options):
    """Returns a function of a key that gives parameters."""
    module = transformer(net, num_heads)
    model = t5.ScratchEncoderDecoderModel(module, Words(), Words(), None, **options)

    def params(key):
        found = model.get_initial_variables(key, SHAPES)
        return flax.core.unfreeze(found["params"])

    return params


@functools.cache
def params(**options):
    return jax.jit(initial(**options))(jax.random.PRNGKey(3))


def flat(tree):
    return {"/".join(k): v for k, v in flax.traverse_util.flatten_dict(tree).items()}


def test_only_queries_keys_and_position_tables_are_set():
    plain, made = flat(params()), flat(params(reading_heads=True))
    assert plain.keys() == made.keys()
    for path, value in plain.items():
        own = path.startswith("encoder") and path.endswith(
            ("rel_embedding", "attention/query/kernel", "attention/key/kernel")
        )
        assert np.array_equal(value, made[path]) != own, path
    # The fourth head keeps its draw; queries and keys keep all but the third.
    table = "encoder/relpos_bias/rel_embedding"
    np.testing.assert_array_equal(plain[table][3], made[table][3])
    query = "encoder/layers_1/attention/query/kernel"
    kept = np.ones(HEADS * SIZE, bool)
    kept[2 * SIZE : 3 * SIZE] = False
    np.testing.assert_array_equal(plain[query][:, kept], made[query][:, kept])


@pytest.mark.parametrize("layer", [0, 1])
def test_initial_heads_attend_left_right_and_to_equal_tokens(layer):
    """Tokens 5 and 9 of twelve are equal; checks where the first three heads attend."""
    made = params(reading_heads=True)["encoder"]
    draws = np.random.default_rng(0).standard_normal((12, WIDTH))
    draws[9] = draws[5]
    attention = made[f"layers_{layer}"]["attention"]

    def by_head(name):
        return (draws @ np.asarray(attention[name]["kernel"])).reshape(12, HEADS, SIZE)

    logits = np.einsum("qhd,khd->hqk", by_head("query"), by_head("key"))
    table = np.asarray(made["relpos_bias"]["rel_embedding"])
    distance = np.arange(12)[None, :] - np.arange(12)[:, None]
    buckets = np.where(
        distance > 0, 16 + np.minimum(distance, 15), np.minimum(-distance, 15)
    )
    weights = np.asarray(
        jax.nn.softmax(jnp.asarray(logits + table[:, buckets]), axis=-1)
    )
    left = sum(np.diagonal(weights[0], -n)[4:].mean() for n in (1, 2, 3, 4))
    right = sum(np.diagonal(weights[1], n)[:4].mean() for n in (1, 2, 3, 4))
    assert left > 0.8
    assert right > 0.8
    assert weights[2, 5].argmax() == 9
    assert weights[2, 9].argmax() == 5
    assert min(weights[2, 5, 9], weights[2, 9, 5]) > 0.9


def test_networks_that_cannot_have_them():
    with pytest.raises(
        UserError, match="needs 3 heads, and the network has 2. Give it m"
    ):
        jax.eval_shape(initial(num_heads=2, reading_heads=True), jax.random.PRNGKey(3))
    scanned = jax.eval_shape(initial(scalable), jax.random.PRNGKey(3))
    with pytest.raises(
        UserError, match="and layers that are not scanned. Set it to False"
    ):
        t5.with_reading_heads(scanned)
