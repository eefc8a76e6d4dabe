"""The resolved catalogue: arguments of real schemas, their calls, and their texts."""

import json
import shlex
import sys
import time
from dataclasses import replace

import pytest

from jaxaug.cli import main
from jaxaug.core.errors import UserError
from jaxaug.core.files import write_texts
from jaxaug.data.schema import Schema
from jaxaug.tools import document_of, read_document, read_tools, sources
from jaxaug.tools.services import without_texts


def tools(name="f", **properties):
    schema = {"type": "object", "properties": properties}
    return [{"type": "function", "function": {"name": name, "parameters": schema}}]


TEXT = {"type": "string"}
PLACE = {"type": "object", "properties": {"city": TEXT, "zip.code": TEXT}}
GIVEN = tools(
    "shop.order",
    place=PLACE,
    age={"anyOf": [{"type": "integer"}, {"type": "null"}]},
    price={"type": "number"},
    code={"type": ["string", "integer"]},
    flag={"type": "boolean"},
    any={"enum": [1, "two", True, None, {"a": 1}]},
    tags={"type": "array", "items": {"type": "integer"}},
    lines={
        "type": "array",
        "items": {
            "type": "object",
            "required": ["name"],
            "properties": {"name": TEXT, "size": {"type": "integer"}},
        },
    },
    no=False,
    properties={"type": "object", "properties": {"$ref": TEXT}},
)


@pytest.mark.parametrize(
    ("state", "arguments"),
    [
        ({"place.city": "Oslo", "place.zip_code": "010"}, {"city": "Oslo"}),
        ({"age": "3"}, {"age": 3}),
        ({"age": "three", "price": "nan", "flag": "dontcare"}, {}),
        ({"price": "2.50", "code": "007"}, {"price": 2.5, "code": "007"}),
        ({"code": "7", "flag": "True"}, {"code": 7, "flag": True}),
        ({"any": "true", "unknown": "x"}, {"any": True}),
        ({"any": '{"a": 1}', "tags": "[1, 2]"}, {"any": {"a": 1}, "tags": [1, 2]}),
        ({"lines[].name": "a", "lines[].size": "2"}, {"lines": [{"name": "a"}]}),
        (
            {"lines": '[{"name": "b"}, {}]', "lines[].name": "a"},
            {"lines": [{"name": "b"}, {}]},
        ),
        ({"properties.$ref": ""}, {"properties": {"$ref": ""}}),
    ],
)
def test_a_state_becomes_the_call_of_the_original_tool_and_back(state, arguments):
    [tool] = read_tools(GIVEN, "tools").tools
    assert tool.name == "shop.order"
    if "place.city" in state:
        arguments = {"place": {"city": "Oslo", "zip.code": "010"}}
    if "lines[].size" in state:
        arguments["lines"][0]["size"] = 2
    assert tool.arguments_of({slot: (text,) for slot, text in state.items()}) == (
        arguments
    )
    told, unknown = tool.state_of(arguments)
    assert (tool.arguments_of(told), unknown) == (arguments, [])


def test_values_of_calls_that_have_no_slot():
    [tool] = read_tools(GIVEN, "tools").tools
    several = [{"name": "a"}, {"name": "b"}]
    told, unknown = tool.state_of(
        {"place": None, "age": None, "lines": several, "x": {"y": 1}, "place.city": "B"}
    )
    assert told == {
        "place.city": "B",
        "place.zip_code": None,
        "age": None,
        "lines": json.dumps(several),
    }
    assert unknown == ["x.y"]
    assert tool.lacking({"lines": [{"size": 1}]}) == [("lines", None, "name")]


ADDRESS = {"$anchor": "address", "type": "object", "properties": {"street": TEXT}}


@pytest.mark.parametrize(
    ("schema", "slots"),
    [
        ({"properties": {"to": {"$ref": "#address"}}}, ["to.street"]),
        ({"properties": {"to": {"$ref": "#/$defs/A%3CB%3E"}}}, ["to.street"]),
        ({"properties": {"to": {"$ref": "#/$defs/A%3CB%3E"}}, "$id": "x:y"}, None),
        ({"$ref": "#/$defs/A%3CB%3E"}, ["street"]),
        ({"properties": {"a": {"$ref": "#"}, "b": TEXT}}, ["a", "b"]),
        ({"properties": {"a": {"$ref": "#nowhere"}}}, "has no target"),
    ],
)
def test_references(schema, slots):
    given = tools()
    given[0]["function"]["parameters"] = schema | {"$defs": {"A<B>": ADDRESS}}
    if isinstance(slots, str):
        with pytest.raises(UserError, match=slots):
            read_tools(given, "tools")
        return
    [tool] = read_tools(given, "tools").tools
    assert [one.slot for one in tool.arguments] == (slots or ["to.street"])


def test_all_parts_of_all_of_hold():
    one = {"type": "string", "description": "first", "enum": ["x", "y"], "pattern": "p"}
    two = {"description": "second", "enum": ["y", "z"], "pattern": "q"}
    inner = [{"properties": {key: TEXT}, "required": [key]} for key in "cd"]
    parts = [
        {"properties": {"a": one, "b": inner[0]}},
        {"properties": {"a": two, "b": inner[1]}, "required": ["b"]},
    ]
    given = tools()
    given[0]["function"]["parameters"] = {"allOf": parts}
    found = read_tools(given, "tools")
    [service] = found.schema.services
    assert [(s.name, s.description, s.possible_values) for s in service.slots] == [
        ("a", "first", ("y",)),
        ("b.c", "b c", ()),
        ("b.d", "b d", ()),
        ("a_2", "second", ()),
    ]
    assert service.intents[0].required_slots == ("b.c", "b.d")
    lost = {"/".join(one.path): one.value for one in found.lost}
    place = "tools/f/parameters/properties/a"
    assert lost[f"{place}/pattern"] == "p"
    assert lost[f"{place}/allOf"] == [{"description": "second", "pattern": "q"}]
    assert document_of(found.schema, "openai", found)[0] == given


def test_a_field_of_many_alternatives_has_the_values_of_all():
    kinds = [f"k{number}" for number in range(60)]
    blocks = [{"properties": {"kind": {"const": kind}}} for kind in kinds]
    found = read_tools(tools(block={"oneOf": blocks}), "tools")
    [kind] = found.tools[0].arguments
    assert kind.slot == "block.kind" and kind.values == (*kinds,)
    found = read_tools(tools(block={"oneOf": [*blocks, *blocks[::-1]]}), "tools")
    assert found.tools[0].arguments[0].values == (*kinds,)


def test_a_property_without_a_valid_value_in_the_query_of_an_operation(tmp_path):
    schema = {"type": "object", "properties": {"a": False, "b": TEXT}}
    reads = {"annotations": {"readOnlyHint": True}}
    tool = {"name": "f", "inputSchema": schema, **reads}
    (tmp_path / "t.json").write_text(json.dumps({"tools": [tool]}))
    found = read_document(tmp_path / "t.json")
    document, _, _ = document_of(found.schema, "openapi", found)
    [given] = document["paths"]["/f"]["get"]["parameters"]
    assert given == {"name": "b", "in": "query", "schema": TEXT}


def test_tools_of_other_interfaces_keep_their_arguments():
    schema = {"type": "object", "properties": {"a": TEXT}}
    for keyword in ("inputSchema", "input_schema"):
        [tool] = read_tools([{"name": "f", keyword: schema}], "tools").tools
        assert [one.slot for one in tool.arguments] == ["a"]


def test_long_lists_take_linear_time():
    """Lists of values, types and required names, parts of `allOf`, equal names."""
    values = [*range(15_000)]
    kinds = [f"a{value}" for value in values]
    both = {"allOf": [{"enum": [*values, 1.0]}, {"enum": [*values[::-1], True]}]}
    typed = {"allOf": [{"type": kinds}, {"type": [*kinds[::-1], "b"]}]}
    parts = {f"p{value}": {"minLength": value} for value in values[:800]}
    given = tools(both=both, typed=typed, wide={"allOf": [{} for _ in range(1500)]})
    given[0]["function"]["parameters"]["allOf"] = [
        {"properties": {"p": one}} for one in parts.values()
    ]
    start = time.process_time()
    found = read_tools(json.loads(json.dumps(given)), "tools")
    many = read_tools(tools() * 5000, "tools")
    assert time.process_time() - start < 20
    arguments = {one.slot: one for one in found.tools[0].arguments}
    assert arguments["both"].values == (*values, 1.0)
    assert arguments["typed"].types == (*kinds,)
    names = {"f", *(f"f_{number}" for number in range(2, 5001))}
    assert {one.name for one in many.schema.services} == names


def reworded(schema: Schema) -> Schema:
    """Returns a schema whose descriptions all end in a mark."""

    def mark(items):
        return tuple(replace(one, description=f"{one.description} +") for one in items)

    return Schema(
        tuple(
            replace(one, slots=mark(one.slots), intents=mark(one.intents))
            for one in mark(schema.services)
        )
    )


def test_texts_at_every_depth_are_reworded():
    def told(text, **more):
        return {"type": "string", "description": text} | more

    choice = [told("as a text"), {"type": "object", "properties": {"q": told("why")}}]
    given = tools(
        a={"type": "array", "description": "all", "items": told("each")},
        b={"anyOf": choice, "description": "either"},
        c={"type": "object", "description": "both", "properties": {"d": told("end")}},
        e={
            "type": "object",
            "description": "map",
            "additionalProperties": told("value"),
        },
        f={"$ref": "#/$defs/S"},
        g={"$ref": "#/$defs/S", "description": "own"},
    )
    given[0]["function"]["parameters"]["$defs"] = {"S": told("shared")}
    given[0]["function"]["description"] = "do"
    found = read_tools(given, "tools")
    document, _, left = document_of(reworded(found.schema), "openai", found)
    assert left == []
    expected = json.loads(json.dumps(given), object_hook=_marked)
    assert document == expected
    [service] = without_texts(found.schema).services
    assert [slot.name for slot in service.slots] == ["a", "b", "c.d", "e", "f", "g"]


def _marked(one):
    if isinstance(one.get("description"), str):
        one["description"] += " +"
    return one


def test_a_shared_text_that_two_arguments_reword_in_other_ways():
    given = tools(f={"$ref": "#/$defs/S"}, g={"$ref": "#/$defs/S"})
    shared = {"S": {"type": "string", "description": "station"}}
    given[0]["function"]["parameters"]["$defs"] = shared
    found = read_tools(given, "tools")
    [service] = found.schema.services
    changed = replace(service.slots[1], description="stop")
    schema = Schema((replace(service, slots=(service.slots[0], changed)),))
    [tool] = document_of(schema, "openai", found)[0]
    parameters = tool["function"]["parameters"]
    assert parameters["$defs"] == shared
    assert parameters["properties"]["g"] == {"$ref": "#/$defs/S", "description": "stop"}


@pytest.mark.parametrize(
    ("summary", "described"),
    [("Create Refund", 1), ("pays money back", 2)],
)
def test_an_operation_is_described_by_its_description(tmp_path, summary, described):
    operation = {
        "operationId": "create_refund_refunds_post",
        "summary": summary,
        "description": "Give the money back.",
    }
    path = tmp_path / "d.json"
    document = {"openapi": "3.1.0", "paths": {"/refunds": {"post": operation}}}
    path.write_text(json.dumps(document))
    found = read_document(path)
    assert found.schema.services[0].intents[0].description == "Give the money back."
    changed, _, _ = document_of(reworded(found.schema), "openapi", found)
    made = changed["paths"]["/refunds"]["post"]
    assert made["description"] == "Give the money back. +"
    assert made["summary"] == summary + " +" * (described - 1)


def test_fields_of_one_direction_and_extensions(tmp_path):
    pet = {
        "type": "object",
        "required": ["id", "name"],
        "properties": {
            "id": TEXT | {"readOnly": True},
            "name": TEXT,
            "pin": TEXT | {"writeOnly": True},
        },
    }
    content = {
        "content": {
            "application/json": {"schema": {"$ref": "#/components/schemas/Pet"}}
        }
    }
    operation = {
        "operationId": "add",
        "x-own": [1],
        "requestBody": content | {"required": True},
        "responses": {"200": content, "x-more": 3},
    }
    path = tmp_path / "d.json"
    document = {
        "openapi": "3.0.3",
        "x-top": 1,
        "paths": {"x-a": True, "/pets": {"post": operation, "x-b": None}},
        "components": {"schemas": {"Pet": pet}},
    }
    path.write_text(json.dumps(document))
    found = read_document(path)
    [intent] = found.schema.services[0].intents
    assert intent.required_slots == ("name",)
    assert dict(intent.optional_slots) == {"pin": "dontcare"}
    assert intent.result_slots == ("id", "name")
    assert document_of(found.schema, "openapi", found)[0] == document


def test_linked_models_and_definitions_in_other_formats(tmp_path):
    """A cycle moves to definitions; answers are read one level deep."""
    names = [f"M{i}" for i in range(30)]
    models = {
        name: {
            "type": "object",
            "properties": {"id": TEXT}
            | {key: {"$ref": f"#/components/schemas/{key}"} for key in names},
        }
        for name in names
    }
    models["Node"] = {
        "type": "object",
        "properties": {"next": {"$ref": "#/components/schemas/Node"}, "v": TEXT},
    }

    def content(name):
        schema = {"$ref": f"#/components/schemas/{name}"}
        return {"content": {"application/json": {"schema": schema}}}

    operation = {"operationId": "go", "requestBody": content("Node")}
    operation["responses"] = {"200": content("M0")}
    path = tmp_path / "d.json"
    document = {"openapi": "3.1.0", "paths": {"/go": {"post": operation}}}
    path.write_text(json.dumps(document | {"components": {"schemas": models}}))
    found = read_document(path)
    assert found.schema.services[0].intents[0].result_slots == ("id",)
    [tool] = document_of(found.schema, "openai", found)[0]
    parameters = tool["function"]["parameters"]
    node = {"$ref": "#/$defs/Node"}
    assert parameters["properties"]["next"] == node
    assert parameters["$defs"]["Node"]["properties"] == {"next": node, "v": TEXT}
    listed = read_tools([tool], "tools")
    moved = document_of(listed.schema, "openapi", listed)[0]
    assert "#/$defs" not in json.dumps(moved)
    path.write_text(json.dumps(moved))
    assert "next.v" in [one.slot for one in read_document(path).tools[0].arguments]


def test_names_that_become_the_same():
    given = [
        one
        for name in ("a.b", "a_b", "ä", "ö", "x" * 80, "x" * 81)
        for one in tools(name)
    ]
    found = read_tools(given, "tools")
    for format in ("openai", "anthropic"):
        document = document_of(found.schema, format)[0]
        names = [(one.get("function") or one)["name"] for one in document]
        assert len({*names}) == 6 and max(map(len, names)) <= 64
        assert names[:2] == ["a_b_2", "a_b"]


@pytest.mark.parametrize(
    ("text", "value"),
    [
        (
            "[NO, on, 12:30, 010, true, ~, 3, 1.5]",
            ["NO", "on", "12:30", "010", True, None, 3, 1.5],
        ),
        ("{NO: 1, 1.10: 2, 200: 3}", {"NO": 1, "1.10": 2, "200": 3}),
        (
            "{type: string, enum: [1.10, 0x1F]}",
            {"type": "string", "enum": ["1.10", "0x1F"]},
        ),
        (
            "{a: &a {p: 1, q: 2}, b: {<<: *a, q: 3}}",
            {"a": {"p": 1, "q": 2}, "b": {"p": 1, "q": 3}},
        ),
        ("[!!str 4, !!int '5', '6', 0o17]", ["4", 5, "6", 15]),
        ('a: "b\\N\\Lc"', {"a": "b\x85\u2028c"}),
    ],
)
def test_yaml_has_the_core_schema_of_1_2(text, value):
    found = json.loads(sources.as_json(text, "a.yaml", ""))
    assert found == value
    again = sources.as_json(sources.dumped(found), "a.yaml", "")
    assert json.loads(again) == value


_SERVER = """
from mcp.server.mcpserver import MCPServer
server = MCPServer("notes")

@server.tool()
def add(text: str, limit: int | None = None) -> None:
    "Adds a note."

print("Reading settings ...", flush=True)
server.run("stdio")
"""


def test_the_tools_of_a_live_server(tmp_path, caplog):
    pytest.importorskip("mcp")
    file = tmp_path / "server.py"
    file.write_text(_SERVER)
    found = read_document(f"mcp:{shlex.quote(sys.executable)} {shlex.quote(str(file))}")
    [tool] = found.tools
    assert (found.format, tool.name, tool.description) == ("mcp", "add", "Adds a note.")
    assert tool.arguments_of({"text": "a", "limit": "3"}) == {"text": "a", "limit": 3}
    assert "JSONRPC" not in caplog.text
    for server, message in (
        ("mcp:", "names no command"),
        ("mcp:'a", "is no command"),
        ("mcp:/no/such/server", "lists no tools"),
    ):
        with pytest.raises(UserError, match=message):
            read_document(server)


@pytest.mark.parametrize(
    "document",
    [
        {
            "type": "object",
            "required": ["a"],
            "properties": {
                "a": {"type": "string", "x-name": "b", "x-in": "query"},
                "b": {
                    "type": "integer",
                    "x-name": ["q"],
                    "x-parameter": {"in": "header"},
                },
                "x-name": {"type": "string"},
                "x-in": False,
                "properties": {"type": "object", "properties": {"$ref": TEXT}},
            },
        },
        {"name": "t", "input_schema": {"type": "object"}},
    ],
)
def test_names_of_the_user_are_no_notes_of_ours(tmp_path, capsys, document):
    path, losses, schema, out = (tmp_path / f"{name}.json" for name in "abcd")
    kind = "json_schema" if "properties" in document else "anthropic"
    given = document if kind == "json_schema" else [document]
    path.write_text(json.dumps(given))
    words = ["--losses", str(losses), "--out"]
    assert main(["schema", "import", str(path), *words, str(schema)]) == 0
    assert main(["schema", "export", str(schema), "--to", kind, *words, str(out)]) == 0
    assert json.loads(out.read_text()) == given
    other = ["schema", "export", str(schema), "--to", "openapi", *words, str(out)]
    assert main(other) == 0
    assert "was not restored" not in capsys.readouterr().err


def test_a_changed_argument_is_written_and_its_losses_are_told():
    """The other tools keep everything."""
    own = {"type": "integer", "minimum": 1, "description": "number"}
    given = [*tools("f", a=own), *tools("g", a=own)]
    found = read_tools(given, "tools")
    service = found.schema.services[0]
    intent = replace(service.intents[0], required_slots=("a",), optional_slots=())
    changed = replace(service, intents=(intent,))
    schema = Schema((changed, found.schema.services[1]))
    document, _, left = document_of(schema, "openai", found)
    assert document[0]["function"]["parameters"]["required"] == ["a"]
    assert document[1] == given[1]
    assert {one.path[1] for one in left} == {"f"}
    alone = Schema(found.schema.services[1:])
    [last] = document_of(alone, "openai", found)[0]
    assert last["function"]["name"] == "g"
    assert last["function"]["parameters"] == given[1]["function"]["parameters"]


def test_two_outputs_are_published_together(tmp_path):
    one, two = tmp_path / "one", tmp_path / "two"
    one.write_text("old")
    two.write_text("no folder")
    with pytest.raises(OSError, match="two"):
        write_texts({one: "a", two / "b": "b"})
    assert one.read_text() == "old" and {*tmp_path.iterdir()} == {one, two}


def test_definitions_of_other_formats_have_plain_names():
    given = tools(a={"anyOf": [{"$ref": "#/$defs/B%20C"}, {"$ref": "#/$defs/never"}]})
    inside = {"type": "object", "properties": {"b": {"$ref": "#/$defs/B%20C"}}}
    given[0]["function"]["parameters"]["$defs"] = {"B C": inside, "never": False}
    found = read_tools(given, "tools")
    for format in ("mcp", "openapi", "json_schema"):
        document = document_of(found.schema, format, found)[0]
        assert "B%20C" not in json.dumps(document)
    [tool] = document_of(found.schema, "mcp", found)[0]["tools"]
    choices = tool["inputSchema"]["properties"]["a"]["anyOf"]
    assert choices[0]["properties"] == {"b": {"$ref": "#/$defs/B_C"}}
    assert choices[1] == {"not": {}}
