"""Sampling with warpers: exact tokens, scores, and keys per input."""

import functools

import decode_kit
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
)

from jaxaug.decode import contract, warpers
from jaxaug.decode.sample import sample

GREEDY = (warpers.top_k(1),)
run = functools.partial(decode_kit.run, sample)


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


@pytest.mark.parametrize("rescale", [True, False])
def test_scores_are_summed_log_probs_in_ascending_order(rescale):
    table = random_table(5)
    inputs = np.array([[0, 0, 0, 0, 0, 0], [0, 3, 2, 0, 0, 0]], np.int32)
    tokens, scores = run(
        table, inputs, num_decodes=6, warpers=(warpers.temperature(1.7),),
        rescale_log_probs=rescale, seed=2,
    )  # fmt: skip
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
    options = {"num_decodes": 3, "warpers": chain, "seed": 11}

    def of_rows(rows, width=8):
        wide = np.pad(source[rows], ((0, 0), (0, width - 8)))
        return run(table, inputs[rows], None, wide, **options)

    everything = of_rows(np.arange(7))
    assert len(np.unique(everything[0].reshape(21, -1), axis=0)) > 12
    # More padding of the source changes nothing either.
    for rows, width in (([3], 8), ([6, 0, 4, 2, 2], 13)):
        tokens, scores = of_rows(np.array(rows), width)
        np.testing.assert_array_equal(tokens, everything[0][rows])
        np.testing.assert_allclose(scores, everything[1][rows], atol=1e-5)


def test_more_decodes_keep_the_first_ones():
    inputs, source = np.zeros((2, 6), np.int32), sources(2)
    found = {}
    for decodes in (2, 5):
        tokens, _ = run(
            random_table(2), inputs, None, source, num_decodes=decodes, seed=0
        )
        found[decodes] = tokens.tolist()
    for few, many in zip(found[2], found[5], strict=True):
        for text in few:
            assert text in many


def test_seed_ids_and_key_change_the_draws():
    table = random_table(0, scale=0.3)
    table[:, EOS] = -9.0
    inputs = np.zeros((1, 12), np.int32)
    zero, five = jax.random.PRNGKey(0), jax.random.PRNGKey(5)

    def text(key=zero, **options):
        arrays = {name: options.pop(name) for name in ["input_ids"] if name in options}
        arrays |= {} if key is None else {"decode_rng": key}
        return run(table, inputs, arrays=arrays, **options)[0].ravel().tolist()

    texts = [
        text(),
        text(five),
        text(input_ids=np.array([1])),
        text(source=np.array([[4, 1]])),
    ]
    assert len(set(map(tuple, texts))) == 4
    assert text(None) == texts[0]
    assert text(seed=5) == texts[1]


def test_identities():
    rows = contract.hash_rows(jnp.array([[5, 6, 0], [6, 5, 0], [0, 5, 6], [5, 0, 0]]))
    assert len(set(rows.tolist())) == 4
    assert contract.hash_rows(jnp.array([[5, 6]]))[0] == rows[0]
    many = np.random.RandomState(0).randint(0, 3, (3000, 12))
    distinct = len({tuple(row) for row in many.tolist()})
    assert (
        len(set(np.asarray(contract.hash_rows(jnp.asarray(many))).tolist())) == distinct
    )

    prompts = jnp.array([[0, 0], [0, 4], [0, 0]])
    places = contract.input_identities(prompts)
    assert places[0] == 0 and places[2] == 2
    assert places[1] == contract.hash_rows(prompts)[1]
    assert contract.input_identities(prompts, None, jnp.array([7, 8, 9])).tolist() == [
        7,
        8,
        9,
    ]


def test_warpers_never_leave_only_forbidden_tokens():
    """If a warper would leave only forbidden tokens, the row keeps its tokens."""
    script = np.zeros((1, 4, 4), np.float32)
    script[..., 0] = -1e10
    model, cache = scripted_model(script)
    inputs = jnp.array([[0, 1, 2, 3]])
    chain = (warpers.no_repeat_ngrams(1),)
    tokens, _ = sample(inputs, cache, model, 9, 50, warpers=chain)
    assert set(np.asarray(tokens[0, :, 3]).tolist()) == {1, 2, 3}
