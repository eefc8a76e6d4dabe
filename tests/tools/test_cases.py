"""Cases from files: our own format, BFCL's, and their mistakes."""

import json

import pytest

from jaxaug.core.errors import UserError
from jaxaug.tools import cases, read_document
from jaxaug.tools.match import ABSENT, Expected

USER = [{"role": "user", "content": "hi"}]
CASE = {"messages": USER, "calls": []}


def called(name="find_city", **more):
    return CASE | {"calls": [{"name": name, **more}]}


def tool(name="find.city", properties=None, required=("city",)):
    properties = properties or {
        "city": {"type": "string", "description": "name of the city"},
        "unit": {"type": "string", "enum": ["c", "f"], "description": "unit to use"},
    }
    parameters = {"type": "object", "properties": properties, "required": [*required]}
    return {"name": name, "description": "find a city", "inputSchema": parameters}


def read(tmp_path, *items, tools=None):
    schema, path = tmp_path / "tools.json", tmp_path / "cases.jsonl"
    schema.write_text(json.dumps({"tools": [tool()] if tools is None else tools}))
    path.write_text("".join(json.dumps(item) + "\n\n" for item in items))
    (found,) = cases.read(path, read_document(schema))
    return found


def test_own_format(tmp_path):
    call = called("find.city", arguments={"city": "Oslo"}, accepted={"unit": ["c"]})
    first, second = read(tmp_path, call, CASE | {"id": "b"}).cases
    assert (first.id, second.id, second.expected) == ("1", "b", ())
    accepted = {"city": ("Oslo",), "unit": (ABSENT, "c")}
    assert first.expected == (Expected("find_city", accepted, frozenset({"unit"})),)
    (offered,) = first.tools
    assert offered["function"]["parameters"]["required"] == ["city"]


@pytest.mark.parametrize(
    ("item", "text"),
    [
        ({"calls": []}, "line 1: messages: expected a list of objects with role"),
        ({"tools": [tool()]}, "holds no cases. Name tools with --schema"),
        ([tool()], "holds no cases. Name tools with --schema"),
        ({"messages": [{"role": "human"}], "calls": []}, "messages: expected"),
        ({"messages": USER}, "calls: expected a list, empty if no tool fits, got None"),
        (called("find_cty"), "did you mean 'find_city'"),
        (called(arguments={"town": 1}), "has no argument 'town'; known: city, unit."),
        (called(), "lacks city, which the tool requires. Add it to arguments."),
        (CASE | {"tools": ["x"]}, "no tool 'x'"),
        (CASE | {"tools": []}, "offers 0 tools; a request takes 1"),
        (CASE | {"call": 1}, "unknown key 'call'"),
        (
            CASE | {"id": None},
            "line 1: id: expected a text or a whole number, got None",
        ),
        (called(name=[]), "line 1: calls: expected the name of a tool, got []"),
        (
            {"messages": [{"role": "user", "content": {}}], "calls": []},
            "messages: content of #0: expected a text, null, or a list of objects",
        ),
        (called(arguments={"city": 1e999}), "line 1: has NaN, Infinity, or a number"),
        ([], "line 1: expected an object, got []"),
    ],
)
def test_mistakes_of_cases(tmp_path, item, text):
    with pytest.raises(UserError) as error:
        read(tmp_path, item)
    assert text in str(error.value)


def test_an_id_comes_twice(tmp_path):
    with pytest.raises(UserError, match="line 5: the id '3' is that of .*: line 3"):
        read(tmp_path, CASE, CASE, CASE | {"id": "3"})


@pytest.mark.parametrize(
    ("description", "text"),
    [
        ([1], "the description of 'city': expected a string, got [1]"),
        (1e999, "the description of 'city': expected a string, got inf"),
    ],
)
def test_mistakes_of_tools(tmp_path, description, text):
    wrong = tool(properties={"city": {"type": "string", "description": description}})
    with pytest.raises(UserError) as error:
        read(tmp_path, CASE, tools=[wrong])
    assert text in str(error.value)


def of_files(tmp_path, properties, name="find_city"):
    case = called(arguments={"city": "Oslo"})
    (tmp_path / "w.json").write_text(
        json.dumps({"tools": [tool(name, properties, ())]})
    )
    found = cases.of_files(read(tmp_path, case), [tmp_path / "w.json"])
    (changed,) = found["w"][0].tools
    return {
        name: one["description"] for name, one in cases.arguments_of(changed).items()
    }


def test_wordings_are_matched_by_name(tmp_path):
    """Arguments in another order keep their texts; new names are matched by place."""
    city = {"type": "string", "description": "the town"}
    unit = {"type": "string", "enum": ["c", "f"], "description": "the scale"}
    wanted = {"city": "the town", "unit": "the scale"}
    assert of_files(tmp_path, {"unit": unit, "city": city}) == wanted
    assert of_files(tmp_path, {"town": city, "scale": unit}, "find_town") == wanted
    with pytest.raises(UserError, match="has other tools or arguments"):
        of_files(tmp_path, {"unit": unit, "town": city})
    with pytest.raises(UserError, match="w.json: has NaN"):
        of_files(tmp_path, {"city": city | {"default": 1e999}, "unit": unit})


def test_two_thousand_tools(tmp_path, judge_network):
    tools = [tool(f"find_{n}") for n in range(2000)]
    with pytest.raises(
        UserError, match="line 1: offers 2,000 tools; .* 128. Name some"
    ):
        read(tmp_path, CASE, tools=tools)
    source = read(tmp_path, CASE | {"tools": ["find_7"]}, tools=tools)
    found = cases.of_sources([source], 2, 0)
    texts = [found[name][0].tools[0]["function"]["description"] for name in found]
    assert texts[0] == "find a city" and len({*texts}) > 1
    assert all(len(found[name][0].tools) == 1 for name in found)


def test_documents_without_tools_and_with_circles(tmp_path):
    with pytest.raises(UserError, match="has no tools"):
        read(tmp_path, CASE, tools=[])
    circle = tool(properties={"city": {"$ref": "#"}})
    source = read(tmp_path, CASE, tools=[circle])
    assert [*cases.arguments_of(source.cases[0].tools[0])] == ["city"]
    lost = tool(properties={"city": {"$ref": "#/nowhere"}})
    with pytest.raises(UserError, match=r"\$ref '#/nowhere' has no target"):
        read(tmp_path, CASE, tools=[lost])


def bfcl(tmp_path, question, answer, name="BFCL_v4_simple.json"):
    (tmp_path / "possible_answer").mkdir(exist_ok=True)
    (tmp_path / name).write_text(json.dumps(question) + "\n")
    if answer is not None:
        (tmp_path / "possible_answer" / name).write_text(json.dumps(answer) + "\n")
    return cases.read(tmp_path / name, None)


def test_bfcl(tmp_path):
    properties = {
        "sides": {
            "type": "tuple",
            "items": {"type": "float"},
            "description": "two sides",
        },
        "box": {
            "type": "dict",
            "properties": {"w": {"type": "any", "description": "width"}},
        },
    }
    parameters = {"type": "dict", "properties": properties, "required": ["sides"]}
    function = {"name": "math.area", "description": "area", "parameters": parameters}
    question = {"id": "simple_0", "question": [USER], "function": [function]}
    truth = [{"math.area": {"sides": [[3, 4.5]], "box": [{"w": [1, ""]}, ""]}}]
    (source,) = bfcl(tmp_path, question, {"id": "simple_0", "ground_truth": truth})
    (case,) = source.cases
    accepted = {"sides": ([3, 4.5],), "box": ({"w": (1, ABSENT, "")}, ABSENT, "")}
    assert case.expected == (Expected("math_area", accepted),)
    told = cases.arguments_of(case.tools[0])
    assert told["sides"]["type"] == "array" and told["sides"]["items"] == {
        "type": "number"
    }
    assert (
        told["box"]["type"] == "object" and "type" not in told["box"]["properties"]["w"]
    )
    with pytest.raises(UserError, match="has no answer to simple_0"):
        bfcl(tmp_path, question, {"id": "simple_1", "ground_truth": truth})
    place = r"possible_answer/BFCL_v4_simple.json: line 1: ground_truth: expected obj"
    for wrong in ([1], [{}], [{"math.area": None}], [truth[0] | {"x": {}}]):
        with pytest.raises(UserError, match=place):
            bfcl(tmp_path, question, {"id": "simple_0", "ground_truth": wrong})
    with pytest.raises(UserError, match="question: expected one turn"):
        bfcl(tmp_path, question | {"question": [USER, USER]}, None)
    question |= {"id": "irrelevance_0"}
    (source,) = bfcl(tmp_path, question, None, "BFCL_v4_irrelevance.json")
    assert source.cases[0].expected == ()


def test_only_the_wanted_cases_of_bfcl_are_read(tmp_path):
    function = {"name": "area", "description": "area", "parameters": {"type": "dict"}}
    lines = [
        {"id": f"irrelevance_{n}", "question": [USER], "function": [function]}
        for n in range(3)
    ]
    path = tmp_path / "BFCL_v4_irrelevance.json"
    path.write_text("\n".join(map(json.dumps, lines)))
    worded = []
    found = cases.read(path, None, None, lambda text: worded.append(text) or text, 2)
    assert [source.cases[0].id for source in found] == [
        "irrelevance_0",
        "irrelevance_1",
    ]
    assert worded == ["area"] * 2
