"""Initialization of models without a checkpoint, also with reading heads."""

import functools

import flax
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from t5x import models
from t5x.examples.scalable_t5 import network as scalable
from t5x.examples.t5 import network

from jaxaug.core.errors import UserError
from jaxaug.models import bart, t5
from jaxaug.paraphrase import samplers
from jaxaug_papers.dips import lstm

SHAPES = {
    "encoder_input_tokens": (2, 8),
    "decoder_input_tokens": (2, 4),
    "decoder_target_tokens": (2, 4),
}


class Words:
    eos_id = 1
    unk_id = 2
    vocab_size = 32


def initial(model, seed):
    init = functools.partial(model.get_initial_variables, input_shapes=SHAPES)
    return jax.jit(init)(jax.random.PRNGKey(seed))


def variables(cls, **kwargs):
    config = network.T5Config(
        vocab_size=32, emb_dim=8, num_heads=4, num_encoder_layers=1,
        num_decoder_layers=1, head_dim=4, mlp_dim=16,
    )  # fmt: skip
    model = cls(network.Transformer(config), Words(), Words(), None, **kwargs)
    found = initial(model, 3)
    return flax.traverse_util.flatten_dict(flax.core.unfreeze(found))


def test_only_the_relative_biases_differ_and_have_the_deviation():
    plain = variables(models.EncoderDecoderModel)
    wide = variables(t5.ScratchEncoderDecoderModel, relpos_stddev=2.0)
    assert plain.keys() == wide.keys()
    redrawn = [path for path in plain if path[-1] == "rel_embedding"]
    assert len(redrawn) == 2
    for path, value in plain.items():
        same = np.array_equal(
            jax.tree.leaves(value)[:1], jax.tree.leaves(wide[path])[:1]
        )
        assert same == (path not in redrawn), path
    values = np.concatenate([np.ravel(wide[path]) for path in redrawn])
    assert 1.7 < values.std() < 2.3  # 256 normal draws
    assert not np.array_equal(wide[redrawn[0]], wide[redrawn[1]])


@pytest.mark.parametrize("offset", [0, 1])
def test_the_decode_function_sees_source_and_embeddings_by_id(offset):
    """An offset puts token i into row i - 1 of BART's table."""
    config = bart.Config(
        family="bart", vocab_size=12, emb_dim=8, num_encoder_layers=1,
        num_decoder_layers=1,
        num_encoder_heads=2, num_decoder_heads=2, encoder_mlp_dim=8, decoder_mlp_dim=8,
        num_positions=16, id_offset=offset,
    )  # fmt: skip
    seen = {}

    def decode_fn(inputs, cache, tokens_to_logits, *, alpha, decode_rng, **kwargs):
        seen.update(kwargs, alpha=alpha, key=decode_rng)
        return jnp.zeros((2, 1, 4), jnp.int32), jnp.zeros((2, 1))

    model = t5.SourceEncoderDecoderModel(
        bart.Bart(config), Words(), Words(), None, decode_fn=decode_fn
    )
    params = initial(model, 0)["params"]
    batch = {name: jnp.ones(shape, jnp.int32) for name, shape in SHAPES.items()}
    given, key = {"alpha": 0.5}, jax.random.PRNGKey(8)
    model.predict_batch_with_aux(params, batch, rng=key, decoder_params=given)
    assert given == {"alpha": 0.5} and seen["alpha"] == 0.5 and seen["eos_id"] == 1
    np.testing.assert_array_equal(seen["key"], key)
    table = params["token_embedder"]["embedding"]
    np.testing.assert_array_equal(seen["source"], batch["encoder_input_tokens"])
    assert seen["embeddings"].shape == (12 + offset, 8)
    np.testing.assert_array_equal(seen["embeddings"][offset:], table)
    module = model.module.bind({"params": params})
    own = module.token_embedder(jnp.array([[1, 5]]))[0]
    np.testing.assert_array_equal(own[1], seen["embeddings"][5])
    np.testing.assert_array_equal(seen["embeddings"][:offset], 0)


@pytest.mark.parametrize("written", [True, False])
def test_the_unknown_word_is_written_only_if_allowed(written):
    config = lstm.Config(vocab_size=8, emb_dim=4, hidden_dim=4, num_layers=1)
    sampler = samplers.find("sampling")
    model = t5.SourceEncoderDecoderModel(
        lstm.Transducer(config), Words(), Words(), None,
        decode_fn=sampler.build(64, sampler.complete({})), writes_unknown=written,
    )  # fmt: skip
    batch = {name: jnp.full(shape, 3, jnp.int32) for name, shape in SHAPES.items()}
    predict = functools.partial(
        model.predict_batch_with_aux, return_all_decodes=True, num_decodes=64
    )
    decodes, _ = jax.jit(predict)(
        initial(model, 0)["params"], batch, rng=jax.random.PRNGKey(0),
        decoder_params={"input_ids": jnp.arange(2)},
    )  # fmt: skip
    # One token in about eight, of 512, if nothing forbids it.
    share = np.mean(np.asarray(decodes) == Words.unk_id)
    assert share > 0.05 if written else share == 0


HEADS, SIZE, WIDTH = 4, 32, 96


def transformer(net=network, num_heads=HEADS):
    config = net.T5Config(
        vocab_size=64, emb_dim=WIDTH, num_heads=num_heads, num_encoder_layers=2,
        num_decoder_layers=2, head_dim=SIZE, mlp_dim=16,
    )  # fmt: skip
    return net.Transformer(config)


class ManyWords:
    eos_id = 1
    vocab_size = 64


def initial_params(net=network, num_heads=HEADS, **options):
    """Returns a function of a key that gives parameters."""
    module = transformer(net, num_heads)
    model = t5.ScratchEncoderDecoderModel(
        module, ManyWords(), ManyWords(), None, **options
    )

    def params(key):
        found = model.get_initial_variables(key, SHAPES)
        return flax.core.unfreeze(found["params"])

    return params


@functools.cache
def params(**options):
    return jax.jit(initial_params(**options))(jax.random.PRNGKey(3))


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
        jax.eval_shape(
            initial_params(num_heads=2, reading_heads=True), jax.random.PRNGKey(3)
        )
    scanned = jax.eval_shape(initial_params(scalable), jax.random.PRNGKey(3))
    with pytest.raises(
        UserError, match="and layers that are not scanned. Set it to False"
    ):
        t5.with_reading_heads(scanned)
