"""Documents of every kind become schemas and are restored unchanged."""

import json
from pathlib import Path

import pytest

from jaxaug.cli import main
from jaxaug.data.schema import read_schema
from jaxaug.tools.convert import document_of, read_document

DOCUMENTS = Path(__file__).with_name("documents")
KINDS = {
    "anthropic.json": "anthropic",
    "json_schema.json": "json_schema",
    "mcp.json": "mcp",
    "openai.json": "openai",
    "pets.yaml": "openapi",
    "responses.json": "openai",
}


def _intent(schema, service, intent):
    found = schema.service(service).intent(intent)
    return found.required_slots, dict(found.optional_slots), found.result_slots


def _slots(service):
    return {
        slot.name: (slot.description, *slot.possible_values) for slot in service.slots
    }


@pytest.mark.parametrize("name", KINDS)
def test_the_format_is_recognized(name):
    assert read_document(DOCUMENTS / name).format == KINDS[name]


@pytest.mark.parametrize("name", ["mcp.json", "openai.json", "responses.json"])
def test_a_tool_list_comes_back_equal(name):
    found = read_document(DOCUMENTS / name)
    document, dropped, left = document_of(found.schema, found.format, found)
    assert document == json.loads((DOCUMENTS / name).read_text())
    assert dropped == left == []


@pytest.mark.parametrize("name", KINDS)
def test_restored_documents_have_the_same_meaning(name, tmp_path):
    """References may be written out: a second import finds the same tools."""
    found = read_document(DOCUMENTS / name)
    document, _, left = document_of(found.schema, found.format, found)
    assert left == []
    out = tmp_path / "schema.json"
    out.write_text(json.dumps(document))
    again = read_document(out, found.format)
    assert sorted(map(str, again.lost)) == sorted(map(str, found.lost))
    assert [s.name for s in again.schema.services] == [
        s.name for s in found.schema.services
    ]
    assert list(map(_slots, again.schema.services)) == list(
        map(_slots, found.schema.services)
    )


def test_tools_of_one_prefix_are_a_service():
    schema = read_document(DOCUMENTS / "mcp.json").schema
    assert [s.name for s in schema.services] == ["notes", "read_file"]
    assert _intent(schema, "notes", "search") == (
        ("query",),
        {"since": "dontcare", "tags": "dontcare"},
        ("count",),
    )
    assert _intent(schema, "notes", "add") == (
        ("text",),
        {"priority": "2", "pinned": "False"},
        (),
    )
    notes = schema.service("notes")
    assert [i.is_transactional for i in notes.intents] == [False, True]
    assert _slots(notes)["priority"] == ("how urgent the note is", "1", "2", "3")
    assert _slots(notes)["pinned"] == ("pinned", "True", "False")


def test_objects_become_dotted_slots():
    schema = read_document(DOCUMENTS / "openai.json").schema
    assert _intent(schema, "book_table", "book_table") == (
        ("restaurant", "guest.name"),
        {"guest.count": "2", "outside": "dontcare"},
        (),
    )
    schema = read_document(DOCUMENTS / "json_schema.json").schema
    assert _intent(schema, "OrderParcel", "OrderParcel") == (
        ("to.street", "weight"),
        {"to.country": "dontcare", "express": "True"},
        (),
    )
    assert schema.services[0].description == "send a parcel"
    assert _slots(schema.services[0])["to.country"][1:] == ("Norway",)


def test_references_bring_descriptions_and_values():
    schema = read_document(DOCUMENTS / "anthropic.json").schema
    assert _intent(schema, "find_train", "find_train")[0] == ("from", "to")
    assert _slots(schema.services[0]) == {
        "from": ("name of the station", "Oslo S", "Bergen"),
        "to": ("station where the train arrives", "Oslo S", "Bergen"),
        "seat": ("where to sit", "window", "aisle"),
    }
    seat = schema.services[0].slot("seat")
    assert seat.is_categorical and not schema.services[0].slot("to").is_categorical


def test_operations_of_one_tag_are_a_service():
    found = read_document(DOCUMENTS / "pets.yaml")
    schema = found.schema
    assert [s.name for s in schema.services] == ["animals", "get_animals_id"]
    animals = schema.service("animals")
    assert animals.description == "Animals that are for sale"
    assert _intent(schema, "animals", "listAnimals") == (
        (),
        {"limit": "20", "kind": "dontcare", "vaccinated": "dontcare"},
        ("total",),
    )
    assert _intent(schema, "animals", "addAnimal")[0] == ("name", "home.city")
    assert [i.is_transactional for i in animals.intents] == [False, True]
    assert _slots(animals)["home.postal_code"] == ("home postal code",)
    lost = {"/".join(one.path): one for one in found.lost}
    # A cycle is cut where it closes.
    mother = lost["tools/addAnimal/parameters/properties/mother/$ref"]
    assert mother.value == "#/$defs/Animal"
    assert _slots(animals)["mother"] == ("mother",)
    limit = "tools/listAnimals/parameters/properties/limit"
    assert (lost[f"{limit}/type"].value, lost[f"{limit}/maximum"].value) == (
        "integer",
        100,
    )
    assert document_of(schema, "openapi", found)[0] == found.document


def test_arguments_that_contradict_divide_a_service(tmp_path):
    tools = [
        {
            "name": f"shop__{verb}",
            "description": verb,
            "inputSchema": {
                "type": "object",
                "properties": {"id": {"type": "string", "description": told}},
            },
        }
        for verb, told in (
            ("buy", "number of the ware"),
            ("track", "number of the parcel"),
        )
    ]
    path = tmp_path / "tools.json"
    path.write_text(json.dumps({"tools": tools}))
    found = read_document(path)
    assert [s.name for s in found.schema.services] == ["shop__buy", "shop__track"]
    assert document_of(found.schema, "mcp")[0] == {"tools": tools}


def test_names_that_sgd_does_not_hold_come_back(tmp_path):
    argument = {"type": "string", "description": "a text"}
    tools = [
        {"name": name, "description": "do", "inputSchema": {"type": "object", **inside}}
        for name, inside in (
            (
                "a\nb",
                {"properties": {"x.y": argument, "": argument}, "required": ["x.y"]},
            ),
            ("twice", {"properties": {}}),
            ("twice", {"properties": {"x": argument}}),
        )
    ]
    path = tmp_path / "tools.json"
    path.write_text(json.dumps({"tools": tools}))
    found = read_document(path)
    assert [s.name for s in found.schema.services] == ["a_b", "twice", "twice_2"]
    assert _intent(found.schema, "a_b", "a_b")[:2] == (
        ("x_y",),
        {"unnamed": "dontcare"},
    )
    assert document_of(found.schema, "mcp", found)[0] == {"tools": tools}


def test_constraints_go_from_one_format_to_another(tmp_path):
    losses, schema, out = (tmp_path / f"{name}.json" for name in "abc")
    words = ["--losses", str(losses), "--out"]
    pets = str(DOCUMENTS / "pets.yaml")
    assert main(["schema", "import", pets, *words, str(schema)]) == 0
    assert main(["schema", "export", str(schema), "--to", "mcp", *words, str(out)]) == 0
    tools = {tool["name"]: tool for tool in json.loads(out.read_text())["tools"]}
    assert [*tools] == ["animals__listAnimals", "animals__addAnimal", "get_animals_id"]
    limit = tools["animals__addAnimal"]["inputSchema"]["properties"]["limit"]
    assert limit == {
        "type": "integer",
        "description": "most animals to return",
        "default": 20,
        "minimum": 1,
        "maximum": 100,
    }


def test_reworded_texts_and_other_names_of_a_variant(tmp_path, capsys):
    """The tool keeps its names and constraints, and gets the texts of the variant."""
    path, losses = DOCUMENTS / "openai.json", tmp_path / "losses.json"
    schema, out = tmp_path / "schema.json", tmp_path / "out.json"
    words = ["--losses", str(losses), "--out"]
    assert main(["schema", "import", str(path), *words, str(schema)]) == 0
    text = schema.read_text().replace("get_weather", "get_weather1")
    text = text.replace('"days"', '"length"').replace("number of days", "how many days")
    schema.write_text(text)
    assert read_schema(schema).service("get_weather1").slot("length")
    capsys.readouterr()
    assert (
        main(["schema", "export", str(schema), "--to", "openai", *words, str(out)]) == 0
    )
    assert capsys.readouterr().out == f"wrote {out}; restored: losses 7 of 7, names 3\n"
    document = json.loads(path.read_text())
    days = document[0]["function"]["parameters"]["properties"]["days"]
    days["description"] = "how many days"
    assert json.loads(out.read_text()) == document
