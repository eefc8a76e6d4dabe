"""Generated data: required content, forbidden content, and reproducibility."""

import filecmp
import re

import pytest

from jaxaug.core.errors import UserError
from jaxaug.data import sgd
from jaxaug.data.schema import read_schema
from jaxaug_papers.mini import invented, overlap, pretraining, typed
from jaxaug_papers.mini.invented_words import Fresh, Lexis
from jaxaug_papers.minisgd.draw import Draw

SIZES = {"services": 40, "dialogues": 120, "exercises": 200}
FILES = [
    "train/schema.json", "train/dialogues_001.json", "test/schema.json",
    "test/dialogues_001.json", "exercises.tsv",
]  # fmt: skip


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    folder = tmp_path_factory.mktemp("invented") / "world"
    return pretraining.write(folder, words=["lantern", "holiday"], **SIZES)


@pytest.fixture(scope="module")
def reworded(tmp_path_factory):
    folder = tmp_path_factory.mktemp("reworded") / "world"
    words = ["lantern", "holiday"]
    return pretraining.write(folder, words=words, reword=True, **SIZES)


def test_states_follow_from_utterances(world):
    """Values occur in the text before they are in a state; names are in the schema."""
    schema = read_schema(world / "train" / "schema.json")
    slots = {s.name: {slot.name: slot for slot in s.slots} for s in schema.services}
    found = 0
    for dialogue in sgd.read_dialogues(world, "train"):
        heard = ""
        for turn in dialogue.turns:
            heard += f" {turn.utterance}"
            for frame in turn.frames:
                if frame.state is None:
                    continue
                for name, values in frame.state.slot_values.items():
                    slot = slots[frame.service][name]
                    if not slot.is_categorical and values[0] != "dontcare":
                        assert values[0] in heard
                        found += 1
    assert found > 100


def kind_of(slot):
    """Returns the kind of a slot, or None for a slot without a kind."""
    for name, kind in typed.KINDS.items():
        asked = "|".join(re.escape(t).replace(r"\{n\}", r"\w+") for t in kind.ask)
        if all(re.fullmatch(asked, text) for text in slot.concept.ask):
            return name
    return None


def test_slots_of_a_kind_take_the_values_of_their_words():
    """If two slots of a service share values, their words distinguish from and to."""
    plain = {text for kind in typed.KINDS.values() for text in kind.tell}
    lexis = Lexis(("tram", "gate", "lamp", "bell", "rope"), frozenset())
    found, pairs, bare = set(), 0, []
    for number in range(150):
        slots = invented.service(number, 0, lexis).slots
        kinds = {slot.name: kind_of(slot) for slot in slots}
        for slot in slots:
            if (name := kinds[slot.name]) is None:
                continue
            kind = typed.KINDS[name]
            assert slot.values == tuple(kind.known_values)
            assert slot.is_categorical == kind.is_categorical
            found.add(name)
            pairs += kind.beside in kinds.values()
            if {*slot.concept.tell} & plain:
                same = [s for s in slots if {*s.values} & {*slot.values}]
                names = {kinds[s.name] for s in same if {*s.concept.tell} & plain}
                bare.append((name, names))
    assert found == {*typed.KINDS}
    assert pairs > 20
    assert any(len(names) > 1 for _, names in bare)
    assert all(names <= {name, typed.KINDS[name].beside} for name, names in bare)


def test_services_of_the_splits_differ(world):
    names = {
        split: {s.name for s in read_schema(world / split / "schema.json").services}
        for split in ("train", "dev", "test")
    }
    assert [len(names[split]) for split in names] == [40, 20, 20]
    assert not names["train"] & names["test"]
    assert not names["dev"] & names["test"]


@pytest.mark.parametrize("name", ["world", "reworded"])
def test_no_content_word_that_only_the_evaluation_wordings_have(name, request):
    world = request.getfixturevalue(name)
    banned = overlap.evaluation_only_words()
    assert len(banned) > 100
    texts = [(world / "exercises.tsv").read_text()]
    for split in ("train", "test"):
        for service in read_schema(world / split / "schema.json").services:
            texts += [item.description for item in (*service.slots, *service.intents)]
            texts += [v for slot in service.slots for v in slot.possible_values]
        for dialogue in sgd.read_dialogues(world, split):
            for turn in dialogue.turns:
                texts.append(turn.utterance)
                for frame in turn.frames:
                    state = frame.state
                    values = state.slot_values.values() if state else ()
                    texts += [value for found in values for value in found]
    said = set(re.findall("[a-z]+", " ".join(texts).lower()))
    assert sorted(said & banned) == []


def test_a_banned_word_gives_way_to_one_of_its_length():
    words = Lexis(("tram",), frozenset({"lodging", "stay"}))
    text = "a Lodging to stay at"
    found = words.allowed(text)
    assert len(found) == len(text)
    assert not re.search("lodging|stay", found.lower())
    assert found == words.allowed(text)
    assert re.fullmatch(r"a [a-z]{7} to [a-z]{4} at", found)


def test_fresh_words_never_come_twice():
    fresh = Fresh(Lexis(("tram", "gate"), frozenset({"gate"})), Draw("fresh"))
    words = [fresh() for _ in range(300)]
    assert len(set(words)) == 300
    assert "tram" in words and "gate" not in words
    assert all(re.fullmatch("[a-z]+", word) for word in words)


def test_the_same_arguments_give_the_same_bytes(world, tmp_path):
    again = pretraining.write(tmp_path / "again", words=["holiday", "lantern"], **SIZES)
    assert filecmp.cmpfiles(world, again, FILES, shallow=False)[1:] == ([], [])
    other = pretraining.write(tmp_path / "other", seed=1, **SIZES)
    assert filecmp.cmpfiles(world, other, FILES, shallow=False)[0] == []


@pytest.mark.parametrize(
    "sizes",
    [
        {"services": 3},
        {"dialogues": 39},
        {"exercises": 0},
    ],
)
def test_too_small(tmp_path, sizes):
    with pytest.raises(UserError, match="give at least 4 services"):
        pretraining.write(tmp_path / "small", **{**SIZES, **sizes})
    assert not (tmp_path / "small").exists()


def test_a_folder_that_exists_is_kept(world):
    with pytest.raises(UserError, match="Name another one, or remove it"):
        pretraining.write(world, **SIZES)
    assert (world / "exercises.tsv").exists()
