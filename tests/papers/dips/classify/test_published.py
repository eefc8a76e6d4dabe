"""Readers of SNIPS, TREC, Yahoo-L31, and labeled pairs."""

import json

import pytest

from jaxaug.core.errors import UserError
from jaxaug_papers.dips.classify import pairs, published
from jaxaug_papers.dips.classify.pairs import Pair
from jaxaug_papers.shared.labelled import Sentence


def snips(folder, train, test):
    folder.mkdir(exist_ok=True)
    for intent, texts in train.items():
        for name, own in (
            (f"train_{intent}_full", texts),
            (f"validate_{intent}", test[intent]),
        ):
            items = [{"data": [{"text": part} for part in text]} for text in own]
            content = json.dumps({intent: items}, ensure_ascii=False)
            (folder / f"{name}.json").write_text(content, encoding="utf-8")


def test_snips_joins_the_parts_of_a_sentence(tmp_path):
    train = {"Play": [["play ", "Cita Romántica", " now. "]], "Rate": [["rate  it"]]}
    snips(tmp_path / "snips", train, {"Play": [["play"]], "Rate": [["rate"]]})
    found = published.read_snips(tmp_path / "snips")
    assert found.train == (
        Sentence("play Cita Romántica now.", "Play"),
        Sentence("rate it", "Rate"),
    )
    assert found.test == (Sentence("play", "Play"), Sentence("rate", "Rate"))
    assert found.name == "snips" and found.labels == ("Play", "Rate")


def test_damaged_snips(tmp_path):
    with pytest.raises(
        UserError, match="no train_<Intent>_full.json is there. Get the"
    ):
        published.read_snips(tmp_path)
    snips(tmp_path, {"Play": [["a"], [" "]]}, {"Play": [["b"]]})
    with pytest.raises(UserError, match=r"train_Play_full.json: item 2: .*with texts"):
        published.read_snips(tmp_path)
    (tmp_path / "train_Play_full.json").write_text('{"Rate": []}')
    with pytest.raises(UserError, match="train_Play_full.json: has no list 'Play'"):
        published.read_snips(tmp_path)


def test_trec_has_coarse_classes_and_latin_1(tmp_path):
    lines = b"DESC:manner How did serfdom develop ?\nENTY:food What is cr\xeape ?\n"
    (tmp_path / "train.txt").write_bytes(lines)
    (tmp_path / "test.txt").write_bytes("ENTY:food What is crêpe ?\n".encode())
    found = published.read_trec(tmp_path)
    assert found.train[0] == Sentence("How did serfdom develop ?", "DESC")
    assert found.test == (Sentence("What is crêpe ?", "ENTY"),) == found.train[1:]
    assert found.overlap == 1


@pytest.mark.parametrize("line", ["How did it ?", "DESC How ?", "DESC:manner", ""])
def test_a_question_without_a_label(tmp_path, line):
    (tmp_path / "train.txt").write_text(f"DESC:manner How ?\n{line}\n")
    with pytest.raises(UserError, match="train.txt: line 2: .*has no label such as"):
        published.read_trec(tmp_path)


def test_a_label_that_only_test_has(tmp_path):
    (tmp_path / "train.txt").write_text("A:a one\nB:b two\n")
    (tmp_path / "test.txt").write_text("A:a one\nC:c two\nC:c three\n")
    with pytest.raises(UserError, match="'C' of 'two' is in test and .*; 2 of 3 test"):
        published.read_trec(tmp_path)


def test_yahoo_says_how_to_get_it(tmp_path):
    with pytest.raises(UserError, match="L31, .* on request .*label<TAB>question"):
        published.read_yahoo_l31(tmp_path)
    for split in ("train", "test"):
        (tmp_path / f"{split}.txt").write_text("informational\twhere is it?\n")
    found = published.READERS["yahoo-l31"](tmp_path)
    assert found.test == (Sentence("where is it?", "informational"),)


def test_the_real_sets(real_data):
    snips_set = published.read_snips(real_data / "text/snips")
    assert (len(snips_set.train), len(snips_set.test)) == (13784, 700)
    assert len(snips_set.labels) == 7
    trec = published.read_trec(real_data / "text/trec")
    assert (len(trec.train), len(trec.test)) == (5452, 500)
    assert set(trec.labels) == {"DESC", "ENTY", "ABBR", "HUM", "NUM", "LOC"}


def test_pairs_in_three_forms(tmp_path):
    msrp = "\ufeffQuality\t#1 ID\t#2 ID\t#1 String\t#2 String\n"
    msrp += '1\t7\t8\tHe said "no"\t"No\n'
    (tmp_path / "msrp.txt").write_text(msrp, encoding="utf-8")
    assert pairs.read(tmp_path / "msrp.txt") == [Pair('He said "no"', '"No', True)]
    quora = '"id","question1","question2","is_duplicate"\n"1","a, b\nc","d ""e""","0"\n'
    (tmp_path / "quora.csv").write_text(quora)
    assert pairs.read(tmp_path / "quora.csv") == [Pair("a, b\nc", 'd "e"', False)]
    (tmp_path / "own.tsv").write_text("first\tsecond\tlabel\na\tb\t1\n")
    assert pairs.read(tmp_path / "own.tsv") == [Pair("a", "b", True)]


@pytest.mark.parametrize(
    "text, message",
    [
        ("a\tb\n", r"its header is \['a', 'b'\]"),
        ("", r"its header is \[''\]"),
        ("label\tfirst\tsecond\n1\ta\tb\n\ta\tb\n", "row 3: label '', expected 0 or 1"),
        ("label\tfirst\tsecond\n1\ta\n", "row 2: 2 columns, the header has 3"),
        ("label\tfirst\tsecond\n1\ta\t \n", "row 2: a sentence is empty"),
    ],
)
def test_pairs_without_requirements(tmp_path, text, message):
    (tmp_path / "pairs.tsv").write_text(text)
    with pytest.raises(UserError, match=message):
        pairs.read(tmp_path / "pairs.tsv")


def test_the_real_msrp(real_data):
    train, test = (
        pairs.read(real_data / f"text/msrp/{s}.txt") for s in ("train", "test")
    )
    assert (len(train), len(test)) == (4076, 1725)
    assert sum(pair.same for pair in test) == 1147
