"""Invalid SGD files, and their error messages."""

import json

import pytest

from jaxaug.core.errors import UserError
from jaxaug.data import sgd
from jaxaug.data.rename import renaming
from jaxaug.data.schema import read_schema


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


def _state(*path_and_value):
    return _edit("state", *path_and_value)


def _on(target):
    return lambda key, value: lambda data: target(data).__setitem__(key, value)


_dialogue = _on(lambda data: data[0])
_turn = _on(lambda data: data[0]["turns"][1])
_IN_FRAME = "dialogue '1_00000', turn 0, frame 0: "


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (_edit("service", "Train_1"),
         (f"{_IN_FRAME}field 'service': expected a service of the split's schema "
         "(did you mean 'Trains_1'?), got 'Train_1'. Correct the file")),
        (_edit("service", 3), "field 'service': expected a string, got 3"),
        (_edit("service", KeyError), "'service': expected a string, got nothing"),
        (_state("slot_values", []), "expected an object from slots to lists of values"),
        (_state("slot_values", "city", "Oslo"), "'state.slot_values.city': expected a"),
        (_state("slot_values", "city", []), "non-empty list of strings, got []"),
        (_state("slot_values", "city", [1]), "list of strings, got [1]"),
        (_state("slot_values", "town", ["Oslo"]),
         "slots of the service (known: city, class, price), got 'town'"),
        (_state("active_intent", "FindTrains"), "mean 'FindTrain'?), got 'FindTrains'"),
        (_state("active_intent", None), "expected the name of one intent, got None"),
        (_state("requested_slots", ["prise"]), "(did you mean 'price'?), got 'prise'"),
        (_state("requested_slots", {}), "expected a list of slots, got {}"),
        (_edit("state", None), "field 'state': expected an object, got None"),
        (_edit("slots", 0, "exclusive_end", 99),
         ("expected 0 <= start < exclusive_end <= 22, the length of the " "utterance, "
         "got {'slot': 'city', 'start': 11, 'exclusive_end': 99}")),
        (_edit("slots", 0, "slot", "x"), "field 'slots.slot': expected slots of the"),
        (_edit("slots", "x"), "field 'slots': expected a list, got 'x'"),
        (_edit("actions", 0, "x"), "field 'actions': expected a list of objects"),
        (_edit("actions", 0, "act", 1), "'actions.act': expected a string, got 1"),
        (_edit("actions", 0, "slot", "x"), "field 'actions.slot': expected slots"),
        (_edit("actions", 0, "values", None), "'actions.values': expected a list of"),
        (_edit("service_call", {"method": "x", "parameters": {}}),
         "field 'service_call.method': expected intents of the service"),
        (_edit("service_call", {"method": "FindTrain"}),
         ("'service_call.parameters': expected an object from slots to values, "
         "got no")),
        (_edit("service_results", [{"city": 1}]),
         "expected strings as values, got {'c"),
        (_dialogue("services", ["Hotels_9"]),
         "services of the split's schema (known: Trains_1), got 'Hotels_9'"),
        (_dialogue("services", []), "'services': expected a non-empty list of strings"),
        (_dialogue("services", ["Trains_1"] * 2), "expected distinct services"),
        (_dialogue("turns", []), "field 'turns': expected a non-empty list, got []"),
        (_dialogue("dialogue_id", 5),
         "dialogue #0: field 'dialogue_id': expected a no"),
        (_turn("speaker", "BOT"),
         "dialogue '1_00000', turn 1: field 'speaker': expect"),
        (_turn("utterance", None), "field 'utterance': expected a string, got None"),
        (_turn("frames", {}), "turn 1: field 'frames': expected a list, got {}"),
        (lambda data: data.append(data[0]),
         "expected an id that no other dialogue has"),
        (lambda data: data[0]["turns"][0]["frames"].append(_first(data)),
         "turn 0, frame 1: field 'service': expected one frame a service"),
        (lambda data: data.append(3), "dialogue #1: expected an object, got 3"),
    ],
)  # fmt: skip
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
        (lambda d: d[0]["slots"].append(dict(d[0]["slots"][0], name="more")),
         ("service 'Trains_11' (variant of 'Trains_1'): 4 slots, but the "
         "original has 3")),
        (lambda d: d[0]["intents"].pop(),
         "(variant of 'Trains_1'): 1 intents, but the original has 2"),
        (lambda d: (d[0]["slots"].reverse() or d[0]["slots"].insert(1,
         d[0]["slots"].pop())),
         ("slot 'city_v1' stands where the original has 'class', but " "is_categorical "
         "is False instead of True")),
    ],
)  # fmt: skip
def test_variant_that_does_not_match(sgd_tree, edit_json, change, message):
    path = sgd_tree / "sgd_x/data/v1/dev/schema.json"
    edit_json(path, change)
    original = read_schema(sgd_tree / "dev/schema.json")
    with pytest.raises(UserError) as error:
        renaming(original, read_schema(path), str(path))
    assert str(error.value).startswith(f"{path}: ")
    assert message in str(error.value)


@pytest.mark.parametrize(
    "change",
    [
        lambda data, name: data[0].update(dialogue_id=name, turns=3),
        lambda data, name: _first(data).update(service=name),
        lambda data, name: _first(data)["state"]["slot_values"].update({name: []}),
    ],
)
def test_long_names_do_not_fill_the_screen(sgd_tree, edit_json, change):
    path = sgd_tree / "dev/dialogues_001.json"
    edit_json(path, lambda data: change(data, "x" * 100_000))
    with pytest.raises(UserError) as error:
        list(sgd.read_dialogue_file(path, read_schema(sgd_tree / "dev/schema.json")))
    assert len(str(error.value)) < 1000 and "xxx" in str(error.value)
