"""Table 1: by hand, against sacrebleu, and on the real schemas of SGD-X."""

import math

import numpy as np
import pytest
import sacrebleu

from jaxaug.augment.descriptions import Description
from jaxaug.augment.judge import measures
from jaxaug.augment.output import comparison
from jaxaug.core.errors import UserError
from jaxaug.data import folders

# Jaccard distances of the slot descriptions of the test split, v1..v5, per cent: the
# figures that Coca et al. (2023) print for SGD-X.
PAPER = (55.6, 65.6, 71.2, 78.1, 85.7)


def texts(sources, **variants):
    originals = [
        Description(f"test/0/slot/{i}", "slot", "S_1", f"slot{i}", source, ())
        for i, source in enumerate(sources)
    ]
    found = {name: tuple(given) for name, given in variants.items()}
    return comparison.Texts("ours", tuple(originals), found)


# The two descriptions are equal, which must not make one set of their variants.
SMALL = texts(
    ["Cost of the ticket", "Cost of the ticket"],
    v1=["Ticket cost", "Cost of the ticket"],
    v2=["Price of a ticket", "How much the ticket costs"],
    v3=["Price for the ticket", "Fare"],
)


def found(name, variants=SMALL):
    rows = comparison.rows(variants, {name: measures.find(name)})
    return [row.figures[name] for row in rows]


def test_jaccard_by_hand():
    # {cost, ticket} against {ticket, cost} twice; {price, ticket} and {cost, ticket};
    # {price, ticket} and {fare}. "much" is a stop word.
    expected = [0.0, (2 / 3 + 0.0) / 2, (2 / 3 + 1.0) / 2]
    assert found("jaccard") == pytest.approx([*expected, np.mean(expected)])


def test_bleu_against_sacrebleu():
    scorer = sacrebleu.BLEU(effective_order=True, lowercase=True)
    expected = [
        np.mean(
            [
                scorer.sentence_score(text, [one.text]).score / 100
                for text, one in zip(given, SMALL.originals, strict=True)
            ]
        )
        for given in SMALL.variants.values()
    ]
    assert found("bleu") == pytest.approx([*expected, np.mean(expected)])


def test_self_bleu_against_sacrebleu():
    scorer = sacrebleu.BLEU(effective_order=True, lowercase=True)
    columns = list(zip(*SMALL.variants.values(), strict=True))
    expected = [
        np.mean(
            [
                scorer.sentence_score(
                    column[i], [t for j, t in enumerate(column) if j != i]
                ).score
                / 100
                for column in columns
            ]
        )
        for i in range(3)
    ]
    assert found("self_bleu") == pytest.approx([*expected, np.mean(expected)])


def test_self_bleu_by_hand():
    # One word for one word of two: 1 of 1, and a penalty of exp(1 - 2/1) for brevity.
    two = texts(["x"], v1=["a"], v2=["a b"])
    # The other way: 1 of 2 words, 0 of 1 pair, taken as 1/2: sqrt(1/2 * 1/2).
    assert found("self_bleu", two)[:2] == pytest.approx([math.exp(-1), 1 / 2])
    assert all(map(math.isnan, found("self_bleu", texts(["x"], v1=["a"]))))


def test_unchanged_texts_are_counted():
    rows = comparison.rows(SMALL, {"bleu": measures.bleu})
    assert [(r.variant, r.texts, r.unchanged) for r in rows] == [
        ("v1", 2, 1),
        ("v2", 2, 0),
        ("v3", 2, 0),
        ("mean", 6, 1),
    ]


def test_text_and_csv():
    rows = comparison.rows(
        texts(["a b"], v1=["a b"]),
        {"bleu": measures.bleu, "self_bleu": measures.self_bleu, "mine": measures.bleu},
    )
    assert comparison.text_table(rows).splitlines() == [
        "scheme  variant  texts  unchanged   BLEU  self-BLEU   mine",
        "ours    v1           1          1  100.0          -  100.0",
        "ours    mean         1          1  100.0          -  100.0",
        *comparison.legend(["bleu", "self_bleu"]),
    ]
    assert comparison.csv_table(rows).splitlines() == [
        "scheme,variant,texts,unchanged,bleu,self_bleu,mine",
        "ours,v1,1,1,1.0,,1.0",
        "ours,mean,1,1,1.0,,1.0",
    ]


def test_a_metric_that_is_not_finite():
    with pytest.raises(UserError, match="metric 'mine' is nan for source 'Cost of the"):
        comparison.rows(SMALL, {"mine": lambda s, c: np.full(len(s), np.nan)})


def test_reads_all_splits_and_kinds(sgd_tree):
    folder = folders.sgdx_folder(sgd_tree)
    every = comparison.read("SGD-X", folder, sgd_tree, ["train", "test"])
    assert list(every.variants) == ["v1", "v2", "v3", "v4", "v5"]
    assert [one.id for one in every.originals][:7] == [
        "train/0/service",
        "train/0/slot/0",
        "train/0/slot/1",
        "train/0/slot/2",
        "train/0/intent/0",
        "train/0/intent/1",
        "test/0/service",
    ]
    assert every.variants["v2"][3] == "Cost of the ticket (wording 2)"
    names = comparison.read("SGD-X", folder, sgd_tree, ["test"], ["slot_name"])
    assert names.originals[0].text == "park"
    assert names.variants["v3"][0] == "park v 3"


def test_what_cannot_be_compared(sgd_tree, edit_json):
    with pytest.raises(UserError, match="holds no variants: .*v1/test/schema.json"):
        comparison.read("ours", sgd_tree / "nothing", sgd_tree, ["test"])
    folder = folders.sgdx_folder(sgd_tree)
    with pytest.raises(UserError, match="no texts of the kinds"):
        comparison.read("ours", folder, sgd_tree, ["test"], ["sloth"])
    path = folder / "v2" / "test" / "schema.json"
    edit_json(path, lambda data: data[0]["slots"][0].update(description=" "))
    with pytest.raises(UserError, match="v2.test.schema.json: test/0/slot/0 is blank"):
        comparison.read("ours", folder, sgd_tree, ["test"])
    edit_json(path, lambda data: data.pop())
    with pytest.raises(UserError, match="1 services, but the original has 2"):
        comparison.read("ours", folder, sgd_tree, ["test"])


def test_jaccard_of_sgdx_comes_close_to_the_paper(real_data, capsys):
    """Ours are 52.5 / 64.0 / 69.7 / 77.7 / 85.9: 0.2 above to 3.1 below the paper's.

    A description has three lemmas, so that a mean moves by points with the lemmas. The
    paper does not say which version of the tagger it used, nor whether case counts. A
    word at the beginning that the tagger takes for a name keeps its capital: without
    our lower-casing v1 is 55.2, and all five are within 1.3 of the paper's. Stop words
    and marks move v2..v5 by up to 2 points more. Intents, pooled with the slots, give
    53.7 / 64.6 / 70.9 / 77.9 / 86.2.
    """
    data_dir = real_data / "sgd"
    sgdx = comparison.read(
        "SGD-X", folders.sgdx_folder(data_dir), data_dir, ["test"], ["slot"]
    )
    assert len(sgdx.originals) == 160
    rows = comparison.rows(sgdx, {"jaccard": measures.jaccard})
    ours = [100 * row.figures["jaccard"] for row in rows[:-1]]
    with capsys.disabled():
        print("\nJaccard distance of SGD-X test slot descriptions, v1..v5")
        print("  paper", *(f"{value:.1f}" for value in PAPER))
        print("  ours ", *(f"{value:.1f}" for value in ours))
    assert ours == sorted(ours)
    assert np.abs(np.subtract(ours, PAPER)).max() < 3.5
    assert np.abs(np.subtract(ours, PAPER)).mean() < 1.6
