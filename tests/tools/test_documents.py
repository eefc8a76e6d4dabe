"""Documents of every kind become schemas and back, and schemas documents and back."""

import dataclasses
import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jaxaug.cli import main
from jaxaug.data.schema import Intent, Schema, Service, Slot, read_schema
from jaxaug.tools import documents, views
from jaxaug.tools.convert import document_of, read_document
from jaxaug.tools.services import object_of
from tests.support import small_sgd

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
def test_documents_come_back(name, tmp_path):
    """Tool lists are equal; in others, references may be written out."""
    found = read_document(DOCUMENTS / name)
    assert found.format == KINDS[name]
    document, dropped, left = document_of(found.schema, found.format, found)
    assert left == []
    if name in ("mcp.json", "openai.json", "responses.json"):
        assert document == json.loads((DOCUMENTS / name).read_text())
        assert dropped == []
    out = tmp_path / "schema.json"
    out.write_text(json.dumps(document))
    again = read_document(out, found.format)
    assert sorted(map(str, again.lost)) == sorted(map(str, found.lost))
    assert [(s.name, _slots(s)) for s in again.schema.services] == [
        (s.name, _slots(s)) for s in found.schema.services
    ]


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


_WORD = st.text("abcXY é9-", min_size=1, max_size=6).filter(str.strip)
_NAME = st.text("abcXY9", min_size=1, max_size=4)
_DOTTED = st.lists(_NAME, min_size=1, max_size=3).map(".".join)


@st.composite
def services(draw, name):
    names = draw(st.lists(_DOTTED, unique=True, max_size=5))
    # A slot with nested slots is not generated.
    names = [n for n in names if not any(o.startswith(f"{n}.") for o in names)]
    made = []
    for slot in names:
        values = draw(st.lists(_WORD, unique=True, max_size=3))
        values = draw(st.sampled_from([values, ["True", "False"]]))
        is_categorical = bool(values) and draw(st.booleans())
        made.append(Slot(slot, draw(_WORD), is_categorical, tuple(values)))
    intents = []
    for intent in draw(st.lists(_NAME, unique=True, min_size=1, max_size=3)):
        use = {slot: draw(st.sampled_from("RODN")) for slot in names}
        intents.append(
            Intent(
                intent,
                draw(_WORD),
                draw(st.booleans()),
                tuple(n for n in names if use[n] == "R"),
                tuple(
                    (n, "dontcare" if use[n] == "O" else draw(_WORD))
                    for n in names
                    if use[n] in "OD"
                ),
                tuple(n for n in names if "." not in n and draw(st.booleans())),
            )
        )
    return Service(name, draw(_WORD), tuple(made), tuple(intents))


_SCHEMAS = st.lists(_NAME, unique=True, min_size=1, max_size=3).flatmap(
    lambda names: st.tuples(*map(services, names)).map(Schema)
)


def _without_lost_fields(schema: Schema, kind: str) -> dict:
    """Returns the services without fields that the format cannot hold."""
    held = {}
    for service in schema.services:
        intents = {}
        used: set[str] = set()
        for intent in service.intents:
            given = {*intent.required_slots}, dict(intent.optional_slots)
            told = intent.is_transactional, {*intent.result_slots}
            intents[intent.name] = (
                intent.description,
                *given,
                told if kind in ("openapi", "mcp") else None,
            )
            used |= {*given[0], *given[1]}
            used |= told[1] if kind in ("openapi", "mcp") else set()
        slots = {slot for slot in service.slots if slot.name in used}
        is_tool = [*intents] == [service.name]
        described = service.description if kind == "openapi" and not is_tool else None
        held[service.name] = (described, slots, intents)
    return held


@pytest.mark.parametrize(
    "kind", ["openapi", "mcp", "openai", "anthropic", "json_schema"]
)
@settings(max_examples=60, deadline=None)
@given(schema=_SCHEMAS)
def test_sgd_there_and_back(kind, schema, tmp_path_factory):
    path = tmp_path_factory.getbasetemp() / f"{kind}.json"
    document, dropped, left = document_of(schema, kind)
    path.write_text(json.dumps(document))
    again = read_document(path)
    assert again.format == kind
    assert _without_lost_fields(again.schema, kind) == _without_lost_fields(
        schema, kind
    )
    assert left == []
    fields = {
        one.path[1] if one.path[1] != "intents" else one.path[-1] for one in dropped
    }
    assert fields <= {"slots", "description"} | (
        set() if kind in ("openapi", "mcp") else {"is_transactional", "result_slots"}
    )


def test_sgd_is_read_as_it_is(sgd_tree):
    path = sgd_tree / "dev/schema.json"
    found = read_document(path)
    assert (found.format, found.lost) == ("sgd", [])
    document, dropped, left = document_of(found.schema, "sgd")
    assert (document, dropped, left) == ([small_sgd.TRAINS, small_sgd.PARKS], [], [])


def test_a_slot_above_another_one_keeps_both():
    free = [Slot(name, name, False, ()) for name in ("a", "a.b", ".", "c.")]
    made = object_of(free, ["a.b"], {"a": "1"})
    assert [*made["properties"]] == ["a", "a.b", ".", "c."]
    assert made["required"] == ["a.b"]
    assert made["properties"]["a"]["default"] == "1"


def test_names_that_an_interface_refuses(sgd_tree):
    schema = read_schema(sgd_tree / "train/schema.json")
    [service] = schema.services
    renamed = Schema((dataclasses.replace(service, name="Züge nach Süden " * 5),))
    names = [t["function"]["name"] for t in document_of(renamed, "openai")[0]]
    assert len({*names}) == 2
    assert all(0 < len(name) <= 64 and name.isascii() for name in names)
    assert documents.kind_of(document_of(renamed, "openai")[0]) == "openai"


@pytest.mark.parametrize(
    ("one", "two", "equal"),
    [
        ([True], [1], False), ({"a": [0]}, {"a": [False]}, False),
        ([1, {"a": 2.0}], [1.0, {"a": 2}], True), ([1], [1, 1], False),
        ({"a": 1, "b": None}, {"b": None, "a": 1}, True), ("1", 1, False),
    ],
)  # fmt: skip
def test_equality_of_json_values(one, two, equal):
    assert views.same(one, two) is equal
