"""The client `openai` against a running server."""

import json

import jsonschema
import openai
import pytest
from starlette.testclient import TestClient

from jaxaug.core.errors import UserError
from jaxaug.serve import app, reading, wordings
from tests.serve.test_app import client as client_of
from tests.support.served import served
from tests.tools.test_completions import TOOL, USER, Booker

INT = {"type": "integer"}
NAMED = {"type": "function", "function": {"name": "find"}}


def tool(name, /, required=(), **properties):
    parameters = {"type": "object", "properties": properties}
    parameters |= {"required": list(required)}
    function = {"name": name, "description": "do it", "parameters": parameters}
    return {"type": "function", "function": function}


@pytest.fixture
def served_client(sgd_tree):
    """Returns a client of a server that fills each slot `n` with 2."""
    known = wordings.read(None, sgd_tree, 1000)
    web = app.build(Booker(known.original, {"n": ("2",)}), known)
    with served(web) as url:
        yield openai.OpenAI(base_url=f"{url}/v1", api_key="any", max_retries=0)


def ask(one, **more):
    more = {"tools": [tool("book", n=INT), tool("find", n=INT)]} | more
    return one.chat.completions.create(model="tracker", messages=[USER], **more)


def names(choice):
    return [one.function.name for one in choice.message.tool_calls or ()]


@pytest.mark.parametrize(
    ("fields", "found"),
    [
        ({}, ["book", "find"]),
        ({"tool_choice": "auto"}, ["book", "find"]),
        ({"tool_choice": "none"}, []),
        ({"tool_choice": "required"}, ["book", "find"]),
        ({"tool_choice": NAMED}, ["find"]),
        ({"parallel_tool_calls": False}, ["book"]),
        ({"tools": [tool("a", ["x"], n=INT, x=INT)]}, []),
        ({"tools": [tool("a", ["x"], n=INT, x=INT)], "tool_choice": "required"}, ["a"]),
        ({"tools": [tool("a", x=INT), tool("b", n=INT)], "tool_choice": "required"},
         ["b"]),
        ({"tools": [{"type": "web_search"}, tool("a", n=INT)]}, ["a"]),
        ({"tools": [{"type": "custom", "custom": {"name": "c"}}, tool("a", n=INT)]},
         ["a"]),
        ({"tool_choice": {"type": "allowed_tools", "allowed_tools": {
            "mode": "auto", "tools": [NAMED]}}}, ["find"]),
    ],
)  # fmt: skip
def test_choices_of_tools(served_client, fields, found):
    answer = ask(served_client, n=2, **fields)
    assert [names(one) for one in answer.choices] == [found, found]
    assert [one.index for one in answer.choices] == [0, 1]
    reason = "tool_calls" if found else "stop"
    assert answer.choices[0].finish_reason == reason
    assert answer.usage.total_tokens == 0  # This tracker reads no tokens.


def test_the_older_form(served_client):
    functions = [one["function"] for one in (tool("book", n=INT), tool("find", n=INT))]
    given = {"functions": functions, "function_call": {"name": "find"}}
    (choice,) = ask(served_client, tools=openai.omit, **given).choices
    called = choice.message.function_call
    assert (choice.finish_reason, called.name) == ("function_call", "find")
    assert json.loads(called.arguments) == {"n": 2}


@pytest.mark.parametrize(
    ("fields", "text"),
    [
        ({"tool_choice": {"type": "function", "function": {"name": "fnd"}}},
         "tool_choice: 'fnd' is no function of the request; did you mean 'find'?"),
        ({"tool_choice": "always"}, "tool_choice: expected auto, none, required"),
        ({"tool_choice": {"type": "function"}}, "tool_choice: expected auto"),
        ({"n": 0}, "n: expected a number from 1 to 128, got 0"),
        ({"tools": [{"type": "web_search"}]}, "tools"),
        ({"tools": []}, "tools: is missing or empty"),
        ({"stream": True}, "stream: answers come whole"),
    ],
)  # fmt: skip
def test_wrong_requests(served_client, fields, text):
    with pytest.raises(openai.BadRequestError) as error:
        ask(served_client, **fields)
    assert text in error.value.body["message"]


def test_models(served_client):
    assert [one.id for one in served_client.models.list()] == ["tracker"]
    assert served_client.models.retrieve("tracker").owned_by == "jaxaug"
    with pytest.raises(openai.NotFoundError) as error:
        served_client.models.retrieve("other")
    assert error.value.body["message"] == "Not Found"


@pytest.mark.parametrize(
    ("method", "path", "status", "fields"),
    [
        ("GET", "/v1/none", 404, {}),
        ("GET", "/v1", 404, {}),
        ("GET", "/v1/chat/completions", 405, {}),
        ("POST", "/v1/models", 405, {}),
        ("POST", "/v1/chat/completions", 415, {"content": b"{}"}),
        ("POST", "/v1/chat/completions", 413, {"json": "x" * 300_000}),
        ("POST", "/v1/chat/completions", 400, {"json": []}),
        ("GET", "/v1/models", 400, {"headers": {"host": "evil.example"}}),
    ],
)
def test_every_error_has_the_form_of_openai(sgd_tree, method, path, status, fields):
    web, _ = client_of(sgd_tree, hosts=["testserver"])
    answer = web.request(method, path, **fields)
    assert answer.status_code == status
    error = answer.json()["error"]
    assert error["message"] and error["type"] == "invalid_request_error"


def test_a_defect_has_the_form_of_openai(sgd_tree, monkeypatch):
    monkeypatch.setattr(reading, "read", lambda *_: 1 / 0)
    web, _ = client_of(sgd_tree, raise_server_exceptions=False)
    answer = web.post("/v1/chat/completions", json={})
    assert (answer.status_code, answer.json()["error"]["type"]) == (500, "server_error")


ADDRESS = {
    "type": "object",
    "properties": {"zip": INT, "geo": {"$ref": "#/$defs/geo"}},
}
KINDS = {
    "n": {"anyOf": [INT, {"type": "null"}]}, "size": {"enum": [1, 2, 3]},
    "home": {"$ref": "#/$defs/address"}, "user.name": {"type": "string"},
    "is_open": {"type": ["boolean", "null"]}, "tags": {"type": "array", "items": INT},
    "stops": {"type": "array", "items": {"$ref": "#/$defs/address"}},
    "城市": {"type": "string"}, "any": INT,
}  # fmt: skip
VALUES = {
    "n": ("2",), "size": ("3",), "home.zip": ("12",), "home.geo.lat": ("5.5",),
    "user_name": ("bob",), "is_open": ("True",), "tags": ("7",),
    "stops[].zip": ("9",), "城市": ("北京",), "any": ("dontcare",),
}  # fmt: skip


@pytest.mark.parametrize("name", ["a.b", "a-b", "天气", "x" * 80])
def test_calls_fit_the_schema_of_the_request(sgd_tree, name):
    given = tool(name, **KINDS)
    parameters = given["function"]["parameters"]
    geo = {"type": "object", "properties": {"lat": {"type": "number"}}}
    parameters["$defs"] = {"address": ADDRESS, "geo": geo}
    known = wordings.read(None, sgd_tree, 1000)
    web = TestClient(app.build(Booker(known.original, VALUES), known))
    body = {"messages": [USER], "tools": [given]}
    answer = web.post("/v1/chat/completions", json=body).json()
    (call,) = answer["choices"][0]["message"]["tool_calls"]
    arguments = json.loads(call["function"]["arguments"])
    jsonschema.validate(arguments, parameters)
    assert call["function"]["name"] == name
    assert arguments == {
        "n": 2, "size": 3, "home": {"zip": 12, "geo": {"lat": 5.5}},
        "user.name": "bob", "is_open": True, "tags": [7], "stops": [{"zip": 9}],
        "城市": "北京",
    }  # fmt: skip


@pytest.mark.parametrize("limits", [(0.02, 1 << 30), (60.0, 8 << 20)])
def test_reading_tools_has_limits(limits):
    """Many properties take time, a long body takes memory."""
    many = {f"p{i}": {"type": "string"} for i in range(150)}
    tools = [tool(f"t{i}", **many) for i in range(100)]
    body = json.dumps({"messages": [USER], "tools": tools}).encode()
    body += b" " * (0 if limits[0] < 1 else 20 << 20)
    with pytest.raises(UserError, match="reading them takes more than"):
        reading.read(body, *limits)
    body = json.dumps({"messages": [USER], "tools": [TOOL]}).encode()
    assert reading.read(body, 60, 1 << 30).tools[0].name == "book"
