"""The judge: its network in NumPy, its regression, and the metric `faithful`."""

import json

import ml_dtypes
import numpy as np
import pytest
import safetensors.numpy

from jaxaug.augment import config
from jaxaug.augment.judge import features, likelihood, measures, network, verdicts
from jaxaug.augment.judge.features import ORDER, SLOT, Pair
from jaxaug.core.errors import UserError
from jaxaug.models.named import catalogue

GOOD = Pair(SLOT, "number of guests", "how many guests there are")
BAD = Pair(SLOT, "departure time of the bus", "arrival time of the of bus")


@pytest.fixture
def real():
    """Returns the network, if MiniLM is on this machine."""
    if not catalogue.find(network.BASE).on_disk:
        pytest.skip("the weights of minilm are not there")
    return network.load()


def test_word_pieces():
    pieces = ["[PAD]", "caf", "##es", "##e", "bus", "-", "$", "東", "##s"]
    words = network.Words(pieces)
    assert words("Caf\u00e9s Bus-bus\t$\u6771") == [1, 2, 4, 5, 4, 6, 7]
    assert words("tram b\x00us") == [100, 4]
    assert words("bus" + "s" * 98) == [100]


def test_texts_are_read_as_by_the_published_tokenizer_and_network(real):
    from jaxaug.models.scorers import encoder

    published = encoder.load(network.BASE, network.LENGTH)
    texts = [
        (
            "slot: Na\u00efve caf\u00e9, 2nd floor \u2014 \u20ac5/day?",
            "don't  \u4e1c x_y",
        ),
        ("city", "town"),
        ("long " * 200, "text " * 90),
    ]
    encoded = published.encode(texts)
    for one, text in zip(encoded, texts, strict=True):
        assert real._adapted.encode(*text) == (list(one.tokens), list(one.segments))
    alone = texts[1][0]
    (hidden,) = published.run(
        lambda _, params, tokens, segments, mask, numbers: published.module.apply(
            {"params": params}, tokens, segments, mask
        ),
        published.encode([alone]),
    )
    mean, first = real._base([(alone,)])
    assert mean[0] == pytest.approx(hidden[:3].mean(0), abs=5e-3)
    assert first[0] == pytest.approx(hidden[0], abs=5e-3)


def test_tensors_of_both_widths(tmp_path):
    path = tmp_path / "x.safetensors"
    wide = np.array([[1.5, -2.25]], np.float32)
    safetensors.numpy.save_file({"a": wide, "b": wide.astype(ml_dtypes.bfloat16)}, path)
    found = network.tensors(path)
    assert found["a"].tolist() == found["b"].tolist() == wide.tolist()
    path.write_bytes(path.read_bytes()[:-3])
    with pytest.raises(UserError, match=r"x\.safetensors: is no complete safetensors"):
        network.tensors(path)


def test_a_good_rewording_is_kept_and_a_bad_one_dropped(real):
    good, bad = verdicts.verdicts([GOOD, BAD])
    assert good.keep and good.reasons == () and good.faithful > 0.7
    assert not bad.keep and bad.reasons == ("unfaithful",) and bad.faithful < 0.3
    assert verdicts.faithful([GOOD])[0] == pytest.approx(good.faithful, abs=2e-3)
    assert verdicts.verdicts([]) == []


@pytest.mark.parametrize("model", verdicts.NAMES)
def test_the_probability_is_a_logistic_regression(model, judge_network):
    pairs = [GOOD, BAD]
    known = json.loads(verdicts.COEFFICIENTS.read_text())[model or "words"]
    columns = features.words(pairs)
    if model:
        similarity, odds = (
            judge_network.similarity(pairs),
            judge_network.log_odds(pairs),
        )
        columns = np.c_[columns, 1 - similarity, odds]
    if model == likelihood.MODEL:
        columns = np.c_[columns, likelihood.both(pairs)]
    weights = np.array(list(known["weights"].values()))
    score = known["bias"] + columns @ weights
    expected = 1 / (1 + np.exp(-score))
    assert verdicts.faithful(pairs, model) == pytest.approx(expected, abs=1e-4)
    if model == likelihood.MODEL:
        least = [0.0, 0.999]
        bound = 1 / (1 + np.exp(-(score[1] - columns[1, -2:] @ weights[-2:])))
        assert bound < 0.999 and (weights[-2:] > 0).all()
        assert verdicts.faithful(pairs, model, least) == pytest.approx(
            [expected[0], bound], abs=1e-4
        )


@pytest.mark.parametrize(
    ("candidate", "reasons"),
    [
        ("Number of guests", ("copy",)),
        ("number of the guests", ("trivial",)),
        ("number of 2 guests", ("added_number",)),
    ],
)
def test_rules_come_first(candidate, reasons, judge_network):
    (found,) = verdicts.verdicts([Pair(SLOT, GOOD.original, candidate)], 0.0)
    assert (found.keep, found.reasons) == (False, reasons)


def test_the_metric_takes_kinds_and_a_model(judge_network):
    for model in verdicts.NAMES:
        metrics = {"faithful": measures.find("faithful", model=model)}
        for kinds in ([SLOT, ORDER], None):
            texts = (
                [GOOD.original, BAD.original],
                [GOOD.candidate, BAD.candidate],
            )
            found = measures.compute(metrics, *texts, kinds)["faithful"]
            rows = zip(kinds or [SLOT] * 2, *texts, strict=True)
            expected = verdicts.faithful([Pair(*row) for row in rows], model)
            assert found.tolist() == expected.tolist()
    with pytest.raises(UserError, match="model 'x': give 'minilm'"):
        measures.find("faithful", model="x")


def test_other_weights_are_another_metric(monkeypatch, tmp_path):
    options = {"faithful": {"model": ""}}
    known = measures.key(options)
    assert known == measures.key(options)
    other = tmp_path / "coefficients.json"
    other.write_text("{}")
    monkeypatch.setattr(verdicts, "COEFFICIENTS", other)
    assert measures.key(options) != known


@pytest.mark.parametrize(("argument", "least"), [("", 0.5), (":0.9", 0.9)])
def test_the_default_config_takes_the_least_probability(argument, least):
    found = config.load(f"configs/augment/grammar_tree.py{argument}")
    assert found.spec.constraints[0] == f"faithful >= {least}"
    assert found.spec.levels[1] == "faithful"


def test_a_probability_above_one_is_refused():
    with pytest.raises(UserError, match="faithful is from 0 to 1"):
        config.load("configs/augment/grammar_tree.py:2")


def test_weights_that_ctranslate2_has_are_not_read(tiny_lm, monkeypatch):
    pytest.importorskip("ctranslate2")
    from jaxaug.models.text import in_engine, registry

    whole = registry.load(str(tiny_lm))
    asked = []
    monkeypatch.setattr(registry, "described", lambda name: whole.bare)
    monkeypatch.setattr(registry, "load", lambda name: asked.append(name) or whole)
    for is_kept in (True, False):
        monkeypatch.setattr(in_engine, "is_kept", lambda *_, kept=is_kept: kept)
        found = likelihood.load.__wrapped__("mine")
        assert found.params == ({} if is_kept else whole.params)
    assert asked == ["mine"]


def test_a_described_model_has_the_identity_of_the_whole_one():
    from jaxaug.models.text import registry

    if not catalogue.find("smollm2").on_disk:
        pytest.skip("the weights of smollm2 are not there")
    found = registry.described(likelihood.MODEL)
    assert found.params == {}
    assert found.identity == registry.published_identity(likelihood.MODEL)
    assert found.vocabulary.encode("a b") and registry.described("minisgd") is None
