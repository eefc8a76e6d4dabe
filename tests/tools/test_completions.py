"""Chat completions with tools, and several dialogues a request."""

import json

import pytest
from starlette.testclient import TestClient

from jaxaug.formats.records import Parsed
from jaxaug.serve import app, wordings
from jaxaug.tools import chat as chat_of_tools
from jaxaug.tools.cases import read_dialogues
from jaxaug.tools.models import TrackerModel, parsed
from jaxaug.track.answers import FrameState, Prediction
from jaxaug.track.tracker import Tracker

TOOL = {
    "type": "function",
    "function": {
        "name": "book",
        "description": "book a table",
        "parameters": {
            "type": "object",
            "required": ["place"],
            "properties": {"place": {"type": "string"}, "people": {"type": "integer"}},
        },
    },
}
LONG = TOOL | {"function": TOOL["function"] | {"description": "x" * 2000}}
USER = {"role": "user", "content": "Roma, for 2"}


class Booker(Tracker):
    """Fills the slots of every service with the same values."""

    def __init__(self, schema, values):
        self.schema, self.values = schema, values

    def predict_all(self, dialogues, write=None):
        return [
            Prediction(
                one,
                tuple(
                    FrameState(number, frame.service, Parsed(self.values), {})
                    for number, turn in enumerate(one.turns)
                    for frame in turn.frames
                ),
            )
            for one in dialogues
        ]


def chat(sgd_tree, values, **body):
    known = wordings.read(None, sgd_tree, 1000)
    web = TestClient(app.build(Booker(known.original, values), known))
    return web.post("/v1/chat/completions", json={"model": "any", **body})


def test_an_agent_gets_calls(sgd_tree):
    values = {"place": ("Roma",), "people": ("2",)}
    found = chat(sgd_tree, values, messages=[USER], tools=[TOOL], temperature=0).json()
    (choice,) = found["choices"]
    assert (found["object"], choice["finish_reason"]) == (
        "chat.completion",
        "tool_calls",
    )
    (call,) = choice["message"]["tool_calls"]
    assert call["type"] == "function" and call["function"]["name"] == "book"
    assert json.loads(call["function"]["arguments"]) == {"place": "Roma", "people": 2}
    assert parsed(choice["message"]).calls[0].arguments == {
        "place": "Roma",
        "people": 2,
    }


def test_no_call_without_required_arguments_or_after_a_result(sgd_tree):
    values = {"people": ("2",)}
    done = [USER, {"role": "tool", "content": "booked", "tool_call_id": "call_1"}]
    older = [USER, {"role": "function", "content": "booked", "name": "book"}]
    filled = {"place": ("Roma",)}
    for given, messages in ((values, [USER]), (filled, done), (filled, older)):
        found = chat(sgd_tree, given, messages=messages, tools=[TOOL]).json()
        (choice,) = found["choices"]
        assert choice["finish_reason"] == "stop" and choice["message"]["content"] == ""


@pytest.mark.parametrize(
    ("body", "text"),
    [
        ({"tools": []}, "tools: is missing or empty"),
        ({"stream": True}, "stream: answers come whole"),
        ({"messages": None}, "messages: expected a list of objects, got None"),
        ({"tools": [LONG]}, "a description of 2000 characters"),
        ({"tools": [5]}, 'Write a tool as {"type": "function"'),
        ({"tools": [{"type": "web_search"}]}, "none is a function"),
    ],
)
def test_mistakes(sgd_tree, body, text):
    answer = chat(sgd_tree, {}, **{"messages": [USER], "tools": [TOOL]} | body)
    assert answer.status_code == 400 and text in answer.json()["error"]["message"]


def test_served_values_have_the_declared_type(sgd_tree):
    """A tool without a type is a function, too."""
    size = {"type": "integer"}
    lines = {"type": "array", "items": {"type": "object", "properties": {"n": size}}}
    properties = {
        "price": {"type": "number"},
        "sizes": {"type": "array", "items": size},
        "lines": lines,
        "city": {"type": "string"},
    }
    schema = {"type": "object", "properties": properties}
    tool = {"type": None, "function": {"name": "find", "parameters": schema}}

    def served(**values):
        told = {name: (text,) for name, text in values.items()}
        answer = chat(sgd_tree, told, messages=[USER], tools=[tool]).json()
        call = answer["choices"][0]["message"]["tool_calls"][0]["function"]
        return json.loads(call["arguments"])

    right = {"price": "2.5", "sizes": "[1, 2]", "lines": '[{"n": 1}]', "city": "Roma"}
    made = {"price": 2.5, "sizes": [1, 2], "lines": [{"n": 1}], "city": "Roma"}
    assert served(**right) == made
    wrong = {"price": "nan", "sizes": '[1, "b"]', "lines": '[{"n": "b"}]'}
    assert served(**right | wrong) == {"city": "Roma"}


def tracker_questions(tracker, case):
    schema = chat_of_tools.resolved(list(case.tools))[0]
    names = [one.name for one in schema.services]
    dialogue = chat_of_tools.dialogue_of(list(case.messages), names)
    return tracker.about(schema)._questions([dialogue], schema)


def test_answers_are_those_of_the_tracker(trained):
    run, data = trained
    known = wordings.read(None, data, 1000)
    tracker = Tracker.load(run, known.original)
    web = TestClient(app.build(tracker, known))
    case = read_dialogues(data, "test").cases[0]
    asked = {"messages": case.messages, "tools": case.tools}
    answer = web.post("/v1/chat/completions", json=asked).json()
    found, usage = answer["choices"][0]["message"], answer["usage"]
    inputs = [one for _, _, one in tracker_questions(tracker, case)]
    assert usage["prompt_tokens"] == sum(map(len, inputs)) > 0
    outputs = [sum(map(bool, one)) for one in tracker.write_tokens(inputs)]
    assert usage["completion_tokens"] == sum(outputs)
    assert usage["total_tokens"] == sum(map(len, inputs)) + sum(outputs)
    (reply,) = TrackerModel(tracker)([case])
    assert parsed(found).calls == reply.calls
