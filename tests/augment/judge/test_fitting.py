import numpy as np
import pytest

from jaxaug.augment.judge import fitting
from jaxaug.augment.judge.fitting import Aim, Labelled
from jaxaug.core.errors import UserError

AIM = Aim(drop=0.8, keep=0.7)


def made(count=120, seed=0):
    """Returns pairs of 24 originals; only the first feature is informative."""
    rng = np.random.default_rng(seed)
    bad = rng.random(count) < 0.5
    told = bad + 0.4 * rng.standard_normal(count)
    features = np.stack([told, rng.standard_normal(count), np.ones(count)], axis=1)
    groups = [f"text {i % 24}" for i in range(count)]
    return Labelled(features, bad, groups, np.zeros(count, np.bool_))


def test_folds_never_split_an_original():
    groups = ["a", "b", "a", "c", "d", "e", "c", "a", "f", "g"]
    for seed in range(5):
        masks = list(fitting.folds(groups, 3, seed))
        assert np.sum(masks, axis=0).tolist() == [1] * len(groups)
        for mask in masks:
            inside = {g for g, held in zip(groups, mask, strict=True) if held}
            outside = {g for g, held in zip(groups, mask, strict=True) if not held}
            assert inside and not inside & outside


def test_too_few_originals():
    with pytest.raises(UserError, match="2 groups for 3 folds: label pairs of more"):
        list(fitting.folds(["a", "b", "a"], 3, 0))


def test_one_label_is_not_enough():
    with pytest.raises(UserError, match="all pairs have one label"):
        fitting.fit(np.ones((3, 1)), np.ones(3, np.bool_), 0.1)


def test_the_fit_is_the_minimum():
    """The weights minimize the documented loss on a grid, with balanced classes."""
    data = made()
    features = data.features[:, :1]
    found = fitting.fit(features, data.bad, 0.1)

    def loss(bias, weight):
        x = bias + weight * (features[:, 0] - found.usual[0])
        good = np.logaddexp(0, x)[~data.bad].mean() / 2
        bad = np.logaddexp(0, -x)[data.bad].mean() / 2
        return good + bad + 0.1 * (weight * features.std()) ** 2

    best = loss(found.bias, found.weights[0])
    for step in (-0.05, 0.05):
        assert best < loss(found.bias + step, found.weights[0])
        assert best < loss(found.bias, found.weights[0] + step)


def test_weights_are_not_negative():
    data = made()
    found = fitting.fit(-data.features, data.bad, 0.01)
    assert found.weights.tolist()[::2] == [0.0, 0.0]


def test_the_same_data_gives_the_same_judge():
    first, second = (fitting.rounded(fitting.train(made(), AIM)) for _ in range(2))
    assert first.bias == second.bias
    assert first.weights.tolist() == second.weights.tolist()
    other = fitting.rounded(fitting.train(made(seed=1), AIM))
    assert other.weights.tolist() != first.weights.tolist()


@pytest.mark.parametrize(
    ("scores", "bad", "limit"),
    [
        ([0, 1, 2, 3], [0, 0, 1, 1], 1.5),
        # Three of four bad ones are dropped from 3 or 4 on; 4 keeps more good ones.
        ([0, 1, 2, 3, 1.5, 4, 5, 6], [0, 0, 0, 0, 1, 1, 1, 1], 3.5),
        ([0, 1, np.inf, np.inf], [0, 0, 1, 1], 1.0),
    ],
)
def test_threshold(scores, bad, limit):
    found = fitting.threshold(np.array(scores, float), np.array(bad, bool), AIM)
    assert found == limit


def test_an_aim_trades_kept_pairs_for_dropped_pairs():
    data = made(count=480)
    strict, lenient = (
        fitting.kept_out_of_fold(data, aim) for aim in (Aim(0.99, 0.4), Aim(0.4, 0.99))
    )
    assert strict[~data.bad].mean() < lenient[~data.bad].mean() > 0.97
    assert strict[data.bad].mean() < 0.03 < lenient[data.bad].mean()


def test_held_out_originals_are_judged_well():
    data = made()
    kept = fitting.kept_out_of_fold(data, AIM)
    assert kept[~data.bad].mean() > 0.7 and kept[data.bad].mean() < 0.2


def test_rules_drop_pairs_with_any_features():
    data = made()._replace(dropped=np.arange(120) % 24 == 3)
    assert not fitting.kept_out_of_fold(data, AIM)[data.dropped].any()


def test_a_judge_of_noise_is_no_better_than_chance():
    """The reported shares come from pairs that the judge has not seen."""
    rng = np.random.default_rng(1)
    data = made()._replace(features=rng.standard_normal((120, 8)))
    seen = fitting.fit(data.features, data.bad, 0.003).scores(data.features) <= 0
    kept = fitting.kept_out_of_fold(data, AIM)
    right = np.mean(kept == ~data.bad)
    assert 0.3 < right < 0.6 < np.mean(seen == ~data.bad) + 0.1


def test_shares_and_their_intervals():
    kept, bad = np.array([1, 1, 0.5, 0, 0, 1]), np.array([0, 0, 0, 1, 1, 1], bool)
    found = fitting.shares(kept, bad, ["a", "a", "b", "b", "c", "c"])
    assert found.precision[0] == pytest.approx(2.5 / 3.5)
    assert found.recall[0] == pytest.approx(2.5 / 3)
    assert found.dropped[0] == pytest.approx(2 / 3)
    for value, low, high in found:
        assert 0 <= low < value < high <= 1
    one = fitting.shares(kept, bad, ["a"] * 6)
    assert one.recall == pytest.approx((2.5 / 3,) * 3)
