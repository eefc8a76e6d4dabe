"""Wordings that requests may choose or send."""

import json
import shutil
import time

import pytest

from jaxaug.core.errors import UserError
from jaxaug.data.schema import read_schema, service_object
from jaxaug.serve import wordings


def descriptions(schema):
    return {s.name: [slot.description for slot in s.slots] for s in schema.services}


def test_every_variant_of_the_data_folder_is_there(sgd_tree):
    shutil.copytree(sgd_tree / "sgd_x/data/v2", sgd_tree / "variants/mine/v1")
    found = wordings.read(None, sgd_tree, 100)
    names = ["original", "v1", "v2", "v3", "v4", "v5", "mine/v1"]
    assert [item["name"] for item in found.as_json()] == names
    # Parks_1 is in dev and test only, at another place.
    for item in found.as_json():
        assert [*item["services"]] == ["Trains_1", "Parks_1"]
    of_v3 = json.loads((sgd_tree / "sgd_x/data/v3/test/schema.json").read_text())
    assert found.as_json()[3]["services"] == {"Parks_1": of_v3[0], "Trains_1": of_v3[1]}


def test_a_schema_file_uses_the_wordings_of_equal_services(sgd_tree, edit_json):
    mine = shutil.copy(sgd_tree / "test/schema.json", sgd_tree / "mine.json")

    def change(services):
        services[0]["slots"][0]["name"] = "garden"  # of Parks_1, which then differs
        services[0]["intents"][0]["result_slots"] = []
        services[1]["slots"][0]["description"] = "My town"

    edit_json(mine, change)
    alone = wordings.read(mine, None, 100)
    assert [*alone.others] == ["original"]
    both = wordings.read(mine, sgd_tree, 100)
    assert [*both.others] == ["original", "v1", "v2", "v3", "v4", "v5"]
    assert [*both.others["original"]] == ["Parks_1", "Trains_1"]
    assert [*both.others["v1"]] == ["Trains_1"]
    assert both.others["original"]["Trains_1"].slot("city").description == "My town"


def test_a_broken_variant_is_refused(sgd_tree, edit_json):
    edit_json(sgd_tree / "sgd_x/data/v4/dev/schema.json", lambda s: s[0]["slots"].pop())
    with pytest.raises(UserError, match="v4/dev/schema.json"):
        wordings.read(None, sgd_tree, 100)


def test_names_edits_and_whole_schemas(sgd_tree):
    known = wordings.read(None, sgd_tree, 40)
    assert known.choose(None, None) == known.original == known.choose("original", [])
    v2 = read_schema(sgd_tree / "sgd_x/data/v2/test/schema.json")
    # By either name, in the order of the request, without duplicates.
    asked = ["Parks_1", "Trains_12", "Parks_12", "Trains_1"]
    assert known.choose("v2", asked) == v2
    assert known.choose([service_object(s) for s in v2.services], None) == v2
    edits = {
        "Trains_1": {
            "description": "Rail",
            "slots": {"class_v2": "Comfort"},
            "intents": {"BuyTicket_v2": "Get one"},
        }
    }
    (edited,) = known.choose({"wording": "v2", "edits": edits}, ["Trains_1"]).services
    expected = service_object(v2.service("Trains_12"))
    expected["description"] = "Rail"
    expected["slots"][1]["description"] = "Comfort"
    expected["intents"][1]["description"] = "Get one"
    assert service_object(edited) == expected
    # The next request uses the cached wording.
    assert known.choose("v2", asked) == v2
    assert known.choose({"edits": {}}, None) == known.original


CITY = {"Trains_1": {"slots": {"city": "x" * 41}}}


@pytest.mark.parametrize(
    ("schema", "services", "message"),
    [
        ("v6", None, "schema: 'v6' is no wording; known: original, v1, v2"),
        (3, None, "schema: got 3. Give the name of a wording, an object with"),
        ({"edits": []}, None, r"schema: got \[\]. Give"),
        ({"word": "v1"}, None, "schema: unknown key 'word'; did you mean 'wording'"),
        ({"edits": {"Train_1": {}}}, None,
         "edits: the wording has no service 'Train_1'; did you mean 'Trains_1'"),
        ({"edits": {"Trains_1": {"slots": {"cty": ""}}}}, None,
         "'cty' is no slot of service 'Trains_1'; did you mean 'city'"),
        ({"edits": {"Trains_1": {"slots": {"city": 1}}}}, None,
         "edits of 'Trains_1': city: expected a description, got 1"),
        ({"edits": CITY}, None,
         "city: a description of 41 characters; at most 40 are taken"),
        ({"edits": {"Trains_1": "x"}}, None, "expected a JSON object, got 'x'"),
        ([], None, "schema: expected a non-empty list of services, got"),
        ([{"service_name": "A"}], None,
         "schema: service 'A': field .* is missing, .*Correct the request"),
        (None, "Trains_1", "services: expected a list of names, got 'Trains_1'"),
        (None, ["Trains_2"], "services: the wording has no service 'Trains_2'; did"),
    ],
)  # fmt: skip
def test_invalid_wordings(sgd_tree, schema, services, message):
    known = wordings.read(None, sgd_tree, 40)
    with pytest.raises(UserError, match=message):
        known.choose(schema, services)


def test_the_first_ten_problems_of_a_schema_are_reported(sgd_tree):
    """The check stops there, because each problem costs a search for names."""
    known = wordings.read(None, sgd_tree, 40)
    services = [service_object(service) for service in known.original.services]
    slot = services[0]["slots"][0]
    services[0]["slots"] += [{**slot, "name": f"slot_{n}"} for n in range(1000)]
    unknown = [f"a_name_{n}" for n in range(1000)]
    services[0]["intents"][0]["result_slots"] = unknown
    start = time.monotonic()
    with pytest.raises(UserError) as refused:
        known.choose(services, None)
    assert time.monotonic() - start < 5
    text = str(refused.value)
    assert text.count("expected slots of the service") == 10
    assert "got 'a_name_9'. Correct the request." in text


def test_a_long_description_in_a_whole_schema(sgd_tree):
    known = wordings.read(None, sgd_tree, 40)
    services = [service_object(service) for service in known.original.services]
    services[1]["intents"][0]["description"] = "x" * 41
    with pytest.raises(UserError, match="Parks_1: FindPark: a description of 41"):
        known.choose(services, None)
