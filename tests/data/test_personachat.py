"""The ConvAI2 text format: reading, invalid files, and splits."""

import re
from pathlib import Path

import pytest
import sentencepiece

from jaxaug.core.errors import UserError
from jaxaug.data import personachat
from jaxaug.data.personachat import Dialogue, Turn

TEXT = """\
1 your persona: i have two dogs.
2 partner's persona: i like tea.
3 your persona: i live in a castle .
4 hi !\thello , how are you ?
5 fine .\ti'm good too .\t\tno .|i'm good too .|maybe ?
1 your persona: i read.
2 __SILENCE__\thello
"""


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """Returns a folder with 12 dialogues in both wordings, and 2 train dialogues."""
    monkeypatch.delenv("JAXAUG_PERSONACHAT_SPLITS", raising=False)
    monkeypatch.setenv("JAXAUG_PERSONACHAT_DIR", str(tmp_path))
    monkeypatch.setenv("JAXAUG_CACHE_DIR", str(tmp_path / "cache"))
    for wording in ("original", "revised"):
        lines = [
            f"1 your persona: {wording} {n}.\n2 hi {n}\tbye {n}" for n in range(12)
        ]
        (tmp_path / f"valid_self_{wording}_no_cands.txt").write_text("\n".join(lines))
    (tmp_path / "train_self_original.txt").write_text(TEXT)
    return tmp_path


def test_dialogues_of_a_file(folder):
    assert personachat.read_file(folder / "train_self_original.txt", "train") == [
        Dialogue(
            "train_00000",
            ("i have two dogs.", "i live in a castle ."),
            ("i like tea.",),
            (
                Turn("hi !", "hello , how are you ?"),
                Turn("fine .", "i'm good too .", ("no .", "i'm good too .", "maybe ?")),
            ),
        ),
        Dialogue("train_00001", ("i read.",), (), (Turn("__SILENCE__", "hello"),)),
    ]


def test_windows_line_ends_and_no_last_line_end(tmp_path):
    path = tmp_path / "x.txt"
    path.write_bytes(TEXT.rstrip("\n").replace("\n", "\r\n").encode())
    (tmp_path / "y.txt").write_text(TEXT)
    assert personachat.read_file(path) == personachat.read_file(tmp_path / "y.txt")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "line 1: '' does not begin with a number and a space"),
        ("hello\n", "line 1: 'hello' does not begin with a number"),
        ("1" * 5000 + " hello\n", "11... does not begin with a number"),
        ("1 your persona: x.\n3 a\tb\n", "line 2 has number 3, expected 2 or 1"),
        ("2 a\tb\n", "line 1 has number 2, expected 1 or 1"),
        ("1 your persona: x.\n2 a\n", "line 2: 'a' has no answer"),
        ("1 a\t \n", "has no answer: expected an utterance, a tab and the answer"),
        ("1 a\tb\n2 your persona: x.\n", "line 2: a persona after the first utterance"),
        ("1 your persona: x.\n1 a\tb\n", "line 1: a dialogue ends here that has no ut"),
        ("1 your persona: x.\n", "line 1: a dialogue ends here that has no utterance"),
    ],
)
def test_invalid_files(tmp_path, text, message):
    path = tmp_path / "x.txt"
    path.write_text(text)
    with pytest.raises(UserError, match=re.escape(message)) as caught:
        personachat.read_file(path)
    assert "`jaxaug data fetch personachat`" in str(caught.value)


def test_official_splits_are_the_files(folder):
    assert personachat.split_names() == ("train", "validation")
    assert len(personachat.read("train")) == 2
    found = personachat.read("validation", wording="revised")
    assert [one.dialogue_id for one in found] == [f"valid_{n:05}" for n in range(12)]
    assert found[3].persona == ("revised 3.",)
    with pytest.raises(UserError, match="no split 'test'; there are train, validation"):
        personachat.read("test")


def test_splits_of_the_validation_dialogues(folder, monkeypatch, caplog):
    monkeypatch.setenv("JAXAUG_PERSONACHAT_SPLITS", "valid")
    found = {s: personachat.read(s) for s in ("train", "validation", "test")}
    ids = {s: [one.dialogue_id[-2:] for one in part] for s, part in found.items()}
    assert ids == {
        "train": ["00", "01", "02", "03", "04", "05", "06", "07", "10", "11"],
        "validation": ["08"],
        "test": ["09"],
    }
    assert "split 'train' is 10 of the 12 validation dialogues" in caplog.text
    assert "figures cannot be compared with published ones" in caplog.text


def test_splits_by_persona_equal_every_wording(folder, monkeypatch, caplog):
    for wording in ("original", "revised"):
        # Dialogues n and n + 6 have the same persona; the revised personas are all
        # equal.
        lines = [
            f"1 your persona: {wording} {n % 6 if wording == 'original' else 0}.\n"
            f"2 hi {n}\tbye {n}"
            for n in range(12)
        ]
        (folder / f"valid_self_{wording}_no_cands.txt").write_text("\n".join(lines))
    parts = {}
    for value in ("personas", "personas:0", "personas:2"):
        monkeypatch.setenv("JAXAUG_PERSONACHAT_SPLITS", value)
        assert personachat.split_names() == ("train", "validation", "test")
        parts[value] = {
            wording: [
                [one.dialogue_id for one in personachat.read(name, wording=wording)]
                for name in personachat.split_names()
            ]
            for wording in ("original", "revised")
        }
        assert parts[value]["original"] == parts[value]["revised"]
        train, *others = parts[value]["original"]
        assert [len(train), *map(len, others)] == [8, 2, 2]
        for one, other in others:
            assert int(other[-2:]) == int(one[-2:]) + 6
    assert parts["personas"] == parts["personas:0"] != parts["personas:2"]
    digest = personachat.split_by_persona().digest
    said = f"personas:2), by persona in 6 groups (digest {digest})"
    assert f"($JAXAUG_PERSONACHAT_SPLITS={said}" in caplog.text


def test_variables_and_missing_files(folder, monkeypatch):
    with pytest.raises(UserError, match="valid_other_original_no_cands.txt is missing"):
        personachat.read("validation", "other")
    with pytest.raises(UserError, match="side 'me': use one of self, other, both"):
        personachat.find_file(folder, "valid", "me", "original")
    for wrong in ("half", "personas:", "personas:x"):
        monkeypatch.setenv("JAXAUG_PERSONACHAT_SPLITS", wrong)
        with pytest.raises(UserError, match=f"SPLITS={wrong}: use 'official' for the "):
            personachat.split_names()
    monkeypatch.setenv("JAXAUG_PERSONACHAT_SPLITS", "valid")
    (folder / "valid_self_original_no_cands.txt").write_text("1 a\tb\n")
    with pytest.raises(UserError, match="1 dialogues are too few to make a test split"):
        personachat.read("test")


def test_files_without_candidates_come_first(folder):
    (folder / "valid_self_original.txt").write_text("1 a\tb\t\tc|b\n")
    found = personachat.find_file(folder, "valid", "self", "original")
    assert found.name == "valid_self_original_no_cands.txt"
    found = personachat.find_file(folder, "train", "self", "original")
    assert found.name == "train_self_original.txt"


def test_vocabulary(folder, monkeypatch):
    path = personachat.vocabulary_file(400)
    assert personachat.vocabulary_file(400) == path
    words = sentencepiece.SentencePieceProcessor(model_file=path)
    assert (words.pad_id(), words.eos_id(), words.unk_id()) == (0, 1, 2)
    for marker in personachat.MARKERS:
        assert words.piece_to_id(marker) != words.unk_id()
        assert marker in words.encode(f"{marker} i read.", out_type=str)
    text = "i have two dogs . na\u00efve z\u00fcrich"
    assert words.decode(words.encode(text)) == text
    content = Path(path).read_bytes()
    Path(path).write_bytes(content[:100])
    assert personachat.vocabulary_file(400) == path  # It was damaged.
    assert Path(path).read_bytes() == content
    assert personachat.vocabulary_file(401) != path
    (folder / "train_self_original.txt").write_text("1 other words\tthan before\n")
    assert personachat.vocabulary_file(400) != path


def test_real_files(real_data):
    folder = real_data / "text" / "personachat"
    mine, theirs = (
        personachat.read_file(
            personachat.find_file(folder, "valid", side, "original"), "valid"
        )
        for side in ("self", "other")
    )
    assert len(mine) == len(theirs) == 1000
    assert sum(len(one.turns) for one in mine) == 7801
    assert len(personachat.traits(mine)) == 670
    assert len(personachat.traits(theirs)) == 669
    assert mine[0].persona[0] == "i read twenty books a year."
    assert theirs[0].partner_persona[0] == "horror movies are my favorites."
    assert mine[0].turns[0].partner == theirs[0].turns[0].partner
    assert not any(one.partner_persona for one in mine)
    assert not any(one.persona for one in theirs)
