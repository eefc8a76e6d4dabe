"""T5DST text: golden examples, inversion, malformed answers."""

import pytest

from jaxaug.data.schema import Schema, Service, Slot
from jaxaug.data.sgd import Dialogue, Frame, State, Turn
from jaxaug.formats.t5dst import T5DSTFormatter, T5DSTOptions, parse, slot_of

SERVICE = Service(
    "Events_1",
    "Find events",
    (
        Slot("city", "City of the Event", False, ()),
        Slot("kind", "Kind  of event", True, ("Music", "None", "Team Sports")),
        Slot("seats", "Number of seats", True, ("1", "2")),
    ),
    (),
)


def examples(values, options=None, epoch=0):
    options = options or T5DSTOptions()
    turns = (
        Turn("USER", "Anything in\tOslo?", (Frame("Events_1", None),)),
        Turn("SYSTEM", "What?", ()),
        Turn("USER", "Music", (Frame("Events_1", State("NONE", (), values)),)),
    )
    formatter = T5DSTFormatter(Schema((SERVICE,)), options)
    return list(formatter.dialogue(Dialogue("1_00001", ("Events_1",), turns), epoch))


def test_golden_text():
    found = examples({"city": ("Oslo", "Oslo City"), "kind": ("Music",)})
    context = "[user] anything in oslo? [system] what? [user] music [slot]"
    assert [(item.inputs, item.targets) for item in found] == [
        (f"{context} city of the event", "oslo || oslo city"),
        (f"{context} kind of event a) music b) none c) team sports", "a"),
        (f"{context} number of seats a) 1 b) 2", "none"),
    ]
    assert [slot_of(item.key) for item in found] == ["city", "kind", "seats"]
    assert {(i.dialogue_id, i.turn, i.frame, i.service) for i in found} == {
        ("1_00001", 2, 0, "Events_1")
    }


def test_case_is_kept_where_asked():
    found = examples({"city": ("Oslo",)}, T5DSTOptions(lowercase=False))
    assert found[0].inputs.endswith("[user] Music [slot] City of the Event")
    assert found[0].targets == "Oslo"


KEYS = {slot_of(item.key): item.key for item in examples({})}


@pytest.mark.parametrize(
    ("slot", "text", "values", "malformed"),
    [
        ("city", "none", None, 0),
        ("city", "NONE", None, 0),
        ("city", " new  york ", ("new york",), 0),
        ("city", "a", ("a",), 0),
        ("city", "", None, 1),
        ("city", "oslo ||  || rome", ("oslo", "rome"), 1),
        # One bar is part of a value.
        ("city", "oslo | rome", ("oslo | rome",), 0),
        ("city", "dontcare", ("dontcare",), 0),
        ("kind", "b", ("None",), 0),
        ("kind", "none", None, 0),
        ("kind", "C || a", ("Team Sports", "Music"), 0),
        ("kind", "team sports", ("Team Sports",), 0),
        ("kind", "dontcare", ("dontcare",), 0),
        ("kind", "z", None, 1),
        ("seats", "none", None, 0),
        ("seats", "2", ("2",), 0),
    ],
)
def test_parse(slot, text, values, malformed):
    parsed = parse(text, KEYS[slot])
    assert parsed.slot_values == ({slot: values} if values else {})
    assert parsed.malformed == malformed
    assert (parsed.active_intent, parsed.requested_slots) == ("NONE", ())


def test_the_703rd_option_and_those_behind_it_invert():
    values = tuple(f"value {number}" for number in range(800))
    slot = Slot("kind", "Kind", True, values)
    formatter = T5DSTFormatter(
        Schema((Service("Big_1", "", (slot,), ()),)), T5DSTOptions()
    )
    for place, name in ((701, "zz"), (702, "aaa"), (799, "adt")):
        state = State("NONE", (), {"kind": (values[place],)})
        turn = Turn("USER", "hi", (Frame("Big_1", state),))
        (example,) = formatter.dialogue(Dialogue("1", ("Big_1",), (turn,)))
        assert example.targets == name
        found = parse(example.targets, example.key)
        assert (found.slot_values, found.malformed) == ({"kind": (values[place],)}, 0)
