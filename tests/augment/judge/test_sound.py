"""The learned verdict on rewordings of the grammar."""

import numpy as np
import pytest

from jaxaug.augment import config
from jaxaug.augment.judge import features, measures, verdicts
from jaxaug.augment.judge.features import ORDER, SLOT, Pair
from jaxaug.augment.judge.sound import Sound
from jaxaug.core.errors import UserError

GOOD = ("number of guests", "how many guests there are")
BAD = (
    "manage donation appointments and screen donors for eligibility",
    "tool for taking care of donation appointments and screen givers for eligibility",
)


@pytest.mark.parametrize(
    ("level", "values", "expected"),
    [
        (verdicts.WORDS, {}, 0.98453),
        (verdicts.WORDS, {"long": 1.0}, 0.96014),
        (verdicts.WORDS, {"long": 2.5, "gained": 2.0, "bare": 1.0}, 0.40323),
        (verdicts.SIMILARITY, {"long": 1.0}, 0.97716),
        (
            verdicts.SIMILARITY,
            {"long": 2.5, "gained": 2.0, "bare": 1.0, "unlike": 0.3},
            0.15478,
        ),
    ],
)
def test_stored_features_have_stored_probabilities(level, values, expected):
    known = verdicts.coefficients(level, verdicts.GRAMMAR)
    names = verdicts.names(level, verdicts.GRAMMAR)
    row = np.array([[values.get(name, 0.0) for name in names]])
    assert 1 / (1 + np.exp(known.scores(row))) == pytest.approx([expected], abs=1e-5)


def test_features_of_form():
    pairs = [Pair(SLOT, *GOOD), Pair(SLOT, "type of car", "car type")]
    # "How many" counts as a counterpart of "number" only for the other features.
    assert features.form(pairs) == pytest.approx(
        np.array([[np.log(3), 1, 0, 4], [np.log(3), 0, 0, 0]])
    )
    assert features.form([]).shape == (0, len(features.FORM))


def test_a_clearly_good_rewording_is_kept_and_a_clearly_bad_one_dropped():
    pairs = [Pair(SLOT, *GOOD), Pair(ORDER, *BAD)]
    judge = verdicts.judge(source=verdicts.GRAMMAR)
    good, bad = judge.sound(pairs)
    assert good > 0.9 and bad < 0.6
    found = judge.verdicts(pairs)
    assert [one.keep for one in found] == [True, False]
    assert [one.metrics["sound"] for one in found] == [good, bad]
    assert judge.sound([]).shape == (0,)


def test_the_metric_takes_the_kinds_of_texts():
    metrics = {"sound": Sound("")}
    sources, candidates = zip(GOOD, BAD, strict=True)
    judge = verdicts.judge(source=verdicts.GRAMMAR)
    for kinds in ([SLOT, ORDER], [ORDER, SLOT], None):
        found = measures.compute(metrics, sources, candidates, kinds)["sound"]
        rows = zip(kinds or [SLOT] * 2, sources, candidates, strict=True)
        assert found.tolist() == judge.sound([Pair(*row) for row in rows]).tolist()


def test_other_weights_are_another_metric(monkeypatch, tmp_path):
    options = {"sound": {"model": ""}}
    known = measures.key(options)
    assert known == measures.key(options)
    other = tmp_path / "coefficients.json"
    other.write_text("{}")
    monkeypatch.setattr(measures, "COEFFICIENTS", other)
    assert measures.key(options) != known


@pytest.mark.parametrize(("argument", "least"), [("", 0.5), (":0.9", 0.9)])
def test_the_default_config_takes_the_least_probability(argument, least):
    found = config.load(f"configs/augment/grammar_tree.py{argument}")
    assert found.spec.constraints[0] == f"sound >= {least}"
    assert found.spec.levels[1] == "sound"


def test_a_probability_above_one_is_refused():
    with pytest.raises(UserError, match="sound is from 0 to 1"):
        config.load("configs/augment/grammar_tree.py:2")
