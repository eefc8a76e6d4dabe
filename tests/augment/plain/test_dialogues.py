"""Noise in user turns: values survive, spans move, the output is a data folder."""

import copy
import itertools
import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from jaxaug.augment.language import words
from jaxaug.augment.plain import dialogues
from jaxaug.augment.plain.dialogues import Noising
from jaxaug.augment.schemes import sentences
from jaxaug.cli import main
from jaxaug.core.errors import UserError
from jaxaug.data import folders, inspect_folder
from jaxaug_papers import minisgd

NAMES = list(sentences.NOISES)
WORDS = st.sampled_from(
    [
        "to", "Oakland", "book", "at", "3rd", "the", "I'd", "naïve", "o'clock,", "7pm",
        "x_y", "well-read",
    ]
)  # fmt: skip
TEXTS = st.lists(WORDS, max_size=9).map(" ".join) | st.text(max_size=40)


@st.composite
def cases(draw):
    """Draws a text with spans, which may overlap, and a seed."""
    text = draw(TEXTS)
    ends = st.tuples(*[st.integers(0, len(text))] * 2).map(sorted)
    spans = [tuple(span) for span in draw(st.lists(ends, max_size=4))]
    return text, [(a, b) for a, b in spans if a < b], draw(st.integers(0, 99))


@pytest.mark.parametrize("name", NAMES)
@given(case=cases(), rate=st.sampled_from([0.1, 0.5, 1.0]))
def test_texts_in_spans_stay_and_spans_move_along(name, case, rate):
    text, spans, seed = case
    found = sentences.NOISES[name](text, np.random.default_rng(seed), rate, spans)
    changed = words.applied(text, found)
    for span in spans:
        start, end = words.moved(span, found)
        assert changed[start:end] == text[slice(*span)]
    # Spans are sorted and separate, and the unchanged text is still there.
    for one, following in itertools.pairwise(found):
        assert one.end <= following.start
    assert len(changed) - len(text) == sum(len(e.new) - e.end + e.start for e in found)


@pytest.mark.parametrize("name", NAMES)
@given(case=cases())
def test_rate_0_is_the_identity(name, case):
    text, spans, seed = case
    rng = np.random.default_rng(seed)
    assert sentences.NOISES[name](text, rng, 0.0, spans) == []


def test_a_typo_is_one_slip_behind_the_first_letter():
    kinds = set()
    for seed in range(300):
        new = sentences.typos("Paris", np.random.default_rng(seed), rate=1.0)
        assert new[0] == "P" and new != "Paris"
        if len(new) == 6:
            kinds.add("doubled")
            assert any(new[:i] + new[i + 1 :] == "Paris" for i in range(6))
        elif len(new) == 4:
            kinds.add("left out")
            assert any("Paris"[:i] + "Paris"[i + 1 :] == new for i in range(5))
        else:
            places = [i for i in range(5) if new[i] != "Paris"[i]]
            if len(places) == 2:
                kinds.add("swapped")
                assert sorted(new) == sorted("Paris")
            else:
                kinds.add("neighbour")
                (place,) = places
                assert new[place] in sentences.NEIGHBOURS["paris"[place]]
    assert kinds == {"doubled", "left out", "swapped", "neighbour"}


def test_the_keyboard():
    for key, near in sentences.NEIGHBOURS.items():
        assert key not in near
        assert all(key in sentences.NEIGHBOURS[other] for other in near)
    assert sentences.NEIGHBOURS["g"] == "bfhtvy" and sentences.NEIGHBOURS["q"] == "aw"


def test_a_disfluency_adds_and_leaves_nothing_out():
    text = "Book me a table in Oakland"
    kinds = set()
    for seed in range(200):
        rng = np.random.default_rng(seed)
        new = sentences.disfluency(text, rng, rate=0.2, protected=("Oakland",))
        assert new.count("Oakland") == 1
        rest = iter(new.replace(",", "").split())
        assert all(word in rest for word in text.split())
        kinds |= {"restart"} if "me a, me a" in new else set()
        kinds |= {"repetition"} if "table table" in new else set()
        kinds |= {"filler"} if "i mean," in new else set()
        kinds |= {"opening"} if new.startswith("Um, Book") else set()
    assert kinds == {"restart", "repetition", "filler", "opening"}
    for seed in range(30):
        rng = np.random.default_rng(seed)
        second = sentences.disfluency("No. Thanks", rng, rate=1.0).rpartition("No. ")[2]
        assert second[0] == "T" or second.partition(",")[0].capitalize() in second


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    folder = tmp_path_factory.mktemp("world") / "minisgd"
    minisgd.write(folder, train_dialogues=30, dev_dialogues=3, test_dialogues=10)
    return folder


def _json(path):
    return json.loads(path.read_text())


@pytest.mark.parametrize("names", [*NAMES, "typos,disfluency"])
def test_a_noisy_folder_is_a_data_folder(world, tmp_path, names, capsys):
    out = tmp_path / "noisy"
    call = ["augment", "dialogues", "--scheme", names, "--rate", "0.5"]
    call += ["--data_dir", str(world), "--splits", "train, test"]
    assert main([*call, "--out", str(out)]) == 0
    assert "user turns changed" in capsys.readouterr().out
    report = inspect_folder.inspect(out)
    assert not report.errors
    assert report.summary == inspect_folder.inspect(world).summary
    changed = 0
    for split in ("train", "test"):
        (name,) = (path.name for path in folders.dialogue_paths(out, split))
        for old, new in zip(
            _json(world / split / name), _json(out / split / name), strict=True
        ):
            changed += _compared(old, new)
    assert changed > 50
    dev = "dev/dialogues_001.json"
    assert (out / dev).read_bytes() == (world / dev).read_bytes()
    again = tmp_path / "again"
    assert main([*call, "--out", str(again)]) == 0
    for path in out.rglob("*.json"):
        name = path.relative_to(out)
        assert (
            name.name == "meta.json" or path.read_bytes() == (again / name).read_bytes()
        )
    before = {path: path.stat().st_mtime_ns for path in out.rglob("*")}
    capsys.readouterr()
    assert main([*call, "--out", str(out)]) == 0
    assert capsys.readouterr().out == f"{out} is complete: nothing to do\n"
    assert {path: path.stat().st_mtime_ns for path in out.rglob("*")} == before


def _compared(old, new):
    """Returns the number of changed turns; only utterances and spans may change."""
    changed = 0
    for turn, other in zip(old["turns"], new["turns"], strict=True):
        for frame, noisy in zip(turn["frames"], other["frames"], strict=True):
            for span, moved in zip(frame["slots"], noisy["slots"], strict=True):
                text = turn["utterance"][span["start"] : span["exclusive_end"]]
                place = slice(moved["start"], moved["exclusive_end"])
                assert other["utterance"][place] == text
                moved |= {k: span[k] for k in ("start", "exclusive_end")}
        if turn["speaker"] == "USER":
            values = set(dialogues._values(turn))
            for start, end in words.occurrences(turn["utterance"], values):
                assert turn["utterance"][start:end] in other["utterance"]
            changed += turn["utterance"] != other["utterance"]
            other["utterance"] = turn["utterance"]
    assert new == old
    return changed


def test_rate_0_copies_every_byte(world, tmp_path):
    said = dialogues.write(
        world, tmp_path / "same", ["train"], Noising(("typos",), 0.0, 0)
    )
    assert said.startswith("0 of 62 user turns changed")
    for path in (tmp_path / "same").rglob("*.json"):
        name = path.relative_to(tmp_path / "same")
        assert (
            name.name == "meta.json" or path.read_bytes() == (world / name).read_bytes()
        )


def test_draws_depend_on_dialogue_and_turn_alone(world):
    first, second = _json(world / "train/dialogues_001.json")[:2]
    noising = Noising(("typos", "disfluency"), 0.5, 3)
    alone = copy.deepcopy(second)
    assert dialogues.noised(alone, noising)[0] > 0
    for one in (first, second):
        dialogues.noised(one, noising)
    assert second == alone
    dialogues.noised(first, noising._replace(seed=4))
    assert first != _json(world / "train/dialogues_001.json")[0]


def test_another_call_is_refused(sgd_tree, tmp_path):
    out = tmp_path / "noisy"
    noising = Noising(("typos",), 0.5, 0)
    dialogues.write(sgd_tree, out, ["train"], noising)
    with pytest.raises(
        UserError, match=f"--out {out}: exists, and is not the output of this"
    ):
        dialogues.write(sgd_tree, out, ["train"], noising._replace(seed=1))
    (out / "train/schema.json").write_text("[]")
    with pytest.raises(UserError, match="Choose another folder, or remove it"):
        dialogues.write(sgd_tree, out, ["train"], noising)


@pytest.mark.parametrize(
    ("noising", "message"),
    [
        (
            Noising(("typo",), 0.1, 0),
            "--scheme typo: is not a scheme for dialogues; did you",
        ),
        (Noising(("eda",), 0.1, 0), "--scheme eda: does not say which words it has ch"),
        (Noising(("typos",), 1.5, 0), "--rate=1.5: .* number from 0 to 1"),
        (Noising(("typos",), 0.1, -1), "--seed is -1: give a whole number from 0"),
    ],
)
def test_wrong_arguments(sgd_tree, tmp_path, noising, message):
    with pytest.raises(UserError, match=message):
        dialogues.write(sgd_tree, tmp_path / "out", ["train"], noising)
    with pytest.raises(UserError, match="unknown split 'training'"):
        dialogues.write(
            sgd_tree, tmp_path / "out", ["training"], Noising(("typos",), 0.1, 0)
        )
    assert not (tmp_path / "out").exists()
