"""The sampling loop: exact tokens, keys that belong to the input, parity with T5X."""

import functools

import flax.core
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from decode_kit import (
    EOS,
    VOCAB,
    prefix_log_probs,
    random_prompts,
    random_table,
    scripted_model,
    table_cache,
    table_model,
    towards,
)
from t5x import decoding

from jaxaug.core.errors import UserError
from jaxaug.decode import contract, keys, warpers
from jaxaug.decode.sample import sample

GREEDY = (warpers.top_k(1),)
TEXTS = [
    [2, 3, 4, EOS, 2, 2],
    [EOS, 4, 4, 4, 4, 4],
    [3, 3, 3, 3, 3, 3],
    [4, EOS, 2, 3, 4, 2],
    [2, 2, 2, 2, EOS, 3],
    [0, 2, EOS, 2, 2, 2],
    [4, 3, 2, 4, 3, EOS],
]
CUT = [
    [2, 3, 4, EOS, 0, 0],
    [EOS, 0, 0, 0, 0, 0],
    [3, 3, 3, 3, 3, 3],
    [4, EOS, 0, 0, 0, 0],
    [2, 2, 2, 2, EOS, 0],
    [0, 2, EOS, 0, 0, 0],
    [4, 3, 2, 4, 3, EOS],
]


@functools.partial(jax.jit, static_argnames=("options",))
def sample_table(table, inputs, cache, options=(), **arrays):
    return sample(inputs, cache, table_model(table), EOS, **dict(options), **arrays)


def options(**given):
    return tuple(sorted(given.items()))


@pytest.mark.parametrize(
    ("chain", "batch", "decodes"),
    [(GREEDY, 1, 1), (GREEDY, 7, 1), (GREEDY, 7, 3), ((), 7, 3)],
    ids=["greedy-1-1", "greedy-7-1", "greedy-7-3", "pure-7-3"],
)
def test_scripted_tokens(batch, decodes, chain):
    """Even pure sampling has no choice where one token has nearly all the mass."""
    model, cache = scripted_model(towards(TEXTS[:batch], height=60.0))
    tokens, scores = jax.jit(
        lambda cache: sample(
            jnp.zeros((batch, 6), jnp.int32),
            cache,
            model,
            EOS,
            num_decodes=decodes,
            warpers=chain,
        )
    )(cache)
    assert tokens.shape == (batch, decodes, 6) and scores.shape == (batch, decodes)
    for decode in range(decodes):
        assert tokens[:, decode].tolist() == CUT[:batch]
    np.testing.assert_allclose(scores, 0.0, atol=1e-5)


@pytest.mark.parametrize("prefilled", [False, True])
def test_prompts_of_uneven_length(prefilled):
    """The script says 2 2 2 ..., and EOS at the fifth place; prompts override it."""
    script = towards([[2, 2, 2, 2, EOS, 2]] * 4)
    inputs = np.array(
        [[0] * 6, [0, 4, 0, 0, 0, 0], [0, EOS, 3, EOS, 0, 0], [0, 3, 3, 4, 4, 4]]
    )
    start = jnp.array([0, 1, 3, 5]) if prefilled else None
    model, cache = scripted_model(script)
    tokens, _ = sample(
        jnp.asarray(inputs), cache, model, EOS, warpers=GREEDY, initial_index=start
    )
    assert tokens[:, 0].tolist() == [
        [2, 2, 2, 2, EOS, 0],
        [4, 2, 2, 2, EOS, 0],
        [EOS, 3, EOS, 2, EOS, 0],  # an EOS of the prompt ends nothing
        [3, 3, 4, 4, 4, 2],
    ]


def test_max_decode_steps_counts_from_the_prompt():
    model, cache = scripted_model(towards([[2, 3, 4, 2, 3, 4]] * 3))
    inputs = jnp.array([[0, 0, 0, 0, 0, 0], [0, 4, 4, 0, 0, 0], [0, 4, 4, 4, 4, 4]])
    tokens, _ = sample(inputs, cache, model, EOS, warpers=GREEDY, max_decode_steps=2)
    assert tokens[:, 0].tolist() == [
        [2, 3, 0, 0, 0, 0],
        [4, 4, 4, 2, 0, 0],
        [4, 4, 4, 4, 4, 4],
    ]
    for steps in (0, 7):
        with pytest.raises(UserError, match=f"max_decode_steps is {steps}.*length"):
            sample(inputs, cache, model, EOS, max_decode_steps=steps)


def test_steps_of_a_warper_count_generated_tokens():
    """bottom_k(1, 1) takes the second best for the first free token of each row."""
    script = 9.0 * np.eye(VOCAB)[[2] * 5] + 4.0 * np.eye(VOCAB)[[3] * 5]
    model, cache = scripted_model(np.stack([script] * 3))
    inputs = jnp.array([[0, 0, 0, 0, 0], [0, 4, 0, 0, 0], [0, 4, 4, 4, 0]])
    chain = (warpers.bottom_k(1, 1, then=GREEDY), warpers.top_k(1))
    tokens, _ = sample(inputs, cache, model, EOS, warpers=chain)
    assert tokens[:, 0].tolist() == [
        [3, 2, 2, 2, 2],
        [4, 3, 2, 2, 2],
        [4, 4, 4, 3, 2],
    ]


@pytest.mark.parametrize("prefilled", [False, True])
@pytest.mark.parametrize(("batch", "decodes"), [(1, 1), (7, 3)])
def test_greedy_equals_t5x(batch, decodes, prefilled):
    rng = np.random.RandomState(batch)
    theirs_jitted = jax.jit(
        lambda table, inputs, cache, start: decoding.temperature_sample(
            inputs,
            cache,
            table_model(table),
            EOS,
            num_decodes=decodes,
            temperature=0.0,
            initial_index=start if prefilled else None,
        )
    )
    ended = 0
    for seed in range(10):
        table = random_table(seed)
        inputs, prompts = random_prompts(rng, batch, 9)
        start = prompts if prefilled else None
        cache = table_cache(inputs, start)
        ours = sample_table(
            table,
            inputs,
            cache,
            options(num_decodes=decodes, warpers=GREEDY),
            initial_index=start,
        )
        theirs = theirs_jitted(table, inputs, cache, prompts)
        np.testing.assert_array_equal(ours[0], theirs[0])
        np.testing.assert_allclose(ours[1], theirs[1], atol=1e-6)
        ended += np.sum(np.asarray(ours[0]) == EOS)
    assert ended > 0


@pytest.mark.parametrize("rescale", [True, False])
def test_scores_are_summed_log_probs_in_ascending_order(rescale):
    table = random_table(5)
    inputs = np.array([[0, 0, 0, 0, 0, 0], [0, 3, 2, 0, 0, 0]], np.int32)
    tokens, scores = sample_table(
        table,
        inputs,
        table_cache(inputs),
        options(
            num_decodes=6,
            warpers=(warpers.temperature(1.7),),
            rescale_log_probs=rescale,
            seed=2,
        ),
    )
    assert len({tuple(t) for t in np.asarray(tokens[0]).tolist()}) > 2
    scale = 1.7 if rescale else 1.0
    for row, prompt in enumerate([0, 2]):
        assert (np.diff(scores[row]) >= 0).all()
        for decode in range(6):
            text = np.asarray(tokens[row, decode]).tolist()
            end = text.index(EOS) + 1 if EOS in text else len(text)
            assert not any(text[end:])
            expected = sum(
                prefix_log_probs(table / scale, text[:i])[text[i]]
                for i in range(prompt, end)
            )
            np.testing.assert_allclose(scores[row, decode], expected, atol=1e-4)


def sources(batch, width=8):
    rng = np.random.RandomState(4)
    source = np.zeros((batch, width), np.int32)
    for row in range(batch):
        size = rng.randint(2, width)
        source[row, :size] = [*rng.randint(2, 90, size - 1), EOS]
    return source


def test_results_do_not_depend_on_the_batch():
    table, source = random_table(1), sources(7)
    inputs, _ = random_prompts(np.random.RandomState(3), 7, 10)
    chain = (warpers.bottom_k(1, 2, then=(warpers.top_p(0.9),)),)
    settings = options(num_decodes=3, warpers=chain, seed=11)

    def run(rows, width=8):
        wide = np.pad(source[rows], ((0, 0), (0, width - 8)))
        tokens, scores = sample_table(
            table, inputs[rows], table_cache(inputs[rows]), settings, source=wide
        )
        return np.asarray(tokens), np.asarray(scores)

    everything = run(np.arange(7))
    assert len(np.unique(everything[0].reshape(21, -1), axis=0)) > 12
    # More padding of the source changes nothing either.
    for rows, width in (([3], 8), ([6, 0, 4, 2, 2], 13)):
        tokens, scores = run(np.array(rows), width)
        np.testing.assert_array_equal(tokens, everything[0][rows])
        np.testing.assert_allclose(scores, everything[1][rows], atol=1e-5)


def test_more_decodes_keep_the_first_ones():
    inputs, source = np.zeros((2, 6), np.int32), sources(2)
    found = {}
    for decodes in (2, 5):
        tokens, _ = sample_table(
            random_table(2),
            inputs,
            table_cache(inputs),
            options(num_decodes=decodes, seed=0),
            source=source,
        )
        found[decodes] = np.asarray(tokens).tolist()
    for few, many in zip(found[2], found[5], strict=True):
        for text in few:
            assert text in many


def test_seed_ids_and_key_change_the_draws():
    table = random_table(0, scale=0.3)
    table[:, EOS] = -9.0
    inputs = np.zeros((1, 12), np.int32)
    run = functools.partial(sample_table, table, inputs, table_cache(inputs))
    zero, five = jax.random.PRNGKey(0), jax.random.PRNGKey(5)
    texts = [
        run(decode_rng=zero)[0],
        run(decode_rng=five)[0],
        run(decode_rng=zero, input_ids=np.array([1]))[0],
        run(decode_rng=zero, source=np.array([[4, 1]]))[0],
    ]
    flat = {tuple(np.asarray(text).ravel().tolist()) for text in texts}
    assert len(flat) == 4
    np.testing.assert_array_equal(run()[0], texts[0])
    np.testing.assert_array_equal(run(options(seed=5), decode_rng=zero)[0], texts[1])


def test_identities():
    rows = keys.hash_rows(jnp.array([[5, 6, 0], [6, 5, 0], [0, 5, 6], [5, 0, 0]]))
    assert len(set(rows.tolist())) == 4
    assert keys.hash_rows(jnp.array([[5, 6]]))[0] == rows[0]
    many = np.random.RandomState(0).randint(0, 3, (3000, 12))
    distinct = len({tuple(row) for row in many.tolist()})
    assert len(set(np.asarray(keys.hash_rows(jnp.asarray(many))).tolist())) == distinct

    prompts = jnp.array([[0, 0], [0, 4], [0, 0]])
    places = keys.input_identities(prompts)
    assert places[0] == 0 and places[2] == 2
    assert places[1] == keys.hash_rows(prompts)[1]
    assert keys.input_identities(prompts, None, jnp.array([7, 8, 9])).tolist() == [
        7,
        8,
        9,
    ]


def test_cache_may_be_frozen_and_scanned():
    """Leaves with a leading layer axis, a shared index, and a frozen container."""
    table = random_table(3)
    inputs = jnp.zeros((2, 5), jnp.int32)

    def model(state):
        assert state.cache["hidden"].shape == (2, 6)
        hidden = state.cache["hidden"] * 7 + state.cur_token[:, 0] + 3
        cache = {"hidden": hidden % 211, "cache_index": state.cache["cache_index"] + 1}
        return jnp.asarray(table)[hidden[0] % 211], cache

    cache = {"hidden": jnp.zeros((2, 2), jnp.int32), "cache_index": jnp.array(0)}
    tokens, _ = sample(
        inputs, flax.core.freeze(cache), model, EOS, 3, seed=1, cache_offset=1
    )
    plain, _ = sample(inputs, table_cache(inputs), table_model(table), EOS, 3, seed=1)
    np.testing.assert_array_equal(tokens, plain)


BAD = pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])


def broken_script(bad):
    """Row 1 has one logit that is no finite number at step 2."""
    script = np.array(towards([[2, 3, 4, 2], [3, 3, 3, 3]]))
    script[1, 2, 4] = bad
    return script


NAMED = r"^decoding step 2 \(counted from 0\) of row 1: the logits of the model are NaN"


def test_logits_that_are_no_numbers_are_an_error_that_names_the_step():
    model, cache = scripted_model(broken_script(np.nan))
    with pytest.raises(UserError, match=f"{NAMED} or infinite"):
        sample(jnp.zeros((2, 4), jnp.int32), cache, model, EOS, 2)


@functools.partial(jax.jit, static_argnames=("chain",))
def sample_script(script, inputs, chain):
    model, cache = scripted_model(script)
    return sample(inputs, cache, model, EOS, 2, warpers=chain)


@pytest.mark.parametrize("chain", [(), GREEDY, (warpers.bottom_k(1),)])
@BAD
def test_a_compiled_program_hands_the_error_on(bad, chain):
    script = broken_script(bad)
    tokens, scores = sample_script(script, np.zeros((2, 4), np.int32), chain)
    # A decode of another chain may have ended before.
    broken = np.asarray(tokens[..., 2] == contract.BROKEN)
    assert not broken[0].any() and broken[1].any()
    assert tokens[..., 3][broken].tolist() == [0] * broken.sum()
    np.testing.assert_array_equal(np.isnan(scores), broken)
    with pytest.raises(UserError, match=f"{NAMED} or infinite"):
        contract.check_decodes(tokens)
    if chain is GREEDY:
        assert tokens[0].tolist() == [[2, 3, 4, 2]] * 2
        assert tokens[1].tolist() == [[3, 3, contract.BROKEN, 0]] * 2
    # What is forced needs no logits.
    forced = np.array([[0, 0, 0, 0], [0, 3, 3, 4]], np.int32)
    again = sample_script(script, forced, chain)[0]
    assert again[1, :, :3].tolist() == [[3, 3, 4]] * 2
    assert chain is not GREEDY or again[1, :, 3].tolist() == [3, 3]


def test_what_the_model_forbids_is_no_way_out():
    """A row of which nothing else would be left keeps its tokens instead."""
    script = np.zeros((1, 4, 4), np.float32)
    script[..., 0] = -1e10
    model, cache = scripted_model(script)
    inputs = jnp.array([[0, 1, 2, 3]])
    chain = (warpers.no_repeat_ngrams(1),)
    tokens, _ = sample(inputs, cache, model, 9, 50, warpers=chain)
    assert set(np.asarray(tokens[0, :, 3]).tolist()) == {1, 2, 3}
