"""The services of MiniSGD and their wordings have the documented properties."""

import itertools

import pytest

from jaxaug.augment.judge import measures
from jaxaug.augment.output import report
from jaxaug.data import folders
from jaxaug_papers import minisgd
from jaxaug_papers.mini.overlap import overlap_report
from jaxaug_papers.minisgd.world import (
    AUGMENTED,
    ORIGINAL,
    VARIANTS,
    schema_json,
    services,
    services_of,
)

FUNCTION_WORDS = {
    *("a", "an", "the", "of", "to", "for", "at", "in", "on", "is", "it", "are"),
    *("and", "with", "or", "not", "if", "by", "this", "has"),
}
SPLITS = ("train", "dev", "test")
# Figures of SGD-X's train schema, v1..v5 (self-BLEU from v2 on), in percent.
SGD_X = {
    "jaccard": (55.1, 65.7, 71.4, 78.2, 85.7),
    "bleu": (21.1, 15.3, 10.7, 8.3, 5.4),
    "self_bleu": (13.7, 11.3, 9.9, 8.6),
}


def content_words(text):
    return frozenset(text.split()) - FUNCTION_WORDS


def test_wordings_are_as_far_from_the_original_as_in_sgd_x(tmp_path):
    """The figures match Table 1 of Coca et al. (2023); see also test_comparison.py."""
    pytest.importorskip("spacy")
    root = minisgd.write(
        tmp_path / "world", train_dialogues=1, dev_dialogues=1, test_dialogues=1
    )
    metrics = {name: measures.find(name) for name in SGD_X}
    # The wordings were assigned to v1..v5 by the services of train.
    for split, within in (("train", 1.5), ("dev", 9), ("test", 6)):
        texts = report.read("MiniSGD", folders.sgdx_folder(root), root, [split])
        rows = report.rows(texts, metrics)[:-1]
        print(split, report.text_table(rows), sep="\n")
        for name, expected in SGD_X.items():
            found = [100 * row.figures[f"table1_{name}"] for row in rows]
            found = found[-len(expected) :]
            assert found == pytest.approx(expected, abs=within), (split, name)


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
    """No wording repeats another one with other function words or another order."""
    for spec in services_of("train"):
        slots = [slot.wordings for slot in spec.slots]
        for wordings in slots + [intent.wordings for intent in spec.intents]:
            evaluated = {content_words(wordings[label][1]) for label in VARIANTS}
            trained = {content_words(wordings[label][1]) for label in AUGMENTED}
            assert not evaluated & trained


def test_overlap_of_training_and_evaluation_variants():
    report = overlap_report()
    assert report["exact"] == 0
    assert all(0 <= value <= 1 for value in report.values())
    # The variants move away from the original step by step.
    distances = [report[f"distance_{label}"] for label in VARIANTS]
    assert all(a < b for a, b in itertools.pairwise(distances))
    assert distances[0] < 0.6 and distances[4] > 0.85
    # No training variant comes close to an evaluation variant on average.
    assert min(report[f"nearest_{label}"] for label in VARIANTS) > 0.4
    # Without the variants, only words that pretraining would teach stay untrained.
    assert report["covered_augmented"] == 1
    assert report["covered_original"] < 0.85
    for name in ("eda", "tree"):
        assert report["covered_original"] < report[f"covered_{name}"] < 1
