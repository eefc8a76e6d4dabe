"""Beam searches that select, compared with a plain-Python search."""

import functools
import math

import decode_kit
import jax
import jax.numpy as jnp
import naive
import numpy as np
import pytest
from decode_kit import (
    EOS,
    padded,
    penalty,
    prefix_log_probs,
    random_prompts,
    random_table,
    scripted_model,
)

from jaxaug.core.errors import UserError
from jaxaug.decode import beam, diverse
from tests.support import grids

run = functools.partial(decode_kit.run, beam.search)


def test_a_temperature_divides_the_logits():
    table, inputs = random_table(3), np.zeros((2, 4))
    warm = run(table, inputs, num_decodes=3, temperature=2.5)
    for found, expected in zip(
        warm, run(table / 2.5, inputs, num_decodes=3), strict=True
    ):
        np.testing.assert_allclose(found, expected, rtol=1e-6)
    assert (warm[1] > run(table, inputs, num_decodes=3)[1]).any()
    for value in (0.0, 1e-40, math.inf, math.nan):
        with pytest.raises(
            UserError, match=f"temperature is {value}: .* at least 1e-06"
        ):
            run(table, inputs, temperature=value)


# No model would suggest this selection, but it depends on every field of the
# candidates.
def odd_key(tokens, length, parent, finished, source, step):
    weighted = sum(token * (position + 2) for position, token in enumerate(tokens))
    total = weighted + 5 * length + 3 * parent + 11 * finished + sum(source) + 7 * step
    return total * 37 % 23


def odd_select(c):
    position = jnp.arange(c.sequences.shape[2]) + 2
    total = (
        jnp.sum(c.sequences * position, axis=2)
        + 5 * c.lengths
        + 3 * c.parents
        + 11 * c.finished
        + (jnp.sum(c.source, axis=1))[:, None]
        + 7 * c.step
    )
    key = jnp.where(c.possible, total * 37 % 23, 99)
    return jnp.argsort(key, axis=1, stable=True)[:, : c.k]


def set_search(table, prompt, source, k, m, length, alpha, limit, keep):
    """Search with `odd_select` on Python tuples: [(score, tokens)] ascending."""

    def log_probs(tokens):
        return prefix_log_probs(table, (*prompt, *tokens))

    def choose(shown):
        step = len(prompt) + len(shown[0]) - 1
        keyed = [
            odd_key(x, len(x), before.index(x[:-1]), x[-1] == EOS, source, step)
            for x in shown
        ]
        return sorted(range(len(shown)), key=lambda i: (keyed[i], i))[:k]

    # `parents` are indices of beams of the previous step.
    before = [[]]

    def remembering(shown):
        chosen = choose(shown)
        growing = [i for i, x in enumerate(shown) if x[-1] != EOS]
        first = [i for i in growing if i in chosen]
        first += [i for i in growing if i not in chosen]
        before[:] = [shown[i] for i in sorted(first[:k])]
        return chosen

    def norm(tokens):
        return penalty(alpha, len(prompt) + len(tokens))

    steps = min(limit, length) - len(prompt)
    pool, beams = naive.beam(log_probs, remembering, k, m, keep, steps, EOS, norm)
    ended = [(x / norm(tokens), (*prompt, *tokens)) for tokens, x in pool[:k]]
    growing = [(x / norm(tokens), (*prompt, *tokens)) for tokens, x in beams]
    return sorted(growing[: k - len(ended)]) + sorted(ended)


@pytest.mark.parametrize(
    ("batch", "k", "m", "length", "steps", "keep", "prefilled"),
    [
        (1, 1, None, 6, None, 2, False),
        (7, 2, None, 8, None, None, True),
        (7, 3, 6, 7, 4, None, False),
        (3, 4, 9, 9, None, 7, False),
    ],
)
def test_select_equals_plain_python(batch, k, m, length, steps, keep, prefilled):
    rng = np.random.RandomState(k)
    ended = unfinished = 0
    for seed in range(6):
        table = random_table(seed)
        inputs, prompts = random_prompts(rng, batch, length)
        source = np.zeros((batch, 6), np.int32)
        for row in source:
            size = rng.randint(1, 6)
            row[:size] = [*rng.randint(2, 50, size - 1), EOS]
        tokens, scores = run(
            table,
            inputs,
            prompts if prefilled else None,
            source,
            num_decodes=k,
            select=odd_select,
            num_candidates=m,
            keep=keep,
            max_decode_steps=steps,
            alpha=0.8,
        )
        for row in range(batch):
            prompt = tuple(inputs[row, 1 : 1 + prompts[row]].tolist())
            limit = length if steps is None else prompts[row] + steps
            shown = [token for token in source[row].tolist() if token != EOS]
            # With a prefilled prompt, steps count from the start of the search.
            offset = prompts[row] if prefilled else 0
            shown.append(-7 * int(offset))
            expected = set_search(
                table, prompt, shown, k, m or 3 * k, length, 0.8, limit, keep or k
            )
            found = len(expected)
            assert tokens[row, k - found :].tolist() == [
                padded(text, length) for _, text in expected
            ]
            np.testing.assert_allclose(
                scores[row, k - found :], [score for score, _ in expected], atol=1e-4
            )
            for _, text in expected:
                ended += text[-1] == EOS
                unfinished += text[-1] != EOS
    assert ended > 0 and unfinished > 0


def test_padding_candidates_are_selected_last():
    """Two beams have five continuations in step 1; the select asks for padding."""

    def last_ones(c):
        return jnp.broadcast_to(jnp.array([c.log_probs.shape[1] - 1, 7]), (1, 2))

    tokens, scores = run(
        random_table(0), np.zeros((1, 1)), num_decodes=2, select=last_ones,
        num_candidates=8, alpha=0.0,
    )  # fmt: skip
    log_probs = prefix_log_probs(random_table(0), ())
    # Finished hypotheses are in the pool, which is sorted before unfinished ones.
    best = [EOS, *(x for x in np.argsort(-log_probs) if x != EOS)][:2]
    assert tokens[0, :, 0].tolist() == best[::-1]
    np.testing.assert_allclose(scores[0], log_probs[best[::-1]], atol=1e-5)


def last_in_pool(c):
    """Selects the least probable finished hypotheses."""
    rank = jnp.where(c.possible, c.log_probs, 1.0)
    return jnp.argsort(rank, axis=1)[:, : c.k]


@pytest.mark.parametrize("prefilled", [False, True])
def test_last_selects_from_all_finished_hypotheses(prefilled):
    """Twelve beams pass four rows at a time; `last` sees all finished hypotheses."""
    k, width, length = 4, 12, 6
    rng = np.random.RandomState(1)
    inputs, prompts = random_prompts(rng, 5, length)
    table = random_table(2)
    options = {"num_candidates": 24, "alpha": 0.8}
    start = prompts if prefilled else None
    tokens, scores = run(
        table, inputs, start, num_decodes=k, width=width, last=last_in_pool, **options
    )
    for row in range(5):
        prompt = tuple(inputs[row, 1 : 1 + prompts[row]].tolist())

        def log_probs(tokens, prompt=prompt):
            return prefix_log_probs(table, (*prompt, *tokens))

        def norm(tokens, prompt=prompt):
            return penalty(0.8, len(prompt) + len(tokens))

        pool, _ = naive.beam(
            log_probs, lambda shown: range(len(shown)), width, 24, width,
            length - len(prompt), EOS, norm,
        )  # fmt: skip
        assert len(pool) >= k
        least = sorted(pool, key=lambda x: x[1])[:k]
        expected = sorted((x / norm(t), [*prompt, *t]) for t, x in least)
        assert tokens[row].tolist() == [padded(t, length) for _, t in expected]
        np.testing.assert_allclose(scores[row], [x for x, _ in expected], atol=1e-4)


def test_a_select_of_wrong_shape_is_refused():
    with pytest.raises(ValueError, match=r"shape \(2, 3\); it must name k = 4"):
        run(random_table(0), np.zeros((2, 3)), select=lambda c: c.parents[:, :3])


def drawing_select(c):
    """Selects at random, with the key of each row."""
    noise = jax.vmap(lambda key: jax.random.uniform(key, c.parents.shape[1:]))(c.rng)
    return jnp.argsort(noise, axis=1)[:, : c.k]


@pytest.mark.parametrize(
    ("decode", "options"),
    grids.first(
        2,
        [
            (beam.search, {"select": drawing_select}),
            (
                diverse.decode,
                {"num_decodes": 4, "groups": 2, "strength": 1.0, "ngram": 2},
            ),
            (beam.search, {"select": None}),
            (beam.search, {"select": odd_select}),
        ],
    ),
)
def test_results_do_not_depend_on_the_batch(decode, options):
    table = random_table(1)
    inputs, _ = random_prompts(np.random.RandomState(3), 7, 8)
    source = np.arange(14).reshape(7, 2) + 2
    options = {"num_decodes": 3, "seed": 4} | options
    run = functools.partial(decode_kit.run, decode, table)
    tokens, scores = run(inputs, None, source, **options)
    for rows in ([3], [6, 0, 4]):
        some = run(inputs[rows], None, source[rows], **options)
        np.testing.assert_array_equal(some[0], tokens[rows])
        np.testing.assert_allclose(some[1], scores[rows], atol=1e-5)
    if options.get("select") is drawing_select:
        other = run(inputs, None, source, **options | {"seed": 5})
        assert (other[0] != tokens).any()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"alpha": -0.1}, "alpha = -0.1: give a number of at least 0"),
        ({"alpha": np.nan}, "alpha = nan"),
        ({"alpha": 1e3}, "alpha = 1000.0: the length penalty of .* leaves float32"),
        ({"groups": 3}, "3 groups cannot share 4 beams"),
        ({"num_candidates": 7}, "num_candidates is 7, but 4 beams need at least 8"),
        ({"num_candidates": 7, "select": odd_select},
         "num_candidates is 7, but 4 beams need at least 8"),
        ({"width": 8}, "width is 8 and keep None: without `select` or `last`"),
        ({"width": 6, "select": odd_select}, "4 decodes need a multiple of 4"),
        ({"keep": 3, "select": odd_select}, "4 results need a pool of at least"),
        ({"max_decode_steps": 4}, "max_decode_steps is 4"),
        ({"groups": 2}, "2 groups need a `propose`"),
        ({"propose": print, "num_candidates": 8},
         "num_candidates is 8, but `propose` decides"),
    ],
)  # fmt: skip
def test_bad_arguments_are_explained(options, message):
    with pytest.raises(UserError, match=message):
        run(random_table(0), np.zeros((1, 3)), **options)


def test_forbidden_tokens_stay_forbidden_at_any_temperature():
    """Only two texts are possible; the third slot stays empty at any temperature."""
    script = np.full((1, 2, 5), -1e7, np.float32)
    script[0, 0, 2:4], script[0, 1, EOS] = [2.0, 0.0], 0.0
    model, cache = scripted_model(script)
    inputs = jnp.zeros((1, 2), jnp.int32)
    for temperature in (1.0, 3.0, 1000.0):
        tokens, scores = beam.search(
            inputs, cache, model, EOS, 3, temperature=temperature, alpha=0.0
        )
        assert tokens[0].tolist() == [[0, 0], [3, EOS], [2, EOS]]
        expected = jax.nn.log_softmax(jnp.array([0.0, 2.0]) / temperature)
        np.testing.assert_allclose(scores[0, 1:], expected, rtol=1e-5)
        assert scores[0, 0] == -1e7
