"""Function calls: golden text, inversion on MiniSGD and SGD, and invalid JSON."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jaxaug.core.errors import UserError
from jaxaug.core.text import clean
from jaxaug.data.schema import Intent, Schema, Service, Slot
from jaxaug.data.sgd import Dialogue, Frame, State, Turn
from jaxaug.formats.json_tools import JSONFormatter, JSONOptions, parse, signature
from jaxaug.formats.records import Parsed

SERVICE = Service(
    "Events_1", "Find events",
    (Slot("city", "City of the event", False, ()),
     Slot("kind", "Kind of event", True, ("Music", "Team Sports")),
     Slot("seats", 'Number of "seats"', True, ("1", "2")),
     Slot("price", "What it costs", False, ())),
    (Intent("Find", "find one", False, ("city",), (("kind", "dontcare"),), ()),
     Intent("Buy", "Buy tickets", True, ("city", "seats"), (), ())),
)  # fmt: skip
OPTIONS = JSONOptions()
INTENTS = JSONOptions(level="dst_intent", lowercase=False)


def example(values, options=OPTIONS, intent="Buy", requested=(), epoch=0):
    state = State(intent, requested, values)
    turns = (
        Turn("USER", "Anything in\tOslo?", (Frame("Events_1", None),)),
        Turn("SYSTEM", "What?", ()),
        Turn("USER", "Music", (Frame("Events_1", state),)),
    )
    formatter = JSONFormatter(Schema((SERVICE,)), options)
    (found,) = formatter.dialogue(Dialogue("1_00001", ("Events_1",), turns), epoch)
    return found


def test_golden_text():
    found = example({"kind": ("Music",), "city": ("Oslo", "Osló  City")})
    assert found.inputs == (
        '[{"type": "function", "function": {"name": "Events_1", "description": '
        '"find events", "parameters": {"type": "object", "properties": {"city": '
        '{"type": "string", "description": "city of the event"}, "kind": {"type": '
        '"string", "description": "kind of event", "enum": ["music", "team sports"]}, '
        '"seats": {"type": "string", "description": "number of \\"seats\\"", "enum": '
        '["1", "2"]}, "price": {"type": "string", "description": "what it costs"}}}}}] '
        "[user] anything in oslo? [system] what? [user] music"
    )
    assert found.targets == (
        '{"name": "Events_1", "arguments": {"city": ["oslo", "osló city"], '
        '"kind": "music"}}'
    )
    assert (found.dialogue_id, found.turn, found.frame) == ("1_00001", 2, 0)
    parsed = parse(found.targets, found.key)
    assert parsed.slot_values == {"city": ("oslo", "osló city"), "kind": ("Music",)}
    assert parsed.malformed == 0


def test_golden_text_with_intents():
    found = example({"seats": ("2",)}, INTENTS, requested=("price", "city"))
    tools, rest = json.JSONDecoder().raw_decode(found.inputs)
    assert found.inputs[rest:].startswith(" [user] Anything in Oslo?")
    functions = {tool["function"]["name"]: tool["function"] for tool in tools}
    assert list(functions) == ["Find", "Buy"]
    assert functions["Buy"]["description"] == "Buy tickets"
    assert functions["Buy"]["parameters"] == {
        "type": "object",
        "properties": {
            "city": {"type": "string", "description": "City of the event"},
            "seats": {
                "type": "string",
                "description": 'Number of "seats"',
                "enum": ["1", "2"],
            },
        },
        "required": ["city", "seats"],
    }
    assert found.targets == (
        '{"name": "Buy", "arguments": {"seats": "2"}, "requested": ["city", "price"]}'
    )
    parsed = parse(found.targets, found.key)
    assert (parsed.active_intent, parsed.requested_slots) == ("Buy", ("city", "price"))
    none = example({}, INTENTS, intent="NONE")
    assert none.targets == '{"name": "NONE", "arguments": {}, "requested": []}'
    assert parse(none.targets, none.key) == Parsed({})


def test_signature():
    assert signature(example({}).key) == (
        ("Events_1",),
        {
            "city": (),
            "kind": ("music", "team sports"),
            "seats": ("1", "2"),
            "price": (),
        },
        False,
    )
    assert signature(example({}, INTENTS).key).names == ("Find", "Buy", "NONE")


KEY, KEY_INTENTS = example({}).key, example({}, INTENTS).key
OSLO = {"city": ("oslo",)}


@pytest.mark.parametrize(
    ("text", "values", "malformed"),
    [
        ('{"name": "Events_1", "arguments": {"city": "oslo"}}', OSLO, 0),
        ('<tool_call>\n{"name":"Events_1","arguments":{"city":" oslo"}}\n</tool_call>',
         OSLO, 0),
        ('sure: {"name": "Events_1", "arguments": {"city": "oslo"}} done', OSLO, 2),
        ('{"arguments": {"city": "oslo"}}', OSLO, 1),
        ('{"name": "Hotels_1", "arguments": {"city": "oslo"}, "x": 1}', OSLO, 2),
        ('{"name": "Events_1", "arguments": {"city": "oslo", "city": "rome"}}',
         OSLO, 1),
        ('{"name": "Events_1", "arguments": {"city": "oslo", "town": "rome"}}',
         OSLO, 1),
        ('{"name": "Events_1", "arguments": {"seats": 2, "kind": "MUSIC"}}',
         {"seats": ("2",), "kind": ("Music",)}, 0),
        ('{"name": "Events_1", "arguments": {"kind": "dontcare", "city": null}}',
         {"kind": ("dontcare",)}, 0),
        ('{"name": "Events_1", "arguments": {"city": {"a": 1}, "kind": ["", [1]]}}',
         {}, 3),
        ('{"name": "Events_1", "arguments": ["city"]}', {}, 1),
        ('{"name": ["Events_1"], "arguments": {}}', {}, 1),
        # Truncated, not JSON, not an object.
        ('{"name": "Events_1", "arguments": {"city": "oslo"', {}, 1),
        ('{"name": "Events_1", "arguments": {"city": NaN}}', {}, 1),
        ("[states] 0=oslo", {}, 1),
        ("{" * 5000, {}, 1),
        ('{"name": ' + "[" * 100_000, {}, 1),
        ("", {}, 1),
        ('["city"]', {}, 1),
    ],
)  # fmt: skip
def test_answers(text, values, malformed):
    parsed = parse(text, KEY)
    assert (dict(parsed.slot_values), parsed.malformed) == (values, malformed)


def test_answers_with_intents():
    text = '{"name": "Fly", "arguments": {}, "requested": ["city", "city", "x", 3]}'
    parsed = parse(text, KEY_INTENTS)
    assert (parsed.active_intent, parsed.requested_slots) == ("NONE", ("city",))
    assert parsed.malformed == 4
    assert parse('{"name": "Buy", "arguments": {}}', KEY_INTENTS).malformed == 1


@given(
    st.dictionaries(
        st.sampled_from(["city", "price"]),
        st.lists(
            st.text(st.characters(exclude_categories=("Cs",)), min_size=1).filter(
                lambda text: clean(text, False) == text
            ),
            min_size=1,
            max_size=3,
        ).map(tuple),
    )
)
def test_any_value_returns(values):
    found = example(values, INTENTS)
    parsed = parse(found.targets, found.key)
    assert (parsed.slot_values, parsed.malformed) == (values, 0)


@pytest.mark.parametrize("wrong", [{"level": "state"}, {"order": "random"}])
def test_options_without_sense(wrong):
    with pytest.raises(UserError, match=r"^--\w+ is '\w+': give one of "):
        JSONOptions(**wrong)
