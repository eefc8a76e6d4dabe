"""Pairs of texts: reading, splits, and invalid files."""

import zlib

import pytest

from jaxaug.core.errors import UserError
from jaxaug.data import pairs


def write_quora(folder, train, test):
    folder.mkdir(parents=True, exist_ok=True)
    for split, found in (("train", train), ("test", test)):
        for side, column in (("source", 0), ("target", 1)):
            lines = "".join(f"{pair[column]}\n" for pair in found)
            (folder / f"{split}.{side}.txt").write_text(lines)


CHAIN = [("a", "b"), ("c", "b"), ("d", "c"), ("x", "y"), ("z", "y")]


def test_pairs_with_a_text_in_common_stay_together():
    many = [(f"{n} {a}", f"{n} {b}") for n in range(60) for a, b in CHAIN]
    held, kept = pairs.held_out(many, True), pairs.held_out(many, False)
    assert sorted(held + kept) == sorted(many) and 0 < len(held) < 60
    texts = [{t for pair in part for t in pair} for part in (held, kept)]
    assert not texts[0] & texts[1]
    # The pairs keep their order, and additional pairs do not change the split of
    # others.
    assert held == [pair for pair in many if pair in held]
    assert pairs.held_out([*many, ("new", "newer")], True)[: len(held)] == held


def test_pairs_with_one_answer_are_split_by_their_input():
    same = [(f"input {n}", "yes") for n in range(60)]
    held = [pair for pair in same if zlib.crc32(pair[0].encode()) % 20 == 0]
    assert pairs.held_out(same, True, by_input=True) == held != []
    assert pairs.held_out(same, True) in ([], same)


def test_unseen_and_both_ways():
    train = [("a", "b"), ("c", "d")]
    test = [("a", "e"), ("e", "f"), ("g", "d"), ("A", "h")]
    assert pairs.unseen(test, train) == [("e", "f"), ("A", "h")]
    assert pairs.both_ways([("a", "b"), ("b", "a"), ("c", "d")]) == [
        ("a", "b"),
        ("b", "a"),
        ("c", "d"),
        ("d", "c"),
    ]
    assert pairs.lowered([("A  b", "C"), ("a b", "c"), ("D", " d")]) == [("a b", "c")]


def test_splits_of_quora(tmp_path, monkeypatch):
    train = [(f"What is {n}?", f"Tell me {n}") for n in range(80)]
    write_quora(tmp_path / "quora", train, [("What is 3?", "New"), ("New", "Newer")])
    monkeypatch.setenv("JAXAUG_TEXT_DIR", str(tmp_path))
    monkeypatch.delenv("JAXAUG_PARAPHRASES", raising=False)
    source = pairs.named()["quora"]
    assert source.of_split("test") == [("new", "newer")]
    train, held = source.of_split("train"), source.of_split("validation")
    assert len(train) + len(held) == 80 and ("what is 3?", "tell me 3") in train + held
    both = source.of_split("train", both=True)
    assert both == train + [(b, a) for a, b in train]
    assert source.of_split("validation", both=True) == held
    (tmp_path / "quora/train.target.txt").write_text("one\n")
    with pytest.raises(UserError, match=r"has 80 lines and train\.target\.txt 1"):
        source.of_split("train")


def test_twitters_pairs_are_those_with_label_1(tmp_path, monkeypatch):
    monkeypatch.setenv("JAXAUG_TEXT_DIR", str(tmp_path))
    monkeypatch.delenv("JAXAUG_PARAPHRASES", raising=False)
    (tmp_path / "twitter").mkdir()
    train, test = (tmp_path / f"twitter/{split}.tsv" for split in ("train", "test"))
    train.write_text("".join(f"in {n}\tout {n}\t{n % 2}\n" for n in range(80)))
    test.write_text("in 1\tX\t1\nin 2\tX\t1\nY\tZ\t0\n")
    source = pairs.named()["twitter"]
    assert source.read("train") == [(f"in {n}", f"out {n}") for n in range(1, 80, 2)]
    assert source.of_split("test") == [("in 2", "x")]
    for line in ("a\tb", "a\tb\t2", "a\t\t1"):
        train.write_text(f"{line}\n")
        with pytest.raises(
            UserError, match=r"line 1 has .* a tab and 0 or 1\. Correct"
        ):
            source.read("train")


def test_the_pairs_of_twitter(real_data, monkeypatch):
    monkeypatch.setenv("JAXAUG_TEXT_DIR", str(real_data / "text"))
    source = pairs.twitter()
    assert [len(source.read(split)) for split in ("train", "test")] == [11167, 1820]
    assert [len(source.of_split(split)) for split in pairs.SPLITS] == [9059, 454, 1585]


def test_a_table_with_test_pairs(tmp_path, monkeypatch):
    path = tmp_path / "mine.tsv"
    path.write_text("".join(f"in {n}\tout {n}\n" for n in range(60)))
    monkeypatch.setenv("JAXAUG_PARAPHRASES", str(path))
    assert pairs.named()["mine"].splits == ("train", "validation")
    test = tmp_path / "mine.test.tsv"
    test.write_text("in 4\tx\nY\tz\n")
    source = pairs.named()["mine"]
    assert source.splits == pairs.SPLITS
    assert source.of_split("test") == [("y", "z")]
    test.write_text("in 4\tx\n")
    with pytest.raises(UserError, match="Every test pair shares a text"):
        source.of_split("test")
    path.rename(tmp_path / "quora.tsv")
    monkeypatch.setenv("JAXAUG_PARAPHRASES", str(tmp_path / "quora.tsv"))
    with pytest.raises(UserError, match="'quora' becomes part of a task name"):
        pairs.named()


def test_without_the_folder(monkeypatch):
    monkeypatch.delenv("JAXAUG_TEXT_DIR", raising=False)
    with pytest.raises(UserError, match="JAXAUG_TEXT_DIR, which is not set"):
        pairs.quora().of_split("train")


def test_the_clean_pairs_of_quora_are_1697(real_data, monkeypatch):
    monkeypatch.setenv("JAXAUG_TEXT_DIR", str(real_data / "text"))
    source = pairs.quora()
    assert len(source.of_split("test")) == 1697
    train, held = source.of_split("train"), source.of_split("validation")
    assert (len(train), len(held)) == (47698, 2239)
    seen = {text for pair in train for text in pair}
    assert not any(seen.intersection(pair) for pair in held)
