"""M and G, distilled from pairs with labels."""

import jax.numpy as jnp
import numpy as np
import pytest

from jaxaug.curriculum.levels import Scored
from jaxaug_papers.pcc import distilled


def test_area_and_equal_levels():
    right = np.array([True, False, True, False])
    # Of the four pairs of a right and a wrong one, one is in the wrong order.
    assert distilled.area(right, np.array([0.9, 0.5, 0.4, 0.1])) == 0.75
    bleurt, scores = np.arange(5.0), np.array([0, 1, 2, 4, 3])
    assert distilled.same_level(np.zeros(5), bleurt, scores) == pytest.approx(3 / 5)


def test_mismatched_pairs_are_rejected_if_they_are_trained_on(monkeypatch):
    """Released pairs are all implied: without the others, M accepts everything."""
    rng = np.random.default_rng(0)
    vectors = np.repeat(rng.normal(size=(64, 1, 8)), 9, axis=1)
    vectors = (vectors + 0.1 * rng.normal(size=vectors.shape)).reshape(-1, 8)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    found = {
        f"{text}": [Scored(f"{text} {i}", True, 0.1 * i) for i in range(8)]
        for text in range(64)
    }
    texts = [t for text, items in found.items() for t in (text, *(i[0] for i in items))]
    pairs = distilled.Pairs(found, {text: row for row, text in enumerate(texts)})
    table, other = jnp.asarray(vectors, jnp.float32), np.roll(pairs.new, 8)
    monkeypatch.setattr(distilled, "EPOCHS", 100)
    accepted = []
    for mismatched in (False, True):
        params = distilled.trained(table, pairs, np.arange(512), mismatched, 0)
        out = distilled.apply(params, table[pairs.source], table[other])
        accepted.append(float(np.mean(out[:, 1] > 0)))
    assert accepted[0] > 0.9 and accepted[1] < 0.2
