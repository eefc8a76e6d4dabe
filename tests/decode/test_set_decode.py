"""Whole decodes with DiPS, DPP and SSR against a step-by-step search by lists."""

import functools

import jax
import jax.numpy as jnp
import naive
import numpy as np
import pytest
from decode_kit import (
    EOS,
    VOCAB,
    padded,
    penalty,
    prefix_log_probs,
    random_prompts,
    random_table,
    table_cache,
    table_model,
)
from test_dpp import log_det, plain_similarity
from test_ssr import saving

from jaxaug.core.errors import UserError
from jaxaug.decode import beam, dips, dpp, ssr

K, LENGTH, ALPHA = 3, 8, 0.6
EMBEDDINGS = np.random.default_rng(1).normal(size=(VOCAB, 4)).astype(np.float32)


def words(candidates):
    return [x[:-1] if x[-1] == EOS else x for x in candidates]


def dips_value(candidates, source, scores):
    ground = words(candidates)
    return naive.Dips(ground, source, EMBEDDINGS.astype(float).tolist(), 0.3).value


def dpp_value(candidates, source, scores):
    lengths = np.array([max(len(x), 1) for x in words(candidates)])
    return log_det(plain_similarity(words(candidates)), 2.0 * scores / lengths)


def ssr_value(candidates, source, scores):
    rows = words(candidates)
    return saving([[naive.dissimilarity(a, b) for b in rows] for a in rows])


SELECTORS = {
    "dips": (
        functools.partial(dips.decode, embeddings=EMBEDDINGS, lam=0.3, probability=1.0),
        dips_value,
    ),
    "dpp": (functools.partial(dpp.decode, quality=2.0), dpp_value),
    "ssr": (ssr.decode, ssr_value),
}


def step_by_step(value_of, table, prompt, source, num_candidates):
    """Expected tokens [K, LENGTH] and scores, and how often a choice was not plain."""
    differed = []

    def log_probs(tokens):
        return prefix_log_probs(table, [*prompt, *tokens])[: len(table[0])]

    def score(tokens):
        return sum(log_probs(tokens[:i])[x] for i, x in enumerate(tokens))

    def choose(candidates):
        if 2 * max(map(len, candidates)) < len(source):
            return range(K)
        scores = np.array([score(x) for x in candidates])
        value = value_of(candidates, source, scores)
        chosen = naive.greedy(value, len(candidates), K)
        differed.append(sorted(chosen) != list(range(K)))
        return chosen

    steps = LENGTH - len(prompt)
    beams = naive.beam(log_probs, choose, K, num_candidates, steps, EOS)
    results = sorted(
        (total / penalty(ALPHA, len(prompt) + len(tokens)), [*prompt, *tokens])
        for tokens, total in beams
    )
    tokens = [padded(tokens, LENGTH) for _, tokens in results]
    return tokens, [total for total, _ in results], sum(differed)


@pytest.mark.parametrize(
    ("prompted", "batch"), [("free", 1), ("forced", 7), ("prefilled", 7)]
)
@pytest.mark.parametrize("name", SELECTORS)
def test_decode_equals_the_search_by_lists(name, prompted, batch):
    decode, value_of = SELECTORS[name]
    rng = np.random.RandomState(batch)
    table = random_table(seed=3, scale=1.5)
    inputs, prompts = np.zeros((batch, LENGTH), np.int32), np.zeros(batch, np.int32)
    if prompted != "free":
        inputs, prompts = random_prompts(rng, batch, LENGTH - 2)
        inputs = np.pad(inputs, ((0, 0), (0, 2)))
    sources = [rng.randint(2, VOCAB, rng.randint(1, 9)).tolist() for _ in range(batch)]
    start = prompts if prompted == "prefilled" else None
    run = jax.jit(
        lambda inputs, source, cache, start: decode(
            inputs=inputs,
            cache=cache,
            tokens_to_logits=table_model(table),
            eos_id=EOS,
            num_decodes=K,
            alpha=ALPHA,
            source=source,
            initial_index=start,
        )
    )
    # The encoder's EOS is no word of the source.
    source = jnp.array([padded([*row, EOS], 10) for row in sources])
    tokens, scores = run(inputs, source, table_cache(inputs, start), start)
    differed = 0
    for row in range(batch):
        prompt = inputs[row, 1 : 1 + prompts[row]].tolist()
        expected, totals, here = step_by_step(
            value_of, table, prompt, sources[row], 3 * K
        )
        assert tokens[row].tolist() == expected, (row, prompt)
        np.testing.assert_allclose(scores[row], totals, rtol=1e-4)
        differed += here
    assert differed


def arguments():
    return {
        "inputs": jnp.zeros((4, LENGTH), jnp.int32),
        "cache": {"hidden": jnp.arange(4)},
        "tokens_to_logits": table_model(random_table(seed=5)),
        "eos_id": EOS,
        "num_decodes": K,
    }


def test_probability_is_that_of_a_choice_per_step():
    """SSR, which shares this with the others and compiles fastest."""

    def first(candidates):
        best = jnp.arange(candidates.k, dtype=jnp.int32)
        return jnp.broadcast_to(best, (4, candidates.k))

    plain, plain_scores = beam.search(select=first, **arguments())
    never, scores = ssr.decode(probability=0.0, **arguments())
    assert never.tolist() == plain.tolist()
    assert scores.tolist() == plain_scores.tolist()
    always, _ = ssr.decode(**arguments())
    assert always.tolist() != plain.tolist()
    # Half of the steps: reproducible, and different with another key.
    decode = jax.jit(
        lambda key: ssr.decode(probability=0.5, decode_rng=key, **arguments())[0]
    )
    half = [decode(jax.random.key(seed)).tolist() for seed in (0, 0, 1, 2, 3)]
    assert half[0] == half[1]
    assert len({str(tokens) for tokens in half}) > 1


def test_a_given_table_wins_over_the_models_embeddings():
    options = {
        "source": jnp.array([[2, 3], [3, 4], [4, 0], [2, 2]]),
        "mu": (0.0, 1.0, 0.0, 0.0),
        "lam": 1.0,
    }
    decode = jax.jit(lambda **tables: dips.decode(**tables, **options, **arguments()))
    # One table tells words apart, the other does not.
    apart, same = 10.0 * np.eye(VOCAB), np.zeros((VOCAB, VOCAB))
    expected, _ = decode(embeddings=apart)
    other, _ = decode(embeddings=same)
    assert expected.tolist() != other.tolist()
    given, _ = decode(embeddings=same, embedding_table=apart)
    assert given.tolist() == expected.tolist()
    with pytest.raises(UserError, match="SourceEncoderDecoderModel"):
        dips.decode(**options, **arguments())
