"""The services of MiniSGD and their wordings keep the promises of their docstrings."""

import itertools

import pytest

from jaxaug.data.minisgd.language import OPENERS
from jaxaug.data.minisgd.overlap import overlap_report, uncovered_words
from jaxaug.data.minisgd.world import (
    AUGMENTED,
    ORIGINAL,
    VARIANTS,
    schema_json,
    services,
    services_of,
    unseen_services,
)

FUNCTION_WORDS = {
    *("a", "an", "the", "of", "to", "for", "at", "in", "on", "is", "it", "are"),
    *("and", "with", "or", "not", "if", "by", "this", "has"),
}
SPLITS = ("train", "dev", "test")


def content_words(text):
    return frozenset(text.split()) - FUNCTION_WORDS


def test_services_of_the_splits():
    train, dev, test = (services_of(split) for split in SPLITS)
    assert len(train) == 10
    assert [s.name for s in unseen_services("dev")] == ["Buses_1"]
    unseen = [s.name for s in unseen_services("test")]
    assert unseen == ["Lessons_1", "Taxis_1", "Trains_1"]
    assert unseen_services("train") == ()
    for seen in (dev, test):
        assert len([spec for spec in seen if spec in train]) >= 5
    assert all(4 <= len(spec.slots) <= 6 for spec in services())
    assert all(1 <= len(spec.intents) <= 2 for spec in services())
    # No slot can be told from the others by its values alone.
    shared = [
        spec.name
        for spec in train
        if len({slot.values for slot in spec.slots}) < len(spec.slots)
    ]
    assert len(shared) >= 4


@pytest.mark.parametrize("label", [ORIGINAL, *VARIANTS, *AUGMENTED])
def test_a_schema_is_unambiguous(label):
    split_of = ("train",) if label in AUGMENTED else SPLITS
    for split in split_of:
        for service in schema_json(split, label):
            for items in (service["slots"], service["intents"]):
                for field in ("name", "description"):
                    texts = [item[field] for item in items]
                    assert len(set(texts)) == len(texts), service["service_name"]
            for slot in service["slots"]:
                assert 2 <= len(slot["description"].split()) <= 7


def test_every_wording_of_an_item_is_different():
    for spec in services():
        labels = {ORIGINAL, *VARIANTS}
        if "train" in spec.splits:
            labels |= set(AUGMENTED)
        assert set(spec.descriptions) == labels
        slots = [slot.wordings for slot in spec.slots]
        for wordings in slots + [intent.wordings for intent in spec.intents]:
            assert set(wordings) == labels
            texts = [text for _, text in wordings.values()]
            assert len(set(texts)) == len(texts), (spec.name, texts)


def test_no_variant_repeats_the_words_of_its_augmentation():
    """Not even with other function words, or in another order."""
    for spec in services_of("train"):
        slots = [slot.wordings for slot in spec.slots]
        for wordings in slots + [intent.wordings for intent in spec.intents]:
            evaluated = {content_words(wordings[label][1]) for label in VARIANTS}
            trained = {content_words(wordings[label][1]) for label in AUGMENTED}
            assert not evaluated & trained


def test_no_variant_is_what_users_say():
    names = {spec.name for spec in services_of("train")}
    said = {t for key, texts in OPENERS.items() if key[0] in names for t in texts}
    for spec in services():
        for item in (*spec.intents, *spec.slots):
            assert not said & {item.wordings[label][1] for label in VARIANTS}


def test_overlap_of_training_and_evaluation_variants():
    report = overlap_report()
    assert report["exact"] == 0
    assert all(0 <= value <= 1 for value in report.values())
    # The variants move away from the original step by step.
    distances = [report[f"distance_{label}"] for label in VARIANTS]
    assert all(a < b for a, b in itertools.pairwise(distances))
    assert distances[0] < 0.5 and distances[4] > 0.85
    # No training variant comes close to an evaluation variant on average.
    assert min(report[f"nearest_{label}"] for label in VARIANTS) > 0.4
    # Only words that pretraining would know are left untrained without the variants.
    assert report["covered_augmented"] == 1
    assert uncovered_words() == set()
    assert report["covered_original"] < 0.85
    for name in ("eda", "tree"):
        assert report["covered_original"] < report[f"covered_{name}"] < 1
