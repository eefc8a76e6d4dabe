"""Complete decodes with DiPS, DPP, and SSR, compared with a search on lists."""

import functools

import jax
import jax.numpy as jnp
import naive
import numpy as np
import pytest
import step_kit
from decode_kit import (
    EOS,
    VOCAB,
    first_ones,
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
from tests.support import grids

K, LENGTH, ALPHA = 3, 8, 0.6
EMBEDDINGS = np.random.default_rng(1).normal(size=(VOCAB, 4)).astype(np.float32)


F = {"lam": 0.3, "rbf_sigma": 0.8, "unit": True, "variant": "normalized"}


def dips_value(candidates, source, scores):
    table = EMBEDDINGS.astype(float).tolist()
    return naive.Dips(candidates, [*source, EOS], table, **F).value


def dpp_value(candidates, source, scores, quality=2.0):
    lengths = np.array([len(x) for x in candidates])
    return log_det(plain_similarity(candidates), quality * scores / lengths)


def ssr_value(candidates, source, scores):
    return saving([[naive.dissimilarity(a, b) for b in candidates] for a in candidates])


SELECTORS = {
    "dips": (
        functools.partial(dips.decode, embeddings=EMBEDDINGS, probability=1.0, **F),
        dips_value,
    ),
    "dpp": (functools.partial(dpp.decode, quality=2.0), dpp_value),
    "ssr": (ssr.decode, ssr_value),
}
WIDE = 6


def by_lists(mode, value_of, table, prompt, source):
    """Returns expected tokens [K, LENGTH], scores, and the number of changed steps."""
    differed = []

    def log_probs(tokens):
        return prefix_log_probs(table, [*prompt, *tokens])[: len(table[0])]

    def score(tokens):
        return sum(log_probs(tokens[:i])[x] for i, x in enumerate(tokens))

    def norm(tokens):
        return penalty(ALPHA, len(prompt) + len(tokens))

    def best_set(candidates):
        scores = np.array([score(x) for x in candidates])
        value = value_of(candidates, source, scores)
        chosen = naive.greedy(value, len(candidates), min(K, len(candidates)))
        differed.append(sorted(chosen) != list(range(len(chosen))))
        return chosen

    def choose(candidates):
        due = 2 * max(map(len, candidates)) >= len(source)
        return best_set(candidates) if due and len(candidates) > K else range(K)

    steps = LENGTH - len(prompt)
    if mode == "step":
        sizes, choice = (K, 3 * K, K), choose
    else:
        sizes, choice = (WIDE, 2 * WIDE, WIDE), lambda shown: range(len(shown))
    pool, beams = naive.beam(log_probs, choice, *sizes, steps, EOS, norm)
    ended = pool
    if mode == "final" and pool:
        ended = [pool[i] for i in best_set([x for x, _ in pool])]
    parts = beams[: K - len(ended)], ended
    results = [
        entry
        for part in parts
        for entry in sorted(
            (x / norm(tokens), [*prompt, *tokens]) for tokens, x in part
        )
    ]
    tokens = [padded(tokens, LENGTH) for _, tokens in results]
    return tokens, [total for total, _ in results], sum(differed)


@grids.diagonal(
    "prompted, batch, mode, name",
    [("free", 1, "step"), ("forced", 7, "final"), ("prefilled", 7, "step")],
    SELECTORS,
)
def test_decode_equals_the_search_by_lists(name, mode, prompted, batch):
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
            inputs=inputs, cache=cache, tokens_to_logits=table_model(table), eos_id=EOS,
            num_decodes=K, alpha=ALPHA, mode=mode, width=WIDE, source=source,
            initial_index=start,
        )
    )  # fmt: skip
    # EOS of the encoder is not a word of the source.
    source = jnp.array([padded([*row, EOS], 10) for row in sources])
    tokens, scores = run(inputs, source, table_cache(inputs, start), start)
    differed = 0
    for row in range(batch):
        prompt = inputs[row, 1 : 1 + prompts[row]].tolist()
        expected, totals, here = by_lists(mode, value_of, table, prompt, sources[row])
        assert tokens[row].tolist() == expected, (row, prompt)
        np.testing.assert_allclose(scores[row], totals, rtol=1e-4)
        differed += here
    assert differed


EYE = np.eye(3, dtype=np.float32)


@pytest.mark.parametrize(
    ("choose", "message"),
    [
        (lambda: ssr.greedy_select(EYE, 0), "k = 0, but the set has 3 candidates"),
        (lambda: dpp.greedy_select(EYE, jnp.zeros(3), 4), "k = 4, but the set has 3"),
        (
            lambda: dips.greedy_select(*step_kit.arguments([[1]] * 6, [1]), 7,
                                       embeddings=None),
            "k = 7, but the set has 6 candidates",
        ),
    ],
)  # fmt: skip
def test_k_must_fit(choose, message):
    with pytest.raises(UserError, match=message):
        choose()


@pytest.mark.parametrize(
    ("module", "value_of", "options"),
    [(dpp, dpp_value, {"quality": 0.5}), (ssr, ssr_value, {})],
)
def test_select_is_greedy_on_the_candidates_of_a_step(module, value_of, options):
    step = step_kit.beam_step([[1, 2], [4] * 9])
    found = jax.jit(lambda step: step_kit.select(module, step, **options))(step)
    found, rows = found.tolist(), step_kit.words()
    value = value_of(rows, None, -1.0 - np.arange(len(rows)), **options)
    assert found[0] == naive.greedy(value, len(rows), 3)
    assert found[0] != [0, 1, 2]
    # The second source is too long for a selection at four tokens.
    assert found[1] == [0, 1, 2]
    fillers = step_kit.select(module, step_kit.beam_step([[1]], fillers=5))
    assert sorted(fillers[0, :2].tolist()) == [0, 1]


def arguments():
    return {
        "inputs": jnp.zeros((4, LENGTH), jnp.int32),
        "cache": {"hidden": jnp.arange(4)},
        "tokens_to_logits": table_model(random_table(seed=5)),
        "eos_id": EOS,
        "num_decodes": K,
    }


def compiled(decode, **options):
    """Runs a decode as one program; eagerly it would compile many small ones."""
    return jax.jit(lambda: decode(**arguments(), **options))()


def test_probability_is_the_share_of_steps_that_select():
    """SSR stands for all selectors, which share this code; it compiles fastest."""
    plain, plain_scores = compiled(beam.search, select=first_ones)
    never, scores = compiled(ssr.decode, probability=0.0)
    assert never.tolist() == plain.tolist()
    assert scores.tolist() == plain_scores.tolist()
    always, _ = compiled(ssr.decode)
    assert always.tolist() != plain.tolist()
    # Half of the steps select: reproducible, and different with another key.
    decode = jax.jit(
        lambda key: ssr.decode(probability=0.5, decode_rng=key, **arguments())[0]
    )
    half = [decode(jax.random.key(seed)).tolist() for seed in (0, 0, 1, 2, 3)]
    assert half[0] == half[1]
    assert len({str(tokens) for tokens in half}) > 1


@pytest.mark.parametrize("name", grids.first(1, SELECTORS))
def test_outputs_end_and_differ_if_every_step_chooses(name):
    """Texts end after about ten of 32 tokens; at least 98 % of them end."""
    batch, length = 24, 32
    table = random_table(seed=11, scale=1.0, vocab=24)
    table[:, EOS] += 1.0
    rng = np.random.RandomState(0)
    tokens, _ = SELECTORS[name][0](
        inputs=jnp.zeros((batch, length), jnp.int32),
        cache={"hidden": jnp.arange(batch)},
        tokens_to_logits=table_model(table),
        eos_id=EOS,
        num_decodes=4,
        mode="step",
        probability=1.0,
        source=jnp.asarray(rng.randint(2, 24, (batch, 10))),
        **({"embeddings": rng.normal(size=(24, 4))} if name == "dips" else {}),
    )
    ended = (np.asarray(tokens) == EOS).any(axis=-1)
    assert ended.mean() >= 0.98
    assert all(len({tuple(x) for x in row}) == 4 for row in tokens.tolist())


def test_a_given_table_overrides_the_embeddings_of_the_model():
    options = {
        "source": jnp.array([[2, 3], [3, 4], [4, 0], [2, 2]]),
        "mode": "step",
        "mu": (0.0, 1.0, 0.0, 0.0),
        "lam": 1.0,
    }
    decode = jax.jit(lambda **tables: dips.decode(**tables, **options, **arguments()))
    # The first table distinguishes words, the second does not.
    apart, same = 10.0 * np.eye(VOCAB), np.ones((VOCAB, VOCAB))
    expected, _ = decode(embeddings=apart)
    other, _ = decode(embeddings=same)
    assert expected.tolist() != other.tolist()
    given, _ = decode(embeddings=same, embedding_table=apart)
    assert given.tolist() == expected.tolist()
    with pytest.raises(UserError, match="SourceEncoderDecoderModel"):
        dips.decode(**options, **arguments())
