"""distinct-n and self-BLEU, compared with hand-computed figures and sacrebleu."""

import sys

import numpy as np
import pytest
import sacrebleu
from hypothesis import given
from hypothesis import strategies as st

from jaxaug.core.errors import UserError
from jaxaug.metrics import diversity, similarity

SENTENCES = st.lists(st.sampled_from(["a", "b", "c", "d"]), max_size=9).map(" ".join)


@pytest.mark.parametrize(
    ("n", "expected"),
    # a b a, b a: words a b a b a; pairs ab ba ba; triples aba.
    [(1, 2 / 5), (2, 2 / 3), (3, 1.0), (4, None)],
)
def test_distinct_by_hand(n, expected):
    assert diversity.distinct(["a b a", "b a"], n) == expected


def test_distinct_counts_no_ngram_across_texts():
    assert list(diversity.ngrams(["a", "b", "c"], 2)) == [("a", "b"), ("b", "c")]
    assert diversity.distinct(["a", "b"], 2) is None
    assert diversity.distinct([], 1) is None


@given(st.lists(SENTENCES, max_size=5), st.integers(1, 6))
def test_distinct_against_sets_of_strings(texts, n):
    grams = [
        " ".join(words[i : i + n])
        for words in map(str.split, texts)
        for i in range(len(words) - n + 1)
    ]
    expected = len(set(grams)) / len(grams) if grams else None
    assert diversity.distinct(texts, n) == expected


def test_sentence_bleu_by_hand():
    # 3 of 4 words and 1 of 3 pairs match; triples and quadruples do not, so exponential
    # smoothing takes 1/2 of 2 and 1/4 of 1. Lengths are equal, so there is no penalty.
    expected = 100 * (3 / 4 * 1 / 3 * (1 / 2) / 2 * (1 / 4) / 1) ** (1 / 4)
    assert diversity.sentence_bleu("a b c d", ["a b e d"]) == pytest.approx(expected)
    # Two words for four: brevity penalty exp(1 - 4/2), orders 1 and 2 only.
    short = diversity.sentence_bleu("a b", ["a b c d"])
    assert short == pytest.approx(100 * np.exp(-1))
    assert diversity.sentence_bleu("a b", ["a b"]) == 100.0


@given(st.lists(SENTENCES, min_size=2, max_size=4))
def test_self_bleu_against_sacrebleu(texts):
    metric = sacrebleu.BLEU(effective_order=True)
    scores = [
        metric.sentence_score(text, texts[:i] + texts[i + 1 :]).score
        for i, text in enumerate(texts)
    ]
    assert diversity.self_bleu(texts) == pytest.approx(sum(scores) / len(scores))


def test_self_bleu_ends():
    assert diversity.self_bleu(["a b c d"] * 3) == 100.0
    assert diversity.self_bleu(["a b c d", "e f g h"]) == 0.0
    assert diversity.self_bleu(["a"]) is None


def test_jaccard_by_hand():
    assert similarity.jaccard("The car", "the CAR car") == 1.0
    assert similarity.jaccard("a b c", "b c d") == 2 / 4
    assert similarity.jaccard("", "") == 1.0
    assert similarity.jaccard("", "a") == 0.0


def test_bleu_is_a_fraction_and_ignores_case():
    assert similarity.bleu("A B", "a b c d") == pytest.approx(np.exp(-1))
    assert similarity.bleu("x", "y") == 0.0


def test_histogram_edges():
    counts = similarity.histogram([0.0, 0.05, 0.1, 0.55, 0.95, 1.0])
    assert counts.tolist() == [2, 1, 0, 0, 0, 1, 0, 0, 0, 2]


def test_without_sacrebleu_the_fix_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "sacrebleu", None)
    with pytest.raises(
        UserError,
        match=r"is not installed. It comes with the extra 'nlp': run `make install",
    ):
        diversity.self_bleu(["a b", "a c"])
    assert diversity.distinct(["a b", "a c"], 1) == 3 / 4
