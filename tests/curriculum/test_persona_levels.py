"""Rewordings of traits by level: files, EDA, round trips, and the draw."""

import json
from collections import Counter

import pytest

from jaxaug.augment.schemes import backtranslate
from jaxaug.core.errors import UserError
from jaxaug.curriculum import levels, persona_levels
from jaxaug.curriculum.levels import Levelled
from jaxaug.data import personachat

TRAITS = ("i have two dogs.", "my favorite food is pizza.", "i like tea.")
DOGS = Levelled(TRAITS[0], ((TRAITS[0],), ("easy a", "easy b"), (), ("hard",)))


@pytest.fixture
def levels_file(tmp_path, monkeypatch):
    path = tmp_path / "levels.jsonl"
    levels.write(path, [DOGS, Levelled("unused", (("unused",), (), (), ()))])
    monkeypatch.setenv("JAXAUG_PERSONACHAT_LEVELS", str(path))
    monkeypatch.setenv("JAXAUG_CACHE_DIR", str(tmp_path / "cache"))
    return path


def test_own_file(levels_file, caplog):
    assert persona_levels.number_of_levels("pcc") == 3
    table = persona_levels.table("pcc", TRAITS)
    assert table[TRAITS[0]] == DOGS
    assert (
        "method 'pcc': 2 of 3 traits have no rewording and stay as they are (first: "
        "'my favorite food is pizza.')" in caplog.text
    )


def test_released_file(levels_file):
    record = {
        "trait": TRAITS[0],
        "paraphrases": [
            {"text": f"text {n}", "raw": "", "mi": None, "score": -n / 10}
            for n in range(20)
        ],
    }
    levels_file.write_text(json.dumps(record) + "\n")
    assert persona_levels.number_of_levels("pcc") == 5
    table = persona_levels.table("pcc", TRAITS)
    assert table[TRAITS[0]].at(1) == ("text 0", "text 1", "text 2", "text 3")
    assert table[TRAITS[0]].at(5)[-1] == "text 19"


def test_the_released_file_itself(real_data):
    table = persona_levels.read(real_data / "text/pcc/persona_paraphrases.jsonl")
    assert len(table) == 2692
    folder = real_data / "text" / "personachat"
    path = personachat.find_file(folder, "valid", "self", "original")
    traits = personachat.traits(personachat.read_file(path))
    # The file is for training personas, of which the validation set shares few.
    assert sum(trait in table for trait in traits) == 37


def test_invalid_files_of_levels(levels_file, monkeypatch):
    wrong = [b"trait", b"[1]", b"\xff", b"", b'{"levels": []}', b'{"text": "x"}']
    for line in [*wrong, b'{"levels": 5}', b"[" * 100_000, b"[" + b"1" * 5000]:
        levels_file.write_bytes(line + b"\n")
        with pytest.raises(
            UserError, match="line 1 is no JSON object with levels; exp"
        ):
            persona_levels.number_of_levels("pcc")
    levels_file.unlink()
    with pytest.raises(UserError, match=r"no such file.*\$JAXAUG_PERSONACHAT_LEVELS"):
        persona_levels.table("pcc", TRAITS)
    monkeypatch.delenv("JAXAUG_PERSONACHAT_LEVELS")
    assert persona_levels.number_of_levels("pcc") == 5
    with pytest.raises(UserError, match=r"\$JAXAUG_PERSONACHAT_LEVELS is not set"):
        persona_levels.table("pcc", TRAITS)
    with pytest.raises(UserError, match="no method 'bt'; use one of pcc, eda, rt"):
        persona_levels.table("bt", TRAITS)


def test_eda_changes_more_at_each_level():
    table = persona_levels.table("eda", TRAITS)
    assert list(table) == list(TRAITS)
    for trait, item in table.items():
        assert len(item.levels) == 6 and item.levels[0] == (trait,)
        for texts in item.levels[1:]:
            assert len(texts) <= 4 and trait not in texts and "" not in texts
    # The rewordings of a trait do not depend on other traits.
    assert persona_levels.table("eda", TRAITS[1:])[TRAITS[1]] == table[TRAITS[1]]
    many = persona_levels.table(
        "eda", [f"{n} dogs like my old house by the sea ." for n in range(40)]
    )

    def changed(level):
        """Returns the mean number of original words that its rewordings lack."""
        counts = [
            len(set(item.text.split()) - set(text.split()))
            for item in many.values()
            for text in item.levels[level]
        ]
        return sum(counts) / len(counts)

    assert changed(1) < changed(3) < changed(5)


def test_round_trips_are_kept(levels_file, monkeypatch):
    asked = []

    def fake(texts, *, pivots, num, beams, models):
        asked.append((list(texts), pivots, num, beams, models))
        return [[text, f"back {text}"] for text in texts]

    monkeypatch.setattr(backtranslate, "candidates", fake)
    assert persona_levels.number_of_levels("rt") == 1
    table = persona_levels.table("rt", TRAITS)
    assert table[TRAITS[2]].levels == (("i like tea.",), ("back i like tea.",))
    assert persona_levels.table("rt", TRAITS) == table
    assert asked == [(list(TRAITS), ("fr",), 4, 4, None)]


def test_round_trips_need_the_models(levels_file):
    with pytest.raises(UserError, match="jaxaug models fetch marian-en-fr"):
        persona_levels.table("rt", TRAITS)


def test_draws():
    table = {TRAITS[0]: DOGS}
    dialogue = personachat.Dialogue("valid_00003", TRAITS[:2], (), ())

    def draw(turn, level, seed=0):
        first, second = persona_levels.reworded(table, dialogue, turn, level, seed)
        assert second == TRAITS[1]  # there is nothing for it
        return first

    counts = Counter(draw(turn, 1) for turn in range(400))
    assert set(counts) == {"easy a", "easy b"}
    assert min(counts.values()) > 150
    # Level 2 is empty, so the next easier level is used.
    assert {draw(turn, 2) for turn in range(50)} == {"easy a", "easy b"}
    assert {draw(turn, 3) for turn in range(50)} == {"hard"}
    assert {draw(turn, 0) for turn in range(50)} == {TRAITS[0]}
    assert [draw(t, 1) for t in range(20)] == [draw(t, 1) for t in range(20)]
    assert [draw(t, 1) for t in range(20)] != [draw(t, 1, 1) for t in range(20)]
    with pytest.raises(UserError, match="has levels 0 to 3, not 4"):
        draw(0, 4)
