import copy

import pytest

from jaxaug.data import sgd
from jaxaug.data.dialogue import Call
from jaxaug.data.rename import rename_dialogue, renaming
from jaxaug.data.schema import read_schema


def _frames(dialogues):
    return sum(
        frame.state is not None
        for dialogue in dialogues
        for turn in dialogue.turns
        if turn.speaker == "USER"
        for frame in turn.frames
    )


def test_reads_every_field(sgd_tree):
    trip, day_out = sgd.read_dialogues(sgd_tree, "dev")
    assert trip.dialogue_id == "3_00000"
    assert trip.services == ("Trains_1",)
    assert [turn.speaker for turn in trip.turns] == ["USER", "SYSTEM", "USER"]
    assert trip.turns[0].utterance == "A train to Bern please"
    assert trip.turns[0].frames[0].state == sgd.State(
        "FindTrain", (), {"city": ("Bern",)}
    )
    assert trip.turns[1].frames[0].state is None
    call = trip.turns[1].frames[0].service_call
    assert call == Call("FindTrain", {"city": "Bern"})
    assert trip.turns[2].frames[0].state.requested_slots == ("price",)
    parks, trains = day_out.turns[0].frames
    assert parks.service == "Parks_1"
    assert parks.state.slot_values == {"intent": ("picnic", "a picnic")}
    assert trains.state == sgd.State("NONE", (), {})


def test_files_in_order_and_frames_counted(sgd_tree):
    dialogues = list(sgd.read_dialogues(sgd_tree, "train"))
    assert [d.dialogue_id for d in dialogues] == ["1_00000", "2_00000"]
    assert _frames(dialogues) == 4
    assert [p.name for p in sgd.dialogue_files(sgd_tree, "train")] == [
        "dialogues_001.json",
        "dialogues_002.json",
    ]


@pytest.mark.parametrize("version", [1, 5])
def test_variant_is_renamed_by_position(sgd_tree, version):
    trip, day_out = sgd.read_dialogues(sgd_tree, "dev", f"v{version}")
    assert trip.services == (f"Trains_1{version}",)
    first, second, third = (turn.frames[0] for turn in trip.turns)
    tail = f"_v{version}"
    assert first.service == f"Trains_1{version}"
    assert first.state == sgd.State(f"FindTrain{tail}", (), {f"city{tail}": ("Bern",)})
    assert third.state.requested_slots == (f"price{tail}",)
    assert first.slots[0].slot == f"city{tail}"
    inform, inform_intent = first.actions
    assert inform.slot == f"city{tail}"
    assert inform_intent.slot == "intent"
    assert inform_intent.values == (f"FindTrain{tail}",)
    assert inform_intent.canonical_values == (f"FindTrain{tail}",)
    count, offer = second.actions
    assert count.slot == "count"
    assert offer.values == (f"BuyTicket{tail}",)
    parameters = {f"city{tail}": "Bern"}
    assert second.service_call == Call(f"FindTrain{tail}", parameters)
    assert second.service_results[1] == {
        f"city{tail}": "Bern",
        f"class{tail}": "second",
        f"price{tail}": "20",
    }
    parks, trains = day_out.turns[0].frames
    # A slot with the name "intent" is a slot, except in acts about intents.
    assert [action.slot for action in parks.actions] == [f"intent{tail}", "intent"]
    assert parks.actions[0].values == ("picnic",)
    assert parks.state.slot_values == {f"intent{tail}": ("picnic", "a picnic")}
    assert trains.state.active_intent == "NONE"


def test_variant_keeps_everything_but_names(sgd_tree):
    for split in ("train", "dev", "test"):
        pairs = zip(
            sgd.read_dialogues(sgd_tree, split),
            sgd.read_dialogues(sgd_tree, split, "v3"),
            strict=True,
        )
        for old, new in pairs:
            assert new.dialogue_id == old.dialogue_id
            for old_turn, new_turn in zip(old.turns, new.turns, strict=True):
                assert new_turn.utterance == old_turn.utterance
                for a, b in zip(old_turn.frames, new_turn.frames, strict=True):
                    assert b.service == f"{a.service}3"
                    if a.state is not None:
                        assert list(b.state.slot_values.values()) == list(
                            a.state.slot_values.values()
                        )


def test_variants_dir_of_generated_variants(sgd_tree):
    folder = sgd_tree / "variants/aug"
    folder.mkdir(parents=True)
    (sgd_tree / "sgd_x/data/v2").rename(folder / "v1")
    (dialogue, *_) = sgd.read_dialogues(sgd_tree, "train", "v1", folder)
    assert dialogue.services == ("Trains_12",)
    schema = sgd.read_schema_of(sgd_tree, "train", "v1", folder)
    assert [service.name for service in schema.services] == ["Trains_12"]


def test_renaming_there_and_back(sgd_tree):
    original = read_schema(sgd_tree / "dev/schema.json")
    variant = sgd.read_schema_of(sgd_tree, "dev", "v2")
    there = renaming(original, variant, "v2")
    back = renaming(variant, original, "original")
    path = sgd_tree / "dev/dialogues_001.json"
    for dialogue in sgd.read_dialogue_json(path, original):
        before = copy.deepcopy(dialogue)
        rename_dialogue(dialogue, there)
        assert dialogue != before
        rename_dialogue(dialogue, back)
        assert dialogue == before


@pytest.mark.parametrize(
    ("split", "dialogues", "frames"),
    [("dev", 2098, 20542), ("test", 2921, 26802)],
)
@pytest.mark.parametrize("variant", [None, "v3"])
def test_real_counts(real_data, split, dialogues, frames, variant):
    records = list(sgd.read_dialogues(real_data / "sgd", split, variant))
    assert len(records) == dialogues
    assert _frames(records) == frames


@pytest.mark.slow
def test_real_train(real_data):
    dialogues = frames = 0
    for dialogue in sgd.read_dialogues(real_data / "sgd", "train"):
        dialogues += 1
        frames += _frames([dialogue])
    assert (dialogues, frames) == (12174, 118167)
