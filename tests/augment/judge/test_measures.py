"""Metrics between sources and candidates: by hand, by sacrebleu, and invalid ones."""

import sys
import types

import numpy as np
import pytest
import sacrebleu
from hypothesis import given
from hypothesis import strategies as st

from jaxaug.augment import config as configs
from jaxaug.augment.descriptions import Description, beside
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


def test_length():
    found = measures.length(["a b c d", "a", ""], ["a b", "a b c", "a"])
    assert found.tolist() == [0.5, 3.0, 1.0]


def test_how():
    sources = ["City of the bus", "Number of seats", "Number of seats", "City"]
    found = measures.how(
        sources, ["How many buses", "How many seats", "Seats", "However"]
    )
    assert found.tolist() == [1, 0, 0, 0]


@pytest.mark.parametrize(
    "text",
    [
        "Boolean flag indicating if pets are allowed",
        "Boolean flag indicating whether pets are allowed",
        "Boolean flag whether pets are allowed",
        "A flag that says if pets are allowed",
        "Indicates whether pets are allowed",
        "if pets are allowed",
        "Whether pets are allowed",
    ],
)
def test_texts_without_flags(text):
    assert measures.without_flag(text) == "whether pets are allowed"


@pytest.mark.parametrize("text", ["Flag of the country", "Date of the trip", "Iffy"])
def test_other_texts_stay(text):
    assert measures.without_flag(text) == text


@pytest.mark.parametrize(
    ("name", "scorer", "model"),
    [
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


def test_similarity_by_numpy_is_similarity_by_jax(tmp_path):
    from jaxaug.models.named import catalogue
    from jaxaug.models.scorers import encoder, pairs

    if not catalogue.find("minilm").on_disk:
        pytest.skip("the weights of minilm are not there")
    source = "Boolean flag indicating if pets are allowed"
    others = ["Whether animals are accepted", "Name of the dentist", "pet " * 200]
    found = measures.find("similarity")([source] * 3, others)
    by_jax = pairs.Similarity(encoder.load("minilm"))
    assert found == pytest.approx(by_jax([(source, one) for one in others]), abs=2e-6)
    plain = measures.find("similarity", flags=False)([source], others[:1])
    assert plain == pytest.approx(by_jax([("whether pets are allowed", others[0])]))
    assert plain > found[0] + 0.1


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


def described(id_, kind, text):
    return Description(id_, kind, "Flights_1", "x", text, ())


DESCRIPTIONS = [
    described("train/0/service", "service", "Flights"),
    described("train/0/slot/0", "slot", "arrival time"),
    described("train/0/slot/1", "slot", "departure time"),
    described("train/0/slot/2", "slot", "Arrival time"),
    described("train/0/intent/0", "intent", "find flights"),
    described("train/1/service", "service", "Buses"),
    described("train/1/slot/0", "slot", "departure city"),
    described("test/0/slot/0", "slot", "price"),
]


def shared_words(sources, candidates):
    pairs = zip(sources, candidates, strict=True)
    return np.array([len(set(a.split()) & set(b.split())) for a, b in pairs], float)


def test_others_are_of_the_same_kind_and_service():
    found = beside(DESCRIPTIONS)
    assert found == {
        "train/0/service": (),
        # The third slot has the same text up to letter case.
        "train/0/slot/0": ("departure time",),
        "train/0/slot/1": ("arrival time", "Arrival time"),
        "train/0/slot/2": ("departure time",),
        "train/0/intent/0": (),
        "train/1/service": (),
        "train/1/slot/0": (),
        "test/0/slot/0": (),
    }


def test_the_nearest_other_text_counts():
    items = [
        (["departure time", "seat class"], ["time of departure", "class", "x"]),
        ([], ["anything"]),
        (["price"], []),
    ]
    assert measures.nearness(shared_words, items) == [[2.0, 1.0, 0.0], [None], []]


def test_nothing_to_compare():
    assert measures.nearness(shared_words, [([], []), ([], ["a"])]) == [[], [None]]


def test_values_are_finite():
    with pytest.raises(UserError, match="metric 'apart_by' is nan for source 'b'"):
        measures.nearness(lambda a, b: np.array([1.0, np.nan]), [(["a", "b"], ["c"])])


def test_the_metric_must_be_one_of_the_run():
    with pytest.raises(UserError, match="apart_by='far'.*Add it to metrics"):
        configs.of({"scheme": "paraphrase", "apart_by": "far"}, "here")
