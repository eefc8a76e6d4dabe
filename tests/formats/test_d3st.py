"""D3ST text: golden examples, inversion, and malformed answers."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jaxaug.core.errors import UserError
from jaxaug.data import sgd
from jaxaug.data.schema import Intent, Service, Slot
from jaxaug.data.sgd import Dialogue, Frame, State, Turn
from jaxaug.formats.d3st import D3STFormatter, D3STOptions, parse
from tests.support.one_frame import format_frame

SERVICE = Service(
    "Events_1", "Find events",
    (Slot("city", "City  of\tthe Event", False, ()),
     Slot("kind", "Kind of event", True, ("Music", "Team Sports")),
     Slot("seats", "Number of seats", True, ("1", "2")),
     Slot("price", "Price of a seat", False, ())),
    (Intent("FindEvents", "Find events in a city", False, (), (), ()),
     Intent("BuyTickets", "Buy tickets", True, (), (), ())),
)  # fmt: skip


def dialogue(state: State, *more: Turn) -> Dialogue:
    turns = (
        Turn("USER", "Anything in  New York?\n", (Frame("Events_1", None),)),
        Turn("SYSTEM", "Music or Sports?", (Frame("Events_1", None),)),
        Turn("USER", "Music, please", (Frame("Events_1", state),)),
    )
    return Dialogue("7_00001", ("Events_1",), turns + more)


STATE = State(
    "BuyTickets",
    ("price", "city"),
    {
        "seats": ("2",),
        "kind": ("Music", "Team Sports"),
        "city": ("New York", "NYC"),
    },
)
CONTEXT = "[user] anything in new york? [system] music or sports? [user] music, please"


WITH_OPTIONS = (
    "0=city of the event 1=kind of event 1a) music 1b) team sports "
    "2=number of seats 3=price of a seat i0=find events in a city "
    f"i1=buy tickets {CONTEXT}"
)
PLAIN = (
    "0:City of the Event 1:Kind of event 2:Number of seats 3:Price of a seat "
    "i0:Find events in a city i1:Buy tickets [user] Anything in New York? "
    "[system] Music or Sports? [user] Music, please"
)
GOLDEN = [
    ({}, WITH_OPTIONS,
     "[states] 0=new york | nyc 1=1a | 1b 2=2 [intents] i1 [req_slots] 3 0"),
    ({"categorical": "a", "level": "dst"},
     WITH_OPTIONS.replace("1a)", "a)").replace("1b)", "b)"),
     "[states] 0=new york | nyc 1=1a | 1b 2=2"),
    ({"categorical": "none", "delimiter": ":", "lowercase": False}, PLAIN,
     ("[states] 0:New York | NYC 1:Music | Team Sports 2:2 [intents] i1 "
     "[req_slots] 3 0")),
]  # fmt: skip


@pytest.mark.parametrize(("options", "inputs", "targets"), GOLDEN)
def test_golden_text(options, inputs, targets):
    example = format_frame(dialogue(STATE), 2, 0, SERVICE, D3STOptions(**options))
    assert example.inputs == inputs
    assert example.targets == targets
    assert (example.dialogue_id, example.turn, example.frame) == ("7_00001", 2, 0)
    assert example.service == "Events_1"


def test_golden_shuffled_text():
    options = D3STOptions(order="shuffled")
    example = format_frame(dialogue(STATE), 2, 0, SERVICE, options, epoch=1)
    assert example.inputs == (
        "0=kind of event 0a) team sports 0b) music 1=city of the event "
        "2=price of a seat 3=number of seats i0=find events in a city "
        f"i1=buy tickets {CONTEXT}"
    )
    assert example.targets == (
        "[states] 0=0b | 0a 1=new york | nyc 3=2 [intents] i1 [req_slots] 2 1"
    )


def test_empty_state_keeps_the_markers_and_dontcare_is_a_value():
    nothing = State("NONE", (), {})
    example = format_frame(dialogue(nothing), 2, 0, SERVICE, D3STOptions())
    assert example.targets == "[states] [intents] [req_slots]"
    anything = State("NONE", (), {"kind": ("dontcare",)})
    example = format_frame(dialogue(anything), 2, 0, SERVICE, D3STOptions())
    assert example.targets == "[states] 1=dontcare [intents] [req_slots]"
    assert parse(example.targets, example.key).slot_values == {"kind": ("dontcare",)}


def test_short_prompts_hold_a_random_choice_of_slots():
    sizes, chosen = set(), set()
    for epoch in range(40):
        options = D3STOptions(order="shuffled", max_items=(1, 2))
        example = format_frame(dialogue(STATE), 2, 0, SERVICE, options, epoch)
        names = [name for name, _ in json.loads(example.key)["slots"]]
        sizes.add(len(names))
        chosen.update(names)
        parsed = parse(example.targets, example.key)
        assert parsed.malformed == 0
        assert set(parsed.slot_values) == set(names) & set(STATE.slot_values)
        assert parsed.requested_slots == tuple(
            name for name in STATE.requested_slots if name in names
        )
        assert example.inputs.count("=") == len(names) + 2
    assert sizes == {1, 2}
    assert chosen == {"city", "kind", "seats", "price"}


def test_a_short_prompt_of_more_slots_than_there_are_is_the_whole_one():
    options = D3STOptions(max_items=(9, 9))
    short = format_frame(dialogue(STATE), 2, 0, SERVICE, options)
    assert short == format_frame(dialogue(STATE), 2, 0, SERVICE, D3STOptions())


@pytest.mark.parametrize("number", [30, 18_300])
def test_more_than_26_options_get_more_letters(number):
    values = tuple(f"value {place}" for place in range(number))
    service = Service("Big_1", "", (Slot("x", "thing", True, values),), ())
    turn = Turn("USER", "hi", (Frame("Big_1", State("NONE", (), {"x": values})),))
    example = format_frame(
        Dialogue("1", ("Big_1",), (turn,)), 0, 0, service, D3STOptions()
    )
    assert " 0z) value 25 0aa) value 26 " in example.inputs
    assert parse(example.targets, example.key).slot_values == {"x": values}
    # A letter after the last option is an unlisted value.
    unlisted = parse("[states] 0=0zzzzzz", example.key)
    assert unlisted.slot_values == {"x": ("0zzzzzz",)}


KEY = format_frame(dialogue(STATE), 2, 0, SERVICE, D3STOptions()).key


@pytest.mark.parametrize(
    ("text", "slots", "intent", "requested", "malformed"),
    [
        ("", {}, "NONE", (), 1),
        ("complete nonsense", {}, "NONE", (), 2),
        ("0=paris 2=1", {"city": ("paris",), "seats": ("1",)}, "NONE", (), 1),
        ("[states] 0=paris 0=rome", {"city": ("paris",)}, "NONE", (), 1),
        ("[states] 9=paris 3=5 euros", {"price": ("5 euros",)}, "NONE", (), 1),
        ("[states] 0= 3=5", {"price": ("5",)}, "NONE", (), 1),
        ("[states] 1=1z", {}, "NONE", (), 1),
        ("[states] 1=2a", {}, "NONE", (), 1),
        ("[states] 1=1B", {"kind": ("Team Sports",)}, "NONE", (), 0),
        ("[states] 1=team  sports", {"kind": ("Team Sports",)}, "NONE", (), 0),
        ("[states] 1=opera", {"kind": ("opera",)}, "NONE", (), 0),
        ("[states] 1=1a | 1z", {"kind": ("Music",)}, "NONE", (), 1),
        ("so [states] 0=paris", {"city": ("paris",)}, "NONE", (), 1),
        ("[states] so 0=paris", {"city": ("paris",)}, "NONE", (), 1),
        ("[states] [intents] i1 i0", {}, "BuyTickets", (), 1),
        ("[states] [intents] i7 x", {}, "NONE", (), 2),
        ("[states] [req_slots] 3 x 9 -1 ²", {}, "NONE", ("price",), 4),
        ("[req_slots] 0 [states] 0=a [states] 3=b", {"city": ("a",)}, "NONE", ("city",),
         1),
        ("[states] 9=x 0=a 1=9b [intents] i9 [req_slots] 9".replace("9", "9" * 5000),
         {"city": ("a",)}, "NONE", (), 4),
        ("[STATES] 0=a [Intents] I1", {"city": ("a",)}, "BuyTickets", (), 0),
        ("[states] 0=a=b 3=1=2", {"city": ("a=b",), "price": ("1=2",)}, "NONE", (), 0),
    ],
)  # fmt: skip
def test_malformed_answers(text, slots, intent, requested, malformed):
    parsed = parse(text, KEY)
    assert parsed.slot_values == slots
    assert parsed.active_intent == intent
    assert parsed.requested_slots == requested
    assert parsed.malformed == malformed


def test_no_item_begins_behind_the_bar_between_values():
    state = State("NONE", (), {"city": ("11:30", "1:30 pm")})
    options = D3STOptions(delimiter=":", categorical="none")
    example = format_frame(dialogue(state), 2, 0, SERVICE, options)
    assert example.targets == "[states] 0:11:30 | 1:30 pm [intents] [req_slots]"
    assert parse(example.targets, example.key).slot_values == state.slot_values


PIECES = [
    "[states]", "[intents]", "[req_slots]", "0=", "1=1a", "i1", "3", "|", " ", "x",
]  # fmt: skip


@given(st.lists(st.sampled_from(PIECES), max_size=12).map(" ".join))
def test_parse_counts_malformed_parts(text):
    parsed = parse(text, KEY)
    values = sum(map(len, parsed.slot_values.values()))
    used = values + len(parsed.requested_slots) + (parsed.active_intent != "NONE")
    assert parsed.malformed >= 0
    if not used and text.strip() and "[states]" not in text:
        assert parsed.malformed > 0


# Values that the text can express: no markers, bars, or indices inside.
WORDS = st.text(
    st.characters(categories=["L", "N"], exclude_characters="="), min_size=1
)
VALUES = st.lists(WORDS, min_size=1, max_size=3).map(" ".join)


@st.composite
def services(draw):
    names = draw(st.lists(WORDS, min_size=1, max_size=5, unique=True))
    slots = []
    for name in names:
        options = draw(st.lists(VALUES, max_size=4, unique_by=str.lower))
        slots.append(Slot(name, draw(VALUES), bool(options), tuple(options)))
    intents = draw(st.lists(WORDS, max_size=3, unique=True))
    return Service(
        "S_1",
        "",
        tuple(slots),
        tuple(
            Intent(name, name, False, (), (), ()) for name in intents if name != "NONE"
        ),
    )


def test_options_of_digits_as_in_figure_2a():
    slots = (
        Slot("seats", "Number of seats", True, ("1", "2", "4")),
        Slot("kind", "Kind of ride", True, ("Pool", "Regular")),
    )
    state = State("NONE", (), {"seats": ("4",), "kind": ("Pool",)})
    subject = Dialogue("1", ("S_1",), (Turn("USER", "hi", (Frame("S_1", state),)),))
    service = Service("S_1", "", slots, ())
    found = {
        style: format_frame(
            subject, 0, 0, service, D3STOptions(level="dst", **style_of)
        )
        for style, style_of in {
            "google": {},
            "figure": {"categorical": "a", "digit_options": True},
        }.items()
    }
    assert found["google"].inputs == (
        "0=number of seats 1=kind of ride 1a) pool 1b) regular [user] hi"
    )
    assert found["google"].targets == "[states] 0=4 1=1a"
    assert found["figure"].inputs == (
        "0=number of seats a) 1 b) 2 c) 4 1=kind of ride a) pool b) regular [user] hi"
    )
    assert found["figure"].targets == "[states] 0=0c 1=1a"
    for example in found.values():
        assert parse(example.targets, example.key).slot_values == state.slot_values


@given(st.data())
def test_parse_inverts_format(data):
    service = data.draw(services())
    names = [slot.name for slot in service.slots]
    values = {}
    for slot in service.slots:
        choice = (
            st.sampled_from(slot.possible_values) if slot.is_categorical else VALUES
        )
        values[slot.name] = tuple(data.draw(st.lists(choice, max_size=2)))
    values = {name: items for name, items in values.items() if items}
    state = State(
        data.draw(st.sampled_from([i.name for i in service.intents] + ["NONE"])),
        tuple(data.draw(st.lists(st.sampled_from(names), max_size=3))),
        values,
    )
    options = D3STOptions(
        delimiter=data.draw(st.sampled_from(["=", ":", "->"])),
        level=data.draw(st.sampled_from(["dst", "dst_intent"])),
        categorical=data.draw(st.sampled_from(["1a", "a", "none"])),
        order=data.draw(st.sampled_from(["schema", "shuffled"])),
        lowercase=data.draw(st.booleans()),
        digit_options=data.draw(st.booleans()),
    )
    turn = Turn("USER", "hi", (Frame("S_1", state),))
    subject = Dialogue("1", ("S_1",), (turn,))
    example = format_frame(subject, 0, 0, service, options)
    parsed = parse(example.targets, example.key)
    assert parsed.malformed == 0
    free = {
        slot.name
        for slot in service.slots
        if all(value.isdigit() for value in slot.possible_values)
        and not (options.digit_options and slot.possible_values)
    }
    assert parsed.slot_values == {
        name: tuple(
            value.lower() if options.lowercase and name in free else value
            for value in items
        )
        for name, items in values.items()
    }
    if options.level == "dst_intent":
        assert parsed.active_intent == state.active_intent
        assert parsed.requested_slots == state.requested_slots


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"level": "all"}, "level is 'all': give one of dst_intent, dst"),
        ({"categorical": "b"}, "categorical is 'b': give one of 1a, a, none"),
        ({"delimiter": " "}, "delimiter=' ': use one or more characters"),
        ({"delimiter": "a"}, "delimiter='a': use one or more characters"),
        ({"max_items": (2, 1)}, r"max_items=\(2, 1\): use \(lo, hi\) with 1 <= lo"),
    ],
)
def test_wrong_options(options, message):
    with pytest.raises(UserError, match=message):
        D3STOptions(**options)


def test_each_frame_gets_its_own_service(sgd_tree):
    schema = sgd.read_schema_of(sgd_tree, "test", "v2")
    formatter = D3STFormatter(schema, D3STOptions())
    first = next(sgd.read_dialogues(sgd_tree, "test", "v2"))
    parks, trains = formatter.dialogue(first)
    context = "[user] a park for a picnic, and a train there"
    assert parks.inputs == (
        "0=name of the park (wording 2) 1=what to do in the park (wording 2) "
        "1a) picnic 1b) run i0=look for a park " + context
    )
    # The second wording of the value is not among the options, so it is written out.
    assert parks.targets == "[states] 1=1a | a picnic [intents] i0 [req_slots] 0"
    assert trains.service == "Trains_12"
    assert (trains.turn, trains.frame) == (0, 1)
    assert trains.targets == "[states] [intents] [req_slots]"
