"""Metrics between sources and candidates: by hand, by sacrebleu, and invalid ones."""

import sys
import types

import numpy as np
import pytest
import sacrebleu
from hypothesis import given
from hypothesis import strategies as st

from jaxaug.augment.judge import measures
from jaxaug.core.errors import UserError

SENTENCES = st.lists(st.sampled_from(["a", "b", "c", "D"]), max_size=7).map(" ".join)


def test_jaccard_by_hand():
    sources = ["The city that the buses are leaving from"] * 4
    candidates = [
        "Where the bus leaves, city",
        "City where the bus departs",
        "Airport of the flight",
        "and so on",
    ]
    # {city, bus, leave} against the same, {city, bus, depart}, {airport, flight}, {}.
    assert measures.jaccard(sources, candidates).tolist() == [0.0, 1 - 2 / 4, 1.0, 1.0]
    assert measures.jaccard(["and so on"], ["The"]).tolist() == [0.0]
    assert measures.jaccard([], []).shape == (0,)


def test_string_similarity_by_hand():
    found = measures.string_similarity(
        ["kitten", "Same", "", "abc"], ["sitting", "same", "", ""]
    )
    assert found.tolist() == pytest.approx([1 - 3 / 7, 1.0, 1.0, 0.0])


def test_bleu_by_hand():
    # 3 of 4 words, 1 of 3 pairs, then 1/2 of 2 and 1/4 of 1 by smoothing.
    expected = (3 / 4 * 1 / 3 * (1 / 2) / 2 * (1 / 4)) ** (1 / 4)
    assert measures.bleu(["a B e d"], ["A b c d"]) == pytest.approx([expected])


@given(st.lists(st.tuples(st.sampled_from("xyz"), SENTENCES), max_size=9))
def test_self_bleu_against_sacrebleu(pairs):
    scorer = sacrebleu.BLEU(effective_order=True, lowercase=True)
    expected = []
    for place, (source, text) in enumerate(pairs):
        others = [t for i, (s, t) in enumerate(pairs) if s == source and i != place]
        score = scorer.sentence_score(text, others).score if others else 0.0
        expected.append(score / 100)
    found = measures.self_bleu([s for s, _ in pairs], [t for _, t in pairs])
    assert found.tolist() == pytest.approx(expected)


def test_self_bleu_by_hand():
    # Each pair of words is in the other text, and none is in the third source.
    found = measures.self_bleu(["s", "s", "t", "t"], ["a b", "a b", "a b", "c d"])
    assert found.tolist() == pytest.approx([1.0, 1.0, 0.0, 0.0])


@pytest.mark.parametrize(
    ("name", "scorer", "model"),
    [
        ("similarity", "Similarity", "minilm"),
        ("entailment", "Entailment", "bart-large-mnli"),
        ("mutual_implication", "MutualImplication", "roberta-mi"),
        ("bleurt", "Bleurt", "bleurt-20"),
    ],
)
def test_metrics_of_models(monkeypatch, tmp_path, name, scorer, model):
    from jaxaug.models.scorers import encoder, pairs

    made = []

    class Fake:
        def __init__(self, loaded, store, **options):
            made.append((loaded, options))

        def __call__(self, given):
            return np.array([len(a) - len(b) for a, b in given], np.float32)

    monkeypatch.setenv("JAXAUG_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(encoder, "load", lambda name: f"loaded {name}")
    monkeypatch.setattr(pairs, scorer, Fake)
    metric = measures.find(name)
    # The source comes first: premise, reference.
    assert metric(["four", "a"], ["two", "bcd"]).tolist() == [1, -2]
    assert metric([], []).shape == (0,)
    measures.find(name, model="other", pooling="cls")
    assert made == [(f"loaded {model}", {}), ("loaded other", {"pooling": "cls"})]


def test_similarity_of_real_texts():
    from jaxaug.models.named import catalogue

    if not catalogue.find("minilm").on_disk:
        pytest.skip("the weights of minilm are not there")
    source = "City where the bus departs"
    near, far = measures.find("similarity")(
        [source] * 2, ["The town that the bus leaves from", "Name of the dentist"]
    )
    assert near > 0.7
    assert far < 0.3


def test_metric_of_a_user(monkeypatch):
    module = types.ModuleType("my_metrics")
    module.shorter = lambda sources, candidates: [
        float(len(b) < len(a)) for a, b in zip(sources, candidates, strict=True)
    ]
    module.at_least = lambda length: (
        lambda sources, candidates: [float(len(c) >= length) for c in candidates]
    )
    module.number = 3
    monkeypatch.setitem(sys.modules, "my_metrics", module)
    found = measures.compute(
        {
            "shorter": measures.find("my_metrics:shorter"),
            "long": measures.find("my_metrics:at_least", length=2),
        },
        ["abc", "a"],
        ["ab", "a"],
    )
    assert {name: list(values) for name, values in found.items()} == {
        "shorter": [1.0, 0.0],
        "long": [1.0, 0.0],
    }
    with pytest.raises(UserError, match="my_metrics has no function 'number'"):
        measures.find("my_metrics:number")
    with pytest.raises(UserError, match="No module named 'no_such'.*PYTHONPATH"):
        measures.find("no_such:thing")


def test_unknown_names_and_options():
    with pytest.raises(
        UserError, match="'jacard' is not a metric; did you mean 'jaccard'"
    ):
        measures.find("jacard")
    with pytest.raises(
        UserError, match=r"metric 'bleu' cannot be made with \{'n': 2\}"
    ):
        measures.find("bleu", n=2)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        (
            [0.5, np.nan],
            "metric 'mine' is nan for source 'b' and candidate 'B'; values must be",
        ),
        ([np.inf, 0.5], "metric 'mine' is inf for source 'a'"),
        ([0.5], r"gave an array of shape \(1,\) for 2 candidates, expected \(2,\)"),
        (["x", "y"], "expected one number for each candidate"),
        (None, r"shape \(\) for 2 candidates"),
    ],
)
def test_metrics_that_give_no_numbers(values, message):
    with pytest.raises(UserError, match=message):
        measures.compute({"mine": lambda s, c: values}, ["a", "b"], ["A", "B"])


def test_sources_and_candidates_belong_together():
    with pytest.raises(UserError, match="1 sources for 2 candidates"):
        measures.compute({}, ["a"], ["b", "c"])
