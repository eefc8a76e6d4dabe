"""SDT-ind text: golden examples, shown turns, inversion, and invalid input."""

import dataclasses

import pytest

from jaxaug.core.errors import UserError
from jaxaug.data.demonstrations import Demonstration
from jaxaug.data.schema import Schema
from jaxaug.data.sgd import Dialogue, Frame, State, Turn
from jaxaug.formats.sdt import SDTIndFormatter, SDTIndOptions, said_in
from jaxaug.formats.t5dst import slot_of
from tests.formats.test_t5dst import SERVICE

SHOWN = Demonstration(
    "Events_1",
    (("USER", "A  match"), ("SYSTEM", "In Rome?"), ("USER", "Yes"),
     ("SYSTEM", "How many?"), ("USER", "Just 1, not 12 for $2,500")),
    (("city", "Rome"), ("seats", "1")), "NONE",
)  # fmt: skip
OPTIONS = SDTIndOptions(demonstrations=(SHOWN,))


def examples(values, options=OPTIONS, epoch=0):
    frame = Frame("Events_1", State("NONE", (), values))
    dialogue = Dialogue("1_1", ("Events_1",), (Turn("USER", "Music", (frame,)),))
    return list(SDTIndFormatter(Schema((SERVICE,)), options).dialogue(dialogue, epoch))


def test_golden_text():
    found = examples({"city": ("Oslo", "Oslo City"), "kind": ("Team Sports",)})
    context = "[context] [user] music"
    assert [(item.inputs, item.targets) for item in found] == [
        (
            f"[example] [system] in rome? [user] yes [slot] city=rome {context}",
            "oslo | oslo city",
        ),
        (
            (
                "[example] [user] a match [system] in rome? [user] yes [system] how "
                "many? [user] just 1, not 12 for $2,500 [slot] kind=none of possible "
                f"values a) music b) none c) team sports {context}"
            ),
            "c",
        ),
        (
            (
                "[example] [user] just 1, not 12 for $2,500 [slot] seats=a of possible "
                f"values a) 1 b) 2 {context}"
            ),
            "none",
        ),
    ]
    assert [slot_of(item.key) for item in found] == ["city", "kind", "seats"]


def test_case_is_kept_where_asked():
    options = dataclasses.replace(OPTIONS, lowercase=False)
    found = examples({"city": ("Oslo",)}, options)[0]
    assert found.inputs == (
        "[example] [system] In Rome? [user] Yes [slot] city=Rome [context] [user] Music"
    )
    assert found.targets == "Oslo"


@pytest.mark.parametrize(
    ("value", "turns"),
    [
        ("match", SHOWN.turns[:1]),
        ("rome", SHOWN.turns[1:3]),
        ("2", SHOWN.turns),  # 12 and 2,500 are other numbers
        ("many", SHOWN.turns[3:]),
        ("a+", SHOWN.turns),
    ],
)
def test_the_turns_that_say_a_value(value, turns):
    assert said_in(SHOWN, value) == turns


def test_examples_that_cannot_be_shown_are_errors():
    with pytest.raises(UserError, match="order is 'any': give one of"):
        SDTIndOptions(order="any")
    with pytest.raises(UserError, match="'Events_1' has no example dialogue.*DEMONSTR"):
        examples({}, SDTIndOptions(demonstrations=()))
    wrong = dataclasses.replace(SHOWN, slot_values=(("citi", "Rome"),))
    with pytest.raises(UserError, match="'citi' is no slot of service 'Events_1'"):
        examples({}, SDTIndOptions(demonstrations=(wrong,)))
    with pytest.raises(UserError, match="slot 'when' is no slot of service 'Events_1'"):
        examples({"when": ("now",)})
