"""The generated variants of MiniSGD match its schemas and are reproducible."""

import csv
import dataclasses
from collections import Counter
from pathlib import Path

import pytest

from jaxaug.augment import config, descriptions, run
from jaxaug.data.rename import renaming
from jaxaug.data.sgd import read_schema_of
from jaxaug_papers import minisgd

ROOT = Path(__file__).parents[3]
EDA = ROOT / "configs/augment/eda.py"
_READINGS = "papers/jaxaug_papers/tree/readings/minisgd_tree.tsv"
_README = "papers/jaxaug_papers/minisgd/variants/README.md"
LABELS = ("v1", "v2", "v3", "v4", "v5")


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    root = tmp_path_factory.mktemp("minisgd")
    return minisgd.write(
        root / "world", train_dialogues=1, dev_dialogues=1, test_dialogues=1
    )


@pytest.mark.parametrize(("name", "unchanged"), [("eda", 2), ("tree", 0)])
def test_only_descriptions_and_the_names_of_services_differ(world, name, unchanged):
    original = read_schema_of(world, "train")
    same = 0
    for label in LABELS:
        variant = read_schema_of(world, "train", label, world / "variants" / name)
        renaming(original, variant, name)
        for old, new in zip(original.services, variant.services, strict=True):
            assert new.name == old.name + label[1:]
            for kind in ("slots", "intents"):
                pairs = zip(getattr(old, kind), getattr(new, kind), strict=True)
                for one, other in pairs:
                    assert other.description.strip()
                    assert one == dataclasses.replace(
                        other, description=one.description
                    )
        both = zip(
            descriptions.descriptions(original, "train"),
            descriptions.descriptions(variant, "train"),
            strict=True,
        )
        same += sum(one.text == other.text for one, other in both)
    assert same == unchanged  # The figure of variants/README.md.


def test_counts_from_reading_the_tree(world):
    """Each changed text was read twice; the README has the counts."""
    with (ROOT / _READINGS).open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE))
    original = descriptions.descriptions(read_schema_of(world, "train"), "train")
    different = Counter()
    for label in LABELS:
        variant = read_schema_of(world, "train", label, world / "variants/tree")
        texts = descriptions.descriptions(variant, "train")
        for old, new in zip(original, texts, strict=True):
            if old.text != new.text:
                different[label, old.text, new.text] += 1
    assert Counter((r["variant"], r["original"], r["text"]) for r in rows) == different
    page = (ROOT / _README).read_text(encoding="utf-8")
    counts = [Counter(row[reader] for row in rows) for reader in ("first", "second")]
    for said, label in (
        ("faithful and different", "faithful"),
        ("says something else", "changed"),
        ("broken", "broken"),
    ):
        cells = [f"{c[label]} ({c[label] / (5 * len(original)):.0%})" for c in counts]
        assert f"| {said} | {' | '.join(cells)} |" in page
    agreed = sum(row["first"] == row["second"] for row in rows) / len(rows)
    assert f"agree on {agreed:.0%}" in page


@pytest.mark.long
def test_the_command_makes_them_again(world, tmp_path, monkeypatch):
    monkeypatch.setenv("JAXAUG_CACHE_DIR", str(tmp_path / "cache"))
    pytest.importorskip("spacy")
    run.augment(config.load(str(EDA)), world, tmp_path / "eda")
    for label in LABELS:
        name = f"{label}/train/schema.json"
        assert (tmp_path / "eda" / name).read_bytes() == (
            world / "variants/eda" / name
        ).read_bytes()
