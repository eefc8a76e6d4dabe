import json
import pickle

import pytest

from jaxaug.core.errors import UserError
from jaxaug.data.schema import read_schema


def test_reads_every_field(sgd_tree):
    schema = read_schema(sgd_tree / "dev/schema.json")
    assert [service.name for service in schema.services] == ["Trains_1", "Parks_1"]
    trains = schema.service("Trains_1")
    assert trains.description == "Tickets for trains"
    assert [slot.name for slot in trains.slots] == ["city", "class", "price"]
    assert trains.slot("class").description == "Comfort on board"
    assert trains.slot("class").is_categorical is True
    assert trains.slot("class").possible_values == ("first", "second")
    assert trains.slot("city").is_categorical is False
    assert trains.slot("city").possible_values == ()
    find = trains.intent("FindTrain")
    assert find.description == "Look up a train"
    assert find.is_transactional is False
    assert find.required_slots == ("city",)
    assert find.optional_slots == (("class", "second"),)
    assert find.result_slots == ("city", "class", "price")
    assert "Parks_1" in schema
    assert "Parks_2" not in schema


def test_equal_hashable_and_picklable(sgd_tree):
    one = read_schema(sgd_tree / "dev/schema.json")
    two = read_schema(sgd_tree / "dev/schema.json")
    assert one == two
    assert hash(one) == hash(two)
    copy = pickle.loads(pickle.dumps(one))
    assert copy == one
    assert copy.service("Parks_1").slot("park").description == "Name of the park"


def test_unknown_names_get_a_suggestion(sgd_tree):
    schema = read_schema(sgd_tree / "dev/schema.json")
    with pytest.raises(UserError, match=r"'Train_1' is no service .*'Trains_1'\?"):
        schema.service("Train_1")
    with pytest.raises(
        UserError,
        match=r"'zzz' is no slot of service 'Trains_1'; known: city, class, price\.",
    ):
        schema.service("Trains_1").slot("zzz")
    with pytest.raises(UserError, match="did you mean 'FindTrain'"):
        schema.service("Trains_1").intent("FindTrains")


def _set(*keys_and_value):
    *keys, last, value = keys_and_value

    def change(data):
        for key in keys:
            data = data[key]
        if value is KeyError:
            del data[last]
        else:
            data[last] = value

    return change


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (_set(0, "slots", 1, "name", "city"),
         ("schema.json: service 'Trains_1': slot 'city' occurs twice, expected "
         "distinct names. Rename or remove one of the two.")),
        (_set(1, "service_name", "Trains_1"), "service 'Trains_1' occurs twice"),
        (_set(0, "intents", 1, "name", "FindTrain"), "intent 'FindTrain' occurs twice"),
        (_set(0, "slots", 1, "possible_values", ["first", "first"]),
         "slot 'class': possible value 'first' occurs twice"),
        (_set(0, "service_name", KeyError),
         "service #0: field 'service_name' is missing, expected a string. Correct"),
        (_set(0, "service_name", " "), "'service_name': expected a name, got ' '"),
        (_set(0, "slots", 2, "name", 7),
         "service 'Trains_1', slot #2: field 'name': expected a string, got 7"),
        (_set(0, "slots", 2, "description", KeyError),
         "'description' is missing, expec"),
        (_set(0, "slots", 2, "is_categorical", "no"),
         "expected true or false, got 'no'"),
        (_set(0, "slots", 2, "is_categorical", True),
         "expected at least one value, as the slot is categorical, got []"),
        (_set(0, "slots", 1, "possible_values", ["1", 2]),
         "field 'possible_values': expected a list, each item a string, got 2"),
        (_set(0, "slots", {}), "field 'slots': expected a list, got {}"),
        (_set(0, "intents", 0, "required_slots", ["town"]),
         ("intent 'FindTrain': field 'required_slots': expected slots of the "
         "service (known: city, class, price), got 'town'")),
        (_set(0, "intents", 0, "optional_slots", {"clas": "first"}),
         "expected slots of the service (did you mean 'class'?), got 'clas'"),
        (_set(0, "intents", 0, "optional_slots", {"class": 1}),
         "field 'optional_slots': expected strings as defaults, got {'class': 1}"),
        (_set(1, "text"), "service #1: expected an object, got 'text'"),
    ],
)  # fmt: skip
def test_wrong_fields(sgd_tree, edit_json, change, message):
    path = sgd_tree / "dev/schema.json"
    edit_json(path, change)
    with pytest.raises(UserError) as error:
        read_schema(path)
    assert str(error.value).startswith(f"{path}: ")
    assert message in str(error.value)


@pytest.mark.parametrize("data", [{}, [], "x", None])
def test_not_a_list_of_services(tmp_path, data):
    path = tmp_path / "schema.json"
    path.write_text(json.dumps(data))
    with pytest.raises(UserError, match="expected a non-empty list of services, got"):
        read_schema(path)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "the file is empty"),
        (b'[{"a": 1}', "truncated JSON: Expecting ',' delimiter at line 1, column 10"),
        (b'[{"a": "tex', "truncated JSON: Unterminated string"),
        (b'[\n{"a" 1}]', "invalid JSON: Expecting ':' delimiter at line 2, column 6"),
        (b'[\n"caf\xe9"]', "line 2: byte 0xe9 at offset 6 is not UTF-8"),
        (b"[" * 100_000, "invalid JSON: nested too deeply"),
    ],
)
def test_unreadable_files(tmp_path, content, message):
    path = tmp_path / "schema.json"
    path.write_bytes(content)
    with pytest.raises(UserError) as error:
        read_schema(path)
    assert str(error.value).startswith(f"{path}: ")
    assert message in str(error.value)
    assert str(error.value).endswith(
        "Correct the file, or get it again (`jaxaug data fetch sgd` for SGD and SGD-X)."
    )


@pytest.mark.parametrize(
    "change",
    [
        lambda data, name: data[0].update(service_name=name, slots=3),
        lambda data, name: data[0]["slots"][0].update(name=name, description=3),
        lambda data, name: data[0]["slots"][1].update(possible_values=[name, name]),
        lambda data, name: data[0]["intents"][0].update(required_slots=[name]),
        lambda data, name: [
            slot.update(name=f"{name}{index}")
            for index, slot in enumerate(data[0]["slots"])
        ],
    ],
)
def test_long_names_do_not_fill_the_screen(sgd_tree, edit_json, change):
    path = sgd_tree / "dev/schema.json"
    edit_json(path, lambda data: change(data, "x" * 100_000))
    with pytest.raises(UserError) as error:
        read_schema(path)
    assert len(str(error.value)) < 1000 and "xxx" in str(error.value)


def test_missing_file_and_folder(tmp_path):
    with pytest.raises(UserError, match=r"none\.json: no such file\. Correct"):
        read_schema(tmp_path / "none.json")
    with pytest.raises(UserError, match="is a folder, expected a file"):
        read_schema(tmp_path)


def test_real_schemas(real_data):
    paths = sorted((real_data / "sgd").glob("**/schema.json"))
    paths += sorted((real_data / "text/kst").glob("**/schema.json"))
    assert len(paths) == 23
    services = sum(len(read_schema(path).services) for path in paths)
    assert services == 6 * (26 + 17 + 21) + 5 * 21
