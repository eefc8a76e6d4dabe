"""Diverse beam search, compared with a step-by-step search on Python tuples."""

import decode_kit
import jax.numpy as jnp
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
    scripted_model,
)

from jaxaug.core.errors import UserError
from jaxaug.decode import beam, diverse
from tests.support import grids


def run(table, inputs, start=None, decode=diverse.decode, **options):
    return decode_kit.run(decode, table, inputs, start, **options)


def repeats(tokens, ngram, others):
    """Returns how often the last token, or the last n-gram, occurs in the others."""
    if ngram is None:
        return sum(other[-1] == tokens[-1] for other in others)
    if len(tokens) < ngram:
        return 0
    last = tokens[len(tokens) - ngram :]
    return sum(
        other[i : i + ngram] == last
        for other in others
        for i in range(len(other) - ngram + 1)
    )


def reference(table, prompt, k, groups, strength, ngram, length, alpha):
    """Algorithm 1 of the paper, without early stop: [(score, tokens)] ascending.

    A text that a group finishes is closed to later groups. In the last step unfinished
    texts differ as well.
    """
    width = k // groups
    live = [[(0.0, 0.0, ())] for _ in range(groups)]
    finished = [[] for _ in range(groups)]
    for step in range(len(prompt), length):
        chosen, taken = [], set()
        for group in range(groups):
            candidates = []
            for augmented, log_prob, tokens in live[group]:
                extra = prefix_log_probs(table, (*prompt, *tokens))
                for token in range(VOCAB):
                    text = (*tokens, token)
                    if text in taken:
                        continue
                    lost = strength * repeats(text, ngram, chosen)
                    candidates.append(
                        (augmented + extra[token] - lost, log_prob + extra[token], text)
                    )
            candidates = sorted(candidates, key=lambda c: -c[0])[: 2 * width]
            for augmented, log_prob, text in candidates:
                if text[-1] == EOS:
                    norm = penalty(alpha, step + 1)
                    finished[group].append((augmented / norm, log_prob / norm, text))
            finished[group].sort(key=lambda c: -c[0])
            del finished[group][width:]
            live[group] = [c for c in candidates if c[2][-1] != EOS][:width]
            chosen += [text for _, _, text in live[group]]
            taken |= {text for _, _, text in candidates if text[-1] == EOS}
            if step == length - 1:
                taken |= set(chosen)
    ended, growing = [], []
    for group in range(groups):
        ended += [(x, (*prompt, *text)) for _, x, text in finished[group]]
        rest = live[group][: width - len(finished[group])]
        norm = penalty(alpha, length)
        growing += [(x / norm, (*prompt, *text)) for _, x, text in rest]
    return sorted(growing) + sorted(ended)


@pytest.mark.parametrize(
    ("k", "groups", "ngram", "prefilled"),
    grids.first(
        2,
        [
            (6, 3, 3, False),
            (4, 2, None, True),
            (3, 3, None, False),
            (6, 3, 1, False),
            (4, 2, 2, True),
        ],
    ),
)
def test_equals_plain_python(k, groups, ngram, prefilled):
    rng = np.random.RandomState(k)
    length, alpha = 7, 0.6
    changed = 0
    for seed in range(4):
        table = random_table(seed)
        inputs, prompts = random_prompts(rng, 4, length)
        tokens, scores = run(
            table,
            inputs,
            prompts if prefilled else None,
            num_decodes=k,
            groups=groups,
            ngram=ngram,
            alpha=alpha,
            strength=0.7,
        )
        for row, size in enumerate(prompts):
            prompt = tuple(inputs[row, 1 : 1 + size].tolist())
            expected, alike = (
                reference(table, prompt, k, groups, strength, ngram, length, alpha)
                for strength in (0.7, 0.0)
            )
            changed += expected != alike
            found = len(expected)
            texts = [padded(text, length) for _, text in expected]
            values = [value for value, _ in expected]
            np.testing.assert_allclose(scores[row, k - found :], values, atol=1e-4)
            assert tokens[row, k - found :].tolist() == texts
            assert len({tuple(text) for text in texts}) == found == k
    assert changed > 0


@grids.diagonal("strength, ngram", [1e4, 1e7, 2e9, 1e38], [None, 1])
def test_all_groups_survive_a_very_large_strength(strength, ngram):
    """Six groups share five tokens, so some must repeat at any penalty."""
    length, k = 7, 6
    for seed in range(3):
        table = random_table(seed)
        options = {"num_decodes": k, "groups": k, "strength": strength, "ngram": ngram}
        tokens, scores = run(table, np.zeros((1, length)), alpha=0.6, **options)
        expected = reference(table, (), k, k, 1e4, ngram, length, 0.6)
        assert tokens[0].tolist() == [padded(text, length) for _, text in expected]
        np.testing.assert_allclose(scores[0], [v for v, _ in expected], atol=1e-4)


def test_one_group_is_plain_beam_search():
    inputs, _ = random_prompts(np.random.RandomState(0), 7, 8)
    table = random_table(4)
    ours = run(table, inputs, num_decodes=3, groups=1, strength=9.0)
    plain = run(table, inputs, num_decodes=3, decode=beam.search)
    np.testing.assert_array_equal(ours[0], plain[0])
    np.testing.assert_allclose(ours[1], plain[1], atol=1e-6)


def test_groups_without_penalty_return_different_texts():
    """All groups follow the same beams, but each keeps other texts."""
    table = random_table(4)
    tokens, scores = run(table, np.zeros((2, 8)), num_decodes=6, groups=3, strength=0.0)
    pair, values = run(table, np.zeros((2, 8)), num_decodes=2, decode=beam.search)
    np.testing.assert_array_equal(tokens[:, -1], pair[:, -1])
    np.testing.assert_allclose(scores[:, -1], values[:, -1], atol=1e-6)
    assert all(len({tuple(text) for text in row}) == 6 for row in tokens.tolist())


@pytest.mark.parametrize("height", [3.0, 40.0])
def test_outputs_differ_even_if_the_model_is_sure(height):
    """The script is sure of one text, yet the groups return different texts."""
    sure = height * np.eye(VOCAB)[[[2, 3, 4, EOS, 2, 2, 2], [2, 3, 4, 2, 2, 2, 2]]]
    model, cache = scripted_model(np.float32(sure))
    inputs = jnp.zeros((2, 7), jnp.int32)
    tokens, _ = diverse.decode(inputs, cache, model, EOS, 4, strength=0.1)
    assert [len({tuple(text) for text in row}) for row in tokens.tolist()] == [4, 4]
    assert tokens[0, -1].tolist() == [2, 3, 4, EOS, 0, 0, 0]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"strength": -1.0}, "strength is -1.0: it must not be negative"),
        (
            {"strength": np.inf},
            "strength is inf: it must not be negative, and be finite",
        ),
        ({"strength": np.nan}, "strength is nan"),
        ({"ngram": 0}, "ngram is 0: must be at least 1"),
        ({"groups": 3}, "3 groups cannot share 4 beams evenly"),
    ],
)
def test_bad_arguments_are_explained(options, message):
    with pytest.raises(UserError, match=message):
        run(random_table(0), np.zeros((1, 3)), **options)
