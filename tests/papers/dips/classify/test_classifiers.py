"""Regressions with hand-counted features, and training of LSTMs."""

import dataclasses

import jax
import numpy as np
import pytest

from jaxaug_papers.dips.classify import classifiers, networks
from jaxaug_papers.dips.classify.classifiers import Fold
from jaxaug_papers.dips.classify.examples import Example
from jaxaug_papers.dips.classify.networks import Network, Settings, Split

SMALL = Settings(
    embedding=8, hidden=8, dropout_rate=0.1, learning_rate=0.03, epochs=4, max_length=6
)


def fold(train, test, seed=0):
    labels = tuple(sorted({example.label for example in train}))
    return Fold(seed, train, len(train), train, test, labels)


def sentences(*pairs):
    return [Example((text,), label) for text, label in pairs]


def test_tf_idf_knows_the_words_of_training_only():
    pytest.importorskip("sklearn")
    train = sentences(*[("red wine", "a"), ("blue sky", "b")] * 5)
    test = sentences(("red thing", "a"), ("the blue one", "b"))
    assert classifiers.sentence_regression([fold(train, test)], SMALL) == [["a", "b"]]
    # Words in only four training texts are no features, whatever their test count.
    train = sentences(*[("red", "a")] * 4, ("blue", "b"))
    test = sentences(*[("blue", "b")] * 9)
    assert classifiers.sentence_regression([fold(train, test)], SMALL) == [["a"] * 9]


def test_matches_counted_by_hand():
    weights = {"red": 0.5, "wine": 0.25, "sky": 0.25}
    # `the` is a stop word. red is shared by 2 + 2 words with weights .75 + .75.
    found = classifiers.matches("The red wine", "red SKY", weights)
    assert found == (2 / 4, 1 / 1.5)
    assert classifiers.matches("the", "red", weights) == (0.0, 0.0)
    assert classifiers.matches("new", "new", weights) == (1.0, 0.0)


def test_weights_of_words():
    found = classifiers.word_weights([Example(("a b", "B"), "1")])
    assert found == {"a": 0.0, "b": 1 / 10_002}


def test_pairs_by_regression():
    pytest.importorskip("sklearn")
    same, other = Example(("red wine", "wine red"), "1"), Example(("red", "sky"), "0")
    found = classifiers.pair_regression([fold([same, other] * 5, [other, same])], SMALL)
    assert found == [["0", "1"]]


def words(rng, letters):
    return " ".join(rng.choice(list(letters), rng.integers(1, 6)))


@pytest.mark.long
def test_an_lstm_learns_for_every_seed_and_reads_the_last_word():
    rng = np.random.default_rng(0)

    def draw(n):
        texts = (f"{words(rng, 'abcd')} {'xy'[k % 2]}" for k in range(n))
        return [Example((text,), text[-1]) for text in texts]

    train, test = draw(160), draw(40)
    folds = [fold(train, test, seed) for seed in (0, 1)]
    settings = dataclasses.replace(SMALL, batch_size=16, least_updates=1)
    found = classifiers.lstm(folds, settings)
    right = np.array([example.label for example in test])
    assert [np.mean(np.array(one) == right) for one in found] == [1.0, 1.0]
    # The result of a seed does not depend on other seeds.
    assert classifiers.lstm(folds[1:], settings) == found[1:]


def test_a_siamese_lstm_learns_equality():
    rng = np.random.default_rng(1)

    def draw(n):
        kinds = [(words(rng, "ab"), words(rng, "cd")) for _ in range(n)]
        pairs = ((one[0], one[k % 2]) for k, one in enumerate(kinds))
        return [
            Example(p, "1" if p[0][0] in "ab" and p[1][0] in "ab" else "0")
            for p in pairs
        ]

    train, test = draw(200), draw(40)
    settings = dataclasses.replace(SMALL, batch_size=16, least_updates=1)
    (found,) = classifiers.lstm([fold(train, test)], settings)
    right = np.array([example.label for example in test])
    assert np.mean(np.array(found) == right) > 0.9


def test_the_epoch_that_is_best_on_validation_counts(monkeypatch):
    """Validation is best after the second epoch, whose test classes are returned."""
    answers = iter([[[0, 1]], [[5]], [[1, 1]], [[6]], [[0, 0]], [[1, 1]]])
    monkeypatch.setattr(
        networks._Programs, "classes", lambda self, *_: np.array(next(answers))
    )
    one = np.ones((1, 2, 1, 3), np.int32)
    train = Split(one, np.ones((1, 2), np.int32))
    test = Split(one[:, :1], np.ones((1, 1), np.int32))
    settings = dataclasses.replace(SMALL, epochs=4)
    found = networks.fit(settings, train, [2], train, test, [0], 2, 2, None)
    assert found.tolist() == [[6]] and next(answers, None) is None


def test_padding_changes_nothing():
    network = Network(10, 3, SMALL)
    tokens = np.array([[[4, 5, 0, 0]]])
    params = network.init(jax.random.key(0), tokens, None, False)
    longer = np.pad(tokens, ((0, 0), (0, 0), (0, 3)))
    run = jax.jit(lambda tokens: network.apply(params, tokens, None, False))
    first, second = run(tokens), run(longer)
    np.testing.assert_allclose(first, second, rtol=1e-6)


def test_the_distance_of_two_texts():
    network = Network(10, 1, SMALL)
    tokens = np.array([[[4, 5], [4, 5]], [[4, 5], [6, 7]]])
    params = network.init(jax.random.key(0), tokens, None, False)
    scores = np.asarray(network.apply(params, tokens, None, False))[:, 0]
    # Equal texts have the probability exp(0); other texts have less.
    assert scores[0] == 0 > scores[1]


def test_few_examples_are_trained_on_in_small_batches():
    settings = Settings(epochs=20, batch_size=64, least_updates=2000)
    assert [settings.batch_for(n) for n in (10, 50, 1000, 10_000)] == [1, 1, 10, 64]
