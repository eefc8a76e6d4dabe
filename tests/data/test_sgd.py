import copy
import json

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from jaxaug.data import sgd
from jaxaug.data.rename import rename_dialogue, renaming
from jaxaug.data.schema import read_schema
from jaxaug.errors import UserError


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
    assert trip.turns[1].frames[0].raw["service_call"] == {
        "method": "FindTrain",
        "parameters": {"city": "Bern"},
    }
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
    assert first.raw["slots"][0]["slot"] == f"city{tail}"
    inform, inform_intent = first.raw["actions"]
    assert inform["slot"] == f"city{tail}"
    assert inform_intent["slot"] == "intent"
    assert inform_intent["values"] == [f"FindTrain{tail}"]
    assert inform_intent["canonical_values"] == [f"FindTrain{tail}"]
    count, offer = second.raw["actions"]
    assert count["slot"] == "count"
    assert offer["values"] == [f"BuyTicket{tail}"]
    assert second.raw["service_call"] == {
        "method": f"FindTrain{tail}",
        "parameters": {f"city{tail}": "Bern"},
    }
    assert second.raw["service_results"][1] == {
        f"city{tail}": "Bern",
        f"class{tail}": "second",
        f"price{tail}": "20",
    }
    parks, trains = day_out.turns[0].frames
    # A slot that is called "intent" is a slot, except in acts about intents.
    assert [a["slot"] for a in parks.raw["actions"]] == [f"intent{tail}", "intent"]
    assert parks.raw["actions"][0]["values"] == ["picnic"]
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


def _first(data):
    return data[0]["turns"][0]["frames"][0]


def _edit(*path_and_value):
    *path, last, value = path_and_value

    def change(data):
        frame = _first(data)
        for key in path:
            frame = frame[key]
        if value is KeyError:
            del frame[last]
        else:
            frame[last] = value

    return change


def _on(target):
    return lambda key, value: lambda data: target(data).__setitem__(key, value)


_dialogue = _on(lambda data: data[0])
_turn = _on(lambda data: data[0]["turns"][1])
_IN_FRAME = "dialogue '1_00000', turn 0, frame 0: "


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            _edit("service", "Train_1"),
            (
                f"{_IN_FRAME}field 'service': expected a service of the split's schema "
                "(did you mean 'Trains_1'?), got 'Train_1'. Correct the file"
            ),
        ),
        (_edit("service", 3), f"{_IN_FRAME}field 'service': expected a string, got 3"),
        (
            _edit("service", KeyError),
            f"{_IN_FRAME}field 'service': expected a string, got nothing",
        ),
        (
            _edit("state", "slot_values", []),
            (
                f"{_IN_FRAME}field 'state.slot_values': expected an object from slots to "
                "lists of values, got []"
            ),
        ),
        (
            _edit("state", "slot_values", "city", "Oslo"),
            (
                f"{_IN_FRAME}field 'state.slot_values.city': expected a non-empty list of "
                "strings, got 'Oslo'"
            ),
        ),
        (
            _edit("state", "slot_values", "city", []),
            "non-empty list of strings, got []",
        ),
        (_edit("state", "slot_values", "city", [1]), "list of strings, got [1]"),
        (
            _edit("state", "slot_values", "town", ["Oslo"]),
            (
                "field 'state.slot_values': expected slots of the service (known: city, "
                "class, price), got 'town'"
            ),
        ),
        (
            _edit("state", "active_intent", "FindTrains"),
            (
                "field 'state.active_intent': expected intents of the service (did you "
                "mean 'FindTrain'?), got 'FindTrains'"
            ),
        ),
        (
            _edit("state", "active_intent", None),
            "field 'state.active_intent': expected the name of one intent, got None",
        ),
        (
            _edit("state", "requested_slots", ["prise"]),
            (
                "field 'state.requested_slots': expected slots of the service (did you "
                "mean 'price'?), got 'prise'"
            ),
        ),
        (
            _edit("state", "requested_slots", {}),
            "field 'state.requested_slots': expected a list of slots, got {}",
        ),
        (
            _edit("state", None),
            f"{_IN_FRAME}field 'state': expected an object, got None",
        ),
        (
            _edit("slots", 0, "exclusive_end", 99),
            (
                "field 'slots': expected 0 <= start < exclusive_end <= 22, the length of "
                "the utterance, got {'slot': 'city', 'start': 11, 'exclusive_end': 99}"
            ),
        ),
        (_edit("slots", 0, "slot", "x"), "field 'slots.slot': expected slots of the"),
        (_edit("slots", "x"), "field 'slots': expected a list, got 'x'"),
        (_edit("actions", 0, "x"), "field 'actions': expected a list of objects"),
        (
            _edit("actions", 0, "act", 1),
            "field 'actions.act': expected a string, got 1",
        ),
        (_edit("actions", 0, "slot", "x"), "field 'actions.slot': expected slots"),
        (
            _edit("actions", 0, "values", None),
            "field 'actions.values': expected a list of strings, got None",
        ),
        (
            _edit("service_call", {"method": "x", "parameters": {}}),
            "field 'service_call.method': expected intents of the service",
        ),
        (
            _edit("service_call", {"method": "FindTrain"}),
            (
                "field 'service_call.parameters': expected an object from slots to values, "
                "got nothing"
            ),
        ),
        (
            _edit("service_results", [{"city": 1}]),
            "field 'service_results': expected strings as values, got {'city': 1}",
        ),
        (
            _dialogue("services", ["Hotels_9"]),
            (
                "dialogue '1_00000': field 'services': expected services of the split's "
                "schema (known: Trains_1), got 'Hotels_9'"
            ),
        ),
        (_dialogue("services", []), "'services': expected a non-empty list of strings"),
        (
            _dialogue("services", ["Trains_1", "Trains_1"]),
            "field 'services': expected distinct services",
        ),
        (_dialogue("turns", []), "field 'turns': expected a non-empty list, got []"),
        (
            _dialogue("dialogue_id", 5),
            "dialogue #0: field 'dialogue_id': expected a non-empty string, got 5",
        ),
        (
            _turn("speaker", "BOT"),
            (
                "dialogue '1_00000', turn 1: field 'speaker': expected USER or SYSTEM, got "
                "'BOT'"
            ),
        ),
        (_turn("utterance", None), "field 'utterance': expected a string, got None"),
        (_turn("frames", {}), "turn 1: field 'frames': expected a list, got {}"),
        (
            lambda data: data.append(data[0]),
            (
                "dialogue '1_00000': field 'dialogue_id': expected an id that no other "
                "dialogue has, got '1_00000'"
            ),
        ),
        (
            lambda data: data[0]["turns"][0]["frames"].append(_first(data)),
            "turn 0, frame 1: field 'service': expected one frame a service",
        ),
        (lambda data: data.append(3), "dialogue #1: expected an object, got 3"),
    ],
)
def test_wrong_fields(sgd_tree, edit_json, change, message):
    path = sgd_tree / "train/dialogues_001.json"
    edit_json(path, change)
    with pytest.raises(UserError) as error:
        list(sgd.read_dialogues(sgd_tree, "train"))
    assert str(error.value).startswith(f"{path}: ")
    assert message in str(error.value)
    assert str(error.value).endswith("(`jaxaug data fetch sgd` for SGD and SGD-X).")


def test_service_that_the_dialogue_does_not_list(sgd_tree, edit_json):
    path = sgd_tree / "dev/dialogues_001.json"
    edit_json(path, _edit("service", "Parks_1"))
    with pytest.raises(UserError, match=r"one of the dialogue's services .*'Parks_1'"):
        list(sgd.read_dialogues(sgd_tree, "dev"))


def test_id_in_two_files(sgd_tree, edit_json):
    edit_json(
        sgd_tree / "train/dialogues_002.json", _dialogue("dialogue_id", "1_00000")
    )
    with pytest.raises(UserError) as error:
        list(sgd.read_dialogues(sgd_tree, "train"))
    assert (
        f"dialogues_002.json: dialogue '1_00000' is in {sgd_tree}/train/"
        "dialogues_001.json too; ids are unique in a split"
    ) in str(error.value)


def test_not_a_list(sgd_tree):
    path = sgd_tree / "train/dialogues_001.json"
    path.write_text(json.dumps({"a": 1}))
    with pytest.raises(UserError, match="json: expected a list of dialogues, got {'a'"):
        list(sgd.read_dialogues(sgd_tree, "train"))


def test_folders_are_checked_before_the_first_dialogue(sgd_tree):
    with pytest.raises(UserError, match="unknown variant 'v6'"):
        sgd.read_dialogues(sgd_tree, "dev", "v6")
    (sgd_tree / "dev/dialogues_001.json").unlink()
    with pytest.raises(UserError, match="dialogue files are missing"):
        sgd.read_dialogues(sgd_tree, "dev")


_COUNTS = "holds the same services, slots and intents as the original"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda d: d.pop(), f"1 services, but the original has 2. A variant {_COUNTS}"),
        (
            lambda d: d[0]["slots"].append(dict(d[0]["slots"][0], name="more")),
            "service 'Trains_11' (variant of 'Trains_1'): 4 slots, but the original has 3",
        ),
        (
            lambda d: d[0]["intents"].pop(),
            "(variant of 'Trains_1'): 1 intents, but the original has 2",
        ),
        (
            lambda d: (
                d[0]["slots"].reverse() or d[0]["slots"].insert(1, d[0]["slots"].pop())
            ),
            (
                "slot 'city_v1' stands where the original has 'class', but is_categorical "
                "is False instead of True"
            ),
        ),
    ],
)
def test_variant_that_does_not_match(sgd_tree, edit_json, change, message):
    path = sgd_tree / "sgd_x/data/v1/dev/schema.json"
    edit_json(path, change)
    original = read_schema(sgd_tree / "dev/schema.json")
    with pytest.raises(UserError) as error:
        renaming(original, read_schema(path), str(path))
    assert str(error.value).startswith(f"{path}: ")
    assert message in str(error.value)


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


_ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers(-2, 30) | st.sampled_from(["", "city"]),
    lambda inner: (
        st.lists(inner, max_size=2)
        | st.dictionaries(st.sampled_from(["city", "slot", "x"]), inner, max_size=2)
    ),
    max_leaves=4,
)


def _places(data, place=()):
    yield place
    if isinstance(data, dict | list):
        for key in data if isinstance(data, dict) else range(len(data)):
            yield from _places(data[key], (*place, key))


@settings(
    max_examples=150,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(choice=st.data())
def test_any_change_is_read_or_refused(sgd_tree, choice):
    """Whatever stands anywhere in a file: records come out, or a `UserError`."""
    schema = read_schema(sgd_tree / "dev/schema.json")
    names = sgd.renaming_of(sgd_tree, "dev", "v1")
    source = sgd_tree / "dev/dialogues_001.json"
    data = json.loads(source.read_text())
    place = choice.draw(st.sampled_from(list(_places(data))))
    value = choice.draw(_ANYTHING)
    if place:
        target = data
        for key in place[:-1]:
            target = target[key]
        target[place[-1]] = value
    else:
        data = value
    path = sgd_tree / "changed.json"
    path.write_text(json.dumps(data))
    try:
        records = sgd.read_dialogue_file(path, schema, names)
    except UserError as error:
        assert str(error).startswith(f"{path}: ")
    else:
        assert all(
            service in ("Trains_11", "Parks_11")
            for record in records
            for service in record.services
        )


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
