"""Table 1: by hand, by sacrebleu, and on the real schemas of SGD-X."""

import math
import re

import numpy as np
import pytest

from jaxaug.augment.descriptions import Description
from jaxaug.augment.judge import measures
from jaxaug.augment.output import report
from jaxaug.core.errors import UserError
from jaxaug.data import folders

# SGD-X in table 1 of Coca et al. (2023), v1..v5, per cent.
PAPER = {
    "jaccard": (55.6, 65.6, 71.2, 78.1, 85.7),
    "bleu": (20.4, 15.3, 10.8, 8.3, 5.2),
    "self_bleu": (13.5, 11.2, 9.9, 8.6),
}


def texts(sources, **variants):
    originals = [
        Description(f"test/0/slot/{i}", "slot", "S_1", f"slot{i}", source, ())
        for i, source in enumerate(sources)
    ]
    found = {name: tuple(given) for name, given in variants.items()}
    return report.Texts("ours", tuple(originals), found)


# The two descriptions are equal, but their variants must stay separate sets.
SMALL = texts(
    ["Cost of the ticket", "Cost of the ticket"],
    v1=["Ticket cost", "Cost of the ticket"],
    v2=["Price of a ticket", "How much the ticket costs"],
    v3=["Price for the ticket", "Fare"],
)


def found(name, variants=SMALL):
    rows = report.rows(variants, {name: measures.find(name)})
    return [row.figures[name] for row in rows]


def test_jaccard_by_hand():
    # {cost, ticket} against {ticket, cost} twice; {price, ticket} and {cost, ticket};
    # {price, ticket} and {fare}. "much" is a stop word.
    expected = [0.0, (2 / 3 + 0.0) / 2, (2 / 3 + 1.0) / 2]
    assert found("jaccard") == pytest.approx([*expected, np.mean(expected)])


def test_self_bleu_by_hand():
    # One word for one word of two: 1 of 1, and a penalty of exp(1 - 2/1) for brevity.
    two = texts(["x"], v1=["a"], v2=["a b"])
    # Vice versa: 1 of 2 words, 0 of 1 pair, taken as 1/2: sqrt(1/2 * 1/2).
    assert found("self_bleu", two)[:2] == pytest.approx([math.exp(-1), 1 / 2])
    assert all(map(math.isnan, found("self_bleu", texts(["x"], v1=["a"]))))


def test_unchanged_texts_are_counted():
    rows = report.rows(SMALL, {"bleu": measures.bleu})
    assert [(r.variant, r.texts, r.unchanged) for r in rows] == [
        ("v1", 2, 1),
        ("v2", 2, 0),
        ("v3", 2, 0),
        ("mean", 6, 1),
    ]


def test_text_and_csv():
    rows = report.rows(
        texts(["a b"], v1=["a b"]),
        {"bleu": measures.bleu, "self_bleu": measures.self_bleu, "mine": measures.bleu},
    )
    # Two words have no trigram: without the effective order, BLEU would not be full.
    lines = report.text_table(rows).splitlines()
    assert [re.split("  +", line) for line in lines[:3]] == [
        ["scheme", "variant", "texts", "unchanged", "BLEU T1", "self-BLEU T1"]
        + ["BLEU", "self-BLEU", "mine"],
        ["ours", "v1", "1", "1", "0.0", "-", "100.0", "-", "100.0"],
        ["ours", "mean", "1", "1", "0.0", "-", "100.0", "-", "100.0"],
    ]
    assert len({len(line) for line in lines[:3]}) == 1
    assert lines[3:] == report.legend(
        ["table1_bleu", "table1_self_bleu", "bleu", "self_bleu"]
    )
    assert report.csv_table(rows).splitlines() == [
        (
            "scheme,variant,texts,unchanged,table1_bleu,table1_self_bleu,bleu,"
            "self_bleu,mine"
        ),
        "ours,v1,1,1,0.0,,1.0,,1.0",
        "ours,mean,1,1,0.0,,1.0,,1.0",
    ]


def test_a_metric_that_is_not_finite():
    with pytest.raises(UserError, match="metric 'mine' is nan for source 'Cost of the"):
        report.rows(SMALL, {"mine": lambda s, c: np.full(len(s), np.nan)})


def test_reads_all_splits_and_kinds(sgd_tree):
    folder = folders.sgdx_folder(sgd_tree)
    every = report.read("SGD-X", folder, sgd_tree, ["train", "test"])
    assert list(every.variants) == ["v1", "v2", "v3", "v4", "v5"]
    assert [one.id for one in every.originals][:7] == [
        "train/0/service", "train/0/slot/0", "train/0/slot/1", "train/0/slot/2",
        "train/0/intent/0", "train/0/intent/1", "test/0/service",
    ]  # fmt: skip
    assert every.variants["v2"][3] == "Cost of the ticket (wording 2)"
    names = report.read("SGD-X", folder, sgd_tree, ["test"], ["slot_name"])
    assert names.originals[0].text == "park"
    assert names.variants["v3"][0] == "park v 3"


def test_schemas_that_cannot_be_compared(sgd_tree, edit_json):
    with pytest.raises(UserError, match="holds no variants: .*v1/test/schema.json"):
        report.read("ours", sgd_tree / "nothing", sgd_tree, ["test"])
    folder = folders.sgdx_folder(sgd_tree)
    with pytest.raises(UserError, match="no texts of the kinds"):
        report.read("ours", folder, sgd_tree, ["test"], ["sloth"])
    path = folder / "v2" / "test" / "schema.json"
    edit_json(path, lambda data: data[0]["slots"][0].update(description=" "))
    with pytest.raises(UserError, match="v2.test.schema.json: test/0/slot/0 is blank"):
        report.read("ours", folder, sgd_tree, ["test"])
    edit_json(path, lambda data: data.pop())
    with pytest.raises(UserError, match="1 services, but the original has 2"):
        report.read("ours", folder, sgd_tree, ["test"])


def test_table_1_on_the_real_train_schema(real_data):
    """The figures of human variants, which can be computed from public data."""
    root = real_data / "sgd"
    sgdx = report.read("SGD-X", folders.sgdx_folder(root), root, ["train"])
    metrics = {name: measures.find(name) for name in PAPER}
    rows = report.rows(sgdx, metrics)[:-1]
    found = {
        name: [round(100 * row.figures[f"table1_{name}"], 1) for row in rows]
        for name in PAPER
    }
    assert found["jaccard"] == [55.1, 65.7, 71.4, 78.2, 85.7]
    assert found["bleu"] == [21.1, 15.3, 10.7, 8.3, 5.4]
    assert math.isnan(found["self_bleu"][0])
    assert found["self_bleu"][1:] == [13.7, 11.3, 9.9, 8.6]
    for name, published in PAPER.items():
        assert found[name][-len(published) :] == pytest.approx(published, abs=0.75)


def test_table_1_counts_marks_and_slots_alone():
    originals = [
        Description("train/0/slot/0", "slot", "S", "s", "Cost of the ticket", ()),
        Description("train/0/service", "service", "S", "S", "Tickets", ()),
    ]
    variants = {"v1": ("Cost of a ticket", "x"), "v2": ("Cost of the ticket!", "y")}
    small = report.Texts("ours", tuple(originals), variants)
    rows = report.rows(small, {"jaccard": measures.jaccard})
    # {cost, ticket} against itself, and with punctuation.
    figures = [row.figures["table1_jaccard"] for row in rows]
    assert figures == pytest.approx([0.0, 1 / 3, 1 / 6])
