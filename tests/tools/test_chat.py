"""Chat messages to dialogues, and states to calls of tools."""

import pytest

from jaxaug.core.errors import UserError
from jaxaug.formats.records import Parsed
from jaxaug.tools import chat


def function(name, required=(), **properties):
    parameters = {
        "type": "object",
        "properties": properties,
        "required": list(required),
    }
    function = {"name": name, "description": name, "parameters": parameters}
    return {"type": "function", "function": function}


TEXT = {"type": "string"}
BOOK = function(
    "book",
    ["guest"],
    guest={"type": "object", "properties": {"name": TEXT}, "required": ["name"]},
    rooms={"type": "integer"},
    price={"type": "number"},
    pets={"type": "boolean"},
)
TOOLS = [
    BOOK,
    function("trip__find", ["to"], to=TEXT),
    function("trip__buy", ["to"], to=TEXT, fare=TEXT),
]


def calls(**states):
    return [tuple(one) for one in chat.calls_of(states, *chat.resolved(TOOLS))]


def test_arguments_have_their_types_and_places():
    values = {
        "guest.name": ("Ann",),
        "rooms": ("2",),
        "price": ("9.5",),
        "pets": ("True",),
    }
    wanted = {"guest": {"name": "Ann"}, "rooms": 2, "price": 9.5, "pets": True}
    assert calls(book=Parsed(values)) == [("book", wanted)]
    values |= {"rooms": ("two",), "pets": ("maybe",)}
    assert calls(book=Parsed(values)) == [
        ("book", wanted | {"rooms": "two", "pets": "maybe"})
    ]


def test_a_call_waits_for_its_required_arguments():
    assert calls(book=Parsed({"rooms": ("2",)}), trip=Parsed({})) == []


def test_one_intent_of_a_service_is_called():
    state = {"to": ("Oslo",)}
    assert calls(trip=Parsed(state, "buy")) == [("trip__buy", state_of(state))]
    assert calls(trip=Parsed(state)) == [("trip__find", state_of(state))]
    both = state | {"fare": ("low",)}
    assert calls(trip=Parsed(both)) == [("trip__buy", state_of(both))]


def state_of(values):
    return {name: value for name, (value,) in values.items()}


def test_messages():
    found = chat.dialogue_of(
        [
            {"role": "system", "content": "be kind"},
            {"role": "user", "content": [{"type": "text", "text": "hello"}]},
            {"role": "user", "content": "to Oslo"},
            {"role": "assistant", "content": None, "tool_calls": []},
            {"role": "tool", "content": "{}"},
            {"role": "assistant", "content": "When?"},
            {"role": "user", "content": "today"},
            {"role": "assistant", "content": "Fine."},
        ],
        ["trip"],
    )
    said = [(turn.speaker, turn.utterance, len(turn.frames)) for turn in found.turns]
    assert said == [
        ("USER", "hello to Oslo", 0),
        ("SYSTEM", "When?", 0),
        ("USER", "today", 1),
    ]


@pytest.mark.parametrize(
    ("messages", "text"),
    [
        ("hi", "messages: expected a list"),
        ([{"role": "robot"}], "#0: expected an object with a role of user, assistant"),
        ([{"role": "user", "content": 3}], "#0: content: expected a text, got 3"),
        ([{"role": "system", "content": "x"}], "none is by the user"),
    ],
)
def test_mistakes(messages, text):
    with pytest.raises(UserError, match=text):
        chat.dialogue_of(messages, [])
    with pytest.raises(UserError, match="tools.*the name of a tool: expected a string"):
        chat.resolved([{"type": "function", "function": {"description": "x"}}])
