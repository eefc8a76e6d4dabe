"""The layers, called as by networks of users."""

import functools
import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import linen as nn
from t5x import models
from t5x.examples.decoder_only import layers as decoder_only_layers
from t5x.examples.scalable_t5 import layers as scalable_layers
from t5x.examples.t5 import layers

KEY = jax.random.key(0, impl="rbg")


def ones(features, axis=-1, inputs=(2, 3, 4), module=layers, **options):
    dense = module.DenseGeneral(
        features, axis, kernel_init=nn.initializers.ones, **options
    )
    out, variables = dense.init_with_output(KEY, jnp.ones(inputs))
    return out, variables["params"]["kernel"].shape


def test_dense_without_axis_names():
    out, stored = ones((5, 6))
    np.testing.assert_array_equal(out, np.full((2, 3, 5, 6), 4.0))
    assert stored == (4, 30)
    out, stored = ones(5, axis=(-2, -1))
    np.testing.assert_array_equal(out, np.full((2, 5), 12.0))
    assert stored == (12, 5)


def test_scalable_dense_tells_its_initialiser_the_axes():
    seen = []

    def init(key, shape, dtype, in_axis, out_axis):
        seen.append((shape, tuple(in_axis), tuple(out_axis)))
        return jnp.ones(shape, dtype)

    dense = scalable_layers.DenseGeneral((5, 6), axis=(-2, -1), kernel_init=init)
    out, variables = dense.init_with_output(KEY, jnp.ones((2, 3, 4)))
    np.testing.assert_array_equal(out, np.full((2, 5, 6), 12.0))
    assert variables["params"]["kernel"].shape == (3, 4, 5, 6)
    assert seen == [((3, 4, 5, 6), (0, 1), (2, 3))]


def test_both_forms_of_attention_start_from_the_same_kernels():
    x = jnp.ones((1, 2, 6))
    sizes = {"num_heads": 2, "head_dim": 3, "name": "attention"}
    joined, split = (
        module.MultiHeadDotProductAttention(**sizes).init(KEY, x, x)["params"]
        for module in (layers, scalable_layers)
    )
    assert split["query"]["kernel"].shape == (6, 2, 3)
    assert split["out"]["kernel"].shape == (2, 3, 6)
    for name, kernel in jax.tree.map(np.asarray, joined).items():
        np.testing.assert_array_equal(
            split[name]["kernel"].reshape(6, 6), kernel["kernel"]
        )


@pytest.mark.parametrize(
    "module, init",
    [
        (layers, nn.initializers.constant(0.5)),
        (scalable_layers, lambda key, shape, *_: jnp.full(shape, 0.5)),
    ],
)
def test_mlp_with_kernels_of_the_user(module, init):
    block = module.MlpBlock(3, ("linear", "relu"), init)
    # `decode` comes second; networks may pass it by position.
    out, _ = block.init_with_output(KEY, jnp.ones((1, 2, 4)), True, deterministic=True)
    # (4 * 0.5) ** 2 in each of three hidden units, then times 0.5.
    np.testing.assert_array_equal(out, np.full((1, 2, 4), 6.0))


def embed(tokens, **options):
    table = jnp.arange(12.0).reshape(4, 3) + 1
    variables = {"params": {"embedding": table}}
    return layers.Embed(4, 3, **options).apply(variables, tokens)


def test_embedding_of_other_types_and_unknown_tokens():
    floats = jnp.array([[2.0, 0.0]])
    with pytest.raises(ValueError) as error:
        embed(floats)
    assert str(error.value) == (
        "Input type must be an integer or unsigned integer. Tokens came as float32: "
        "cast them, or give Embed cast_input_dtype='int32'."
    )
    rows = [[[7, 8, 9], [1, 2, 3]]]
    np.testing.assert_array_equal(embed(floats, cast_input_dtype="int32"), rows)
    np.testing.assert_array_equal(embed(jnp.array([[2, 0]]), one_hot=True), rows)
    unknown = embed(jnp.array([-1, 3, 4]), one_hot=True)
    np.testing.assert_array_equal(unknown, [[0, 0, 0], [10, 11, 12], [0, 0, 0]])


def test_masks_of_single_rows_and_with_more_batch_axes():
    mask = layers.make_decoder_mask(jnp.array([8, 4, 0]), jnp.float32)
    np.testing.assert_array_equal(mask, [[[1, 0, 0], [1, 1, 0], [0, 0, 0]]])
    causal = layers.make_causal_mask(jnp.ones((2, 4)), 3)
    assert causal.shape == (1, 1, 1, 2, 1, 4, 4)
    np.testing.assert_array_equal(causal[0, 0, 0, 1, 0], np.tri(4))
    pairs = layers.make_attention_mask(
        jnp.array([1, 2]), jnp.array([2, 2, 1]), jnp.equal, 1, jnp.int32
    )
    np.testing.assert_array_equal(pairs, [[[[0, 0, 1], [1, 1, 0]]]])
    assert pairs.dtype == jnp.int32


def test_biases_are_added():
    first, second = jnp.array([1.0, -2.0]), jnp.array([0.5, 4.0])
    combined = layers.combine_biases(None, first, None, second)
    np.testing.assert_array_equal(combined, [1.5, 2.0])
    assert layers.combine_biases(None, None) is None


def test_deterministic_attention_ignores_its_key():
    query, value = jnp.zeros((1, 1, 1, 2)), jnp.ones((1, 3, 1, 2))
    out = layers.dot_product_attention(
        query, value, value, None, KEY, 0.9, deterministic=True
    )
    np.testing.assert_allclose(out, np.ones((1, 1, 1, 2)), rtol=1e-6)


# Published networks decode with the biases of all positions.

LENGTH = 5


@pytest.fixture(scope="module")
def attention():
    module = layers.MultiHeadDotProductAttention(num_heads=2, head_dim=3)
    rng = np.random.default_rng(0)
    x = rng.standard_normal((3, LENGTH, 4), np.float32)
    bias = rng.standard_normal((1, 2, LENGTH, LENGTH), np.float32)
    params = {"params": module.init(KEY, x, x)["params"]}
    causal = layers.make_causal_mask(jnp.ones(x.shape[:2]))
    whole = module.apply(params, x, x, causal, bias)
    _, cache = module.apply(params, x, x, None, bias, decode=True, mutable=["cache"])

    @jax.jit
    def step(cache, column):
        return module.apply(
            {**params, **cache}, column, column, None, bias, decode=True,
            mutable="cache",
        )  # fmt: skip

    return module, params, x, bias, causal, whole, cache, step


def test_steps_take_their_row_of_the_biases(attention):
    *_, x, _, _, whole, cache, step = attention
    for i in range(LENGTH):
        out, cache = step(cache, x[:, i : i + 1])
        np.testing.assert_allclose(out[:, 0], whole[:, i], atol=1e-5)


def test_steps_after_prefills_of_different_lengths(attention):
    module, params, x, bias, causal, whole, cache, step = attention
    lengths = jnp.array([3, 1, 2])
    # A first query that sees the whole prompt, as in a prefix language model.
    sees_prompt = jnp.arange(LENGTH) < lengths[:, None, None, None]
    for options in (
        {"mask": causal, "prefill": True, "prefill_lengths": lengths},
        {"mask": jnp.broadcast_to(sees_prompt, causal.shape), "prefill": True},
    ):
        _, filled = module.apply(
            {**params, **cache}, x, x, bias=bias, mutable="cache", **options
        )
        assert filled["cache"]["cache_index"].tolist() == [3, 1, 2]
        column = jnp.stack([x[row, n] for row, n in enumerate(lengths)])[:, None]
        out, _ = step(filled, column)
        expected = jnp.stack([whole[row, n] for row, n in enumerate(lengths)])
        np.testing.assert_allclose(out[:, 0], expected, atol=1e-5)


def test_prefill_alone_or_with_lengths_only(attention):
    module, params, x, *_ = attention
    with pytest.raises(ValueError, match="prefill and decode cannot both be true"):
        module.apply(params, x, x, prefill=True, decode=True)
    with pytest.raises(ValueError, match="needs prefill_lengths, or a mask"):
        module.apply(params, x, x, prefill=True)


def test_the_gradient_of_biases_counts_all_pairs_in_bfloat16():
    """900 pairs of positions share an entry, too many for sums in bfloat16."""

    def gradient(dtype):
        module = decoder_only_layers.RelativePositionBiases(8, 16, 2, dtype)
        table = {"params": {"rel_embedding": jnp.zeros((2, 8))}}
        total = lambda table: module.apply(table, 60, 60, False).astype("f4").sum()
        return jax.grad(total)(table)["params"]["rel_embedding"]

    counts = gradient(jnp.float32)
    assert counts.sum() == 2 * 60 * 60 and counts[0, -1] > 900
    np.testing.assert_array_equal(gradient(jnp.bfloat16), counts)


def test_biases_are_cached_while_decoding():
    module = decoder_only_layers.RelativePositionBiases(8, 16, 2, jnp.float32)
    variables = module.init(KEY, LENGTH, LENGTH, False)
    first, cache = module.apply(
        variables, LENGTH, LENGTH, False, decode=True, mutable="cache"
    )
    np.testing.assert_array_equal(first, module.apply(variables, 5, 5, False))
    again = module.apply(
        {"params": {"rel_embedding": np.zeros((2, 8), np.float32)}, **cache},
        LENGTH,
        LENGTH,
        False,
        decode=True,
    )
    np.testing.assert_array_equal(again, first)
    for lengths, bidirectional, rule in (
        (
            (5, 6),
            False,
            "expected to have shape (1, 2, 5, 6) but instead has the shape",
        ),
        ((5, 5), True, "bidirectional RelativePositionBiases are not supported"),
    ):
        with pytest.raises(ValueError, match=re.escape(rule)):
            module.apply({**variables, **cache}, *lengths, bidirectional, decode=True)
    with pytest.raises(ValueError, match="decode-mode cannot be enabled during init"):
        module.init(KEY, LENGTH, LENGTH, False, decode=True)


# A model with a user-defined network, written like published ones.


class Stack(nn.Module):
    """One layer that computes its biases for all positions, also while decoding."""

    @nn.compact
    def __call__(
        self,
        decoder_input_tokens,
        decoder_target_tokens,
        decoder_segment_ids=None,
        decoder_positions=None,
        decoder_causal_attention=None,
        *,
        enable_dropout=True,
        decode=False,
        max_decode_length=None,
        prefill=None,
        prefill_lengths=None,
    ):
        length = decoder_input_tokens.shape[-1]
        if decode and max_decode_length:
            length = max_decode_length
        bias = decoder_only_layers.RelativePositionBiases(
            num_buckets=8, max_distance=16, num_heads=2, dtype=jnp.float32
        )(length, length, False, decode=decode)
        mask = None
        if not decode:
            mask = decoder_only_layers.make_decoder_mask(
                decoder_target_tokens=decoder_target_tokens,
                dtype=jnp.float32,
                decoder_causal_attention=decoder_causal_attention,
            )
        x = decoder_only_layers.Embed(
            20, 8, cast_input_dtype=jnp.int32, one_hot=True, name="tokens"
        )(decoder_input_tokens)
        x = x + decoder_only_layers.MultiHeadDotProductAttention(2, 4)(
            x, x, mask, bias, deterministic=True, decode=decode, prefill=prefill,
            prefill_lengths=prefill_lengths,
        )  # fmt: skip
        return decoder_only_layers.DenseGeneral(20, kernel_axes=("embed", "vocab"))(x)


class Ends:
    """A vocabulary whose EOS no network here gives."""

    eos_id = 19


def test_a_network_of_a_user_decodes_what_it_scores_best():
    model = models.DecoderOnlyModel(Stack(), Ends(), None)
    prompt = np.array([[0, 9, 4, 6, 0, 0, 0], [0, 7, 0, 0, 0, 0, 0]], np.int32)
    lengths = [3, 1]
    batch = {
        "decoder_input_tokens": prompt,
        "decoder_causal_attention": (np.arange(7) <= np.array([[3], [1]])).astype(int),
    }
    init = functools.partial(
        model.get_initial_variables, input_shapes={"decoder_input_tokens": (2, 7)}
    )
    params = jax.eval_shape(init, KEY)["params"]
    rng = np.random.default_rng(7)
    params = jax.tree.map(
        lambda x: 0.3 * rng.standard_normal(x.shape).astype(np.float32), params
    )
    found = jax.jit(model.predict_batch)(params, batch)

    @jax.jit
    def logits(tokens):
        # Column j sees the leading BOS and the tokens up to j.
        return model.module.apply({"params": params}, tokens, jnp.ones_like(tokens))

    expected = np.zeros((2, 7), int)
    for row, length in enumerate(lengths):
        tokens = prompt[row : row + 1].copy()
        for column in range(length, 7):
            best = int(jnp.argmax(logits(tokens)[0, column]))
            expected[row, column - length] = best
            if column < 6:
                tokens[0, column + 1] = best
    np.testing.assert_array_equal(found, expected)
    assert len(np.unique(expected)) > 5
