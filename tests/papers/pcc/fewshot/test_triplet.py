"""The triplet network matches direct computations; tests of its random draws."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxaug.core.errors import UserError
from jaxaug_papers.pcc.fewshot import triplet
from jaxaug_papers.pcc.fewshot.triplet import Pools, Settings, Trainer

SMALL = Settings(hidden=8, output=4, batch_size=16, learning_rate=1e-2)
# Three labels, levels 0 and 1: items 10 * label + 3 * level + 0, 1, ...
COUNTS = np.array([[2, 3], [3, 2], [2, 2]])


def make_items(counts=COUNTS):
    items = np.full((*counts.shape, counts.max()), 99)
    for label, level in np.ndindex(counts.shape):
        count = counts[label, level]
        items[label, level, :count] = 10 * label + 3 * level + np.arange(count)
    return jnp.asarray(items)


def draw(weights, number=20_000, counts=COUNTS):
    drawn = triplet.draw_triplets(
        jax.random.key(0),
        make_items(counts),
        jnp.asarray(counts),
        jnp.asarray(weights, jnp.float32),
        number,
    )
    return np.asarray(drawn)


def test_anchor_and_positive_share_a_label_that_the_negative_has_not():
    anchor, positive, negative = draw([0.4, 0.6])
    assert (anchor // 10 == positive // 10).all() and (anchor != positive).all()
    assert (negative // 10 != anchor // 10).all()
    assert (
        set(anchor)
        == set(positive)
        == set(negative)
        == set(np.asarray(make_items())[make_items() != 99].tolist())
    )


@pytest.mark.long
def test_triplets_are_drawn_by_the_definition():
    weights = np.array([0.25, 0.75])
    anchor, positive, negative = draw(weights, 200_000)
    chance = {
        int(item): float(weights[level] / COUNTS[label, level])
        for label, level in np.ndindex(COUNTS.shape)
        for item in np.asarray(make_items())[label, level, : COUNTS[label, level]]
    }
    pairs, seen = np.unique(anchor * 100 + positive, return_counts=True)
    assert len(pairs) == 5 * 4 + 5 * 4 + 4 * 3
    for pair, count in zip(pairs, seen, strict=True):
        first, second = divmod(int(pair), 100)
        expected = chance[first] * chance[second] / (1 - chance[first]) / 3
        assert count / len(anchor) == pytest.approx(expected, abs=0.003)
    for item, p in chance.items():
        assert (negative == item).mean() == pytest.approx(p / 3, abs=0.004)


@pytest.mark.parametrize("weights, used", [([1, 0], [0, 1]), ([0, 1], [3, 4])])
def test_a_level_without_weight_is_never_drawn(weights, used):
    counts = np.array([[2, 2], [2, 2]])
    drawn = draw(weights, counts=counts)
    assert sorted(set((drawn % 10).ravel())) == used
    # With two items the positive is always the other one.
    assert (drawn[0] + drawn[1] == 20 * (drawn[0] // 10) + sum(used)).all()


def test_losses_equal_torch():
    torch = pytest.importorskip("torch")
    embedded = np.random.default_rng(0).standard_normal((3, 50, 4)).astype(np.float32)
    a, p, n = map(torch.tensor, embedded)
    cosine = torch.nn.functional.cosine_similarity
    expected = torch.relu(0.4 - cosine(a, p) + cosine(a, n)).numpy()
    assert (expected == 0).any() and (expected > 0).any()
    found = triplet.triplet_losses(jnp.asarray(embedded), 0.4)
    np.testing.assert_allclose(found, expected, atol=1e-5)


def test_a_zero_encoding_has_a_loss_and_a_gradient():
    zero = jnp.zeros((3, 1, 4))
    assert triplet.triplet_losses(zero, 0.4) == pytest.approx(0.4)
    gradient = jax.grad(lambda x: triplet.triplet_losses(x, 0.4).sum())(zero)
    assert np.isfinite(gradient).all()


def test_the_network_is_two_layers_with_tanh():
    trainer = Trainer(SMALL, 5)
    state = trainer.init([7])
    params = jax.tree.map(lambda leaf: np.asarray(leaf[0]), state.params)
    x = np.random.default_rng(0).standard_normal((3, 5)).astype(np.float32)
    hidden = np.tanh(x @ params["Dense_0"]["kernel"] + params["Dense_0"]["bias"])
    expected = hidden @ params["Dense_1"]["kernel"] + params["Dense_1"]["bias"]
    network = triplet.Network(8, 4, 0.4)
    np.testing.assert_allclose(
        network.apply({"params": params}, x, False), expected, atol=1e-5
    )
    for layer, fan_in in (("Dense_0", 5), ("Dense_1", 8)):
        for leaf in params[layer].values():
            assert 0 < np.abs(leaf).max() <= fan_in**-0.5
    dropped = network.apply(
        {"params": params}, x, True, rngs={"dropout": jax.random.key(0)}
    )
    assert not np.allclose(dropped, expected)


def test_mining_prefers_triplets_with_a_loss():
    losses = jnp.asarray([0.0, 0.1, 0.0, 0.9, 0.2])
    assert triplet.hardest(losses, 2).tolist() == [1, 3]
    assert triplet.hardest(losses, 4).tolist() == [1, 3, 4, 0]


@pytest.fixture(scope="module")
def toy():
    """Returns data of two seeds; two labels differ in the weakest of four features."""
    rng = np.random.default_rng(0)
    table = rng.standard_normal((80, 4)).astype(np.float32) * [5, 1, 5, 5]
    table[:40, 1] += 1.5
    table[40:, 1] -= 1.5
    items = np.arange(80).reshape(2, 1, 40)
    pools = Pools(jnp.asarray([items, items]), jnp.full((2, 2, 1), 40))
    return jnp.asarray(table, jnp.float32), pools, np.repeat([0, 1], 40)


# All tests share one trainer, so that each program is compiled once.
TRAINER = Trainer(SMALL, 4)


def trained(toy, seeds, parts=(30, 30), trainer=TRAINER):
    table, pools, _ = toy
    state, first = trainer.init(seeds), 0
    for part in parts:
        weights = np.ones((part, 1), np.float32)
        state, figures = trainer.train(state, seeds, table, pools, weights, first)
        first += part
    return state, figures


def test_training_separates_labels_unlike_raw_encodings(toy):
    state, figures = trained(toy, [0, 1])
    table, _, labels = toy
    support = jnp.stack([table[::4], table[::4]])
    support_labels = jnp.asarray([labels[::4]] * 2)
    arguments = (support, support_labels, table, jnp.asarray(labels))
    learned = TRAINER.right(state, *arguments).mean(axis=1)
    assert (learned > triplet.nearest_right(*arguments).mean(axis=1) + 0.1).all()
    assert figures.loss.shape == figures.active.shape == (2,)
    assert (figures.active > 0).all() and (figures.active < 1).all()


def test_a_seed_does_not_depend_on_the_others(toy):
    one, _ = trained(toy, [3, 4])
    other, _ = trained(toy, [4, 5])
    for left, right in zip(*map(jax.tree.leaves, (one, other)), strict=True):
        np.testing.assert_allclose(left[1], right[0], atol=2e-5)
    kernel = one.params["Dense_0"]["kernel"]
    assert not np.allclose(kernel[0], kernel[1])


def test_training_in_parts_equals_training_in_one_go(toy):
    whole, _ = trained(toy, [0, 1], parts=(60,))
    parts, _ = trained(toy, [0, 1])
    for left, right in zip(*map(jax.tree.leaves, (whole, parts)), strict=True):
        np.testing.assert_allclose(left, right, atol=1e-5)


def test_a_nan_loss_stops_the_run(toy):
    table, pools, labels = toy
    broken = jnp.full_like(table, jnp.nan), pools, labels
    with pytest.raises(
        UserError, match=r"in updates 0 to 30\. Take a smaller learning"
    ):
        trained(broken, [0, 1])


def test_nearest_neighbour_equals_a_plain_loop():
    rng = np.random.default_rng(0)
    support = rng.standard_normal((2, 12, 3)).astype(np.float32)
    labels = rng.integers(0, 3, (2, 12))
    tests = rng.standard_normal((40, 3)).astype(np.float32)
    expected_labels = rng.integers(0, 3, 40)
    # Both are equally near, and the first one is used.
    support[0, 5], labels[0, 5] = support[0, 0], labels[0, 0] + 1

    def cosine(a, b):
        return a @ b / np.linalg.norm(a) / np.linalg.norm(b)

    right = []
    for seed in range(2):
        nearest = [
            max(range(12), key=lambda i: (round(cosine(support[seed, i], x), 5), -i))
            for x in tests
        ]
        right.append(labels[seed][nearest] == expected_labels)
    found = triplet.nearest_right(
        *map(jnp.asarray, (support, labels, tests, expected_labels))
    )
    np.testing.assert_array_equal(found, right)
