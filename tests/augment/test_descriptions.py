import dataclasses

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jaxaug.augment.descriptions import (
    Description,
    descriptions,
    name_of,
    protected,
    with_texts,
    words_of,
)
from jaxaug.core.errors import UserError
from jaxaug.data.schema import Schema, read_schema


@pytest.fixture
def schema(sgd_tree) -> Schema:
    return read_schema(sgd_tree / "dev/schema.json")


def test_order_and_ids(schema):
    found = descriptions(schema, "dev")
    assert [(d.id, d.kind, d.name, d.text) for d in found] == [
        ("dev/0/service", "service", "Trains_1", "Tickets for trains"),
        ("dev/0/slot/0", "slot", "city", "Where the train goes"),
        ("dev/0/slot/1", "slot", "class", "Comfort on board"),
        ("dev/0/slot/2", "slot", "price", "Cost of the ticket"),
        ("dev/0/intent/0", "intent", "FindTrain", "Look up a train"),
        ("dev/0/intent/1", "intent", "BuyTicket", "Pay for a seat"),
        ("dev/1/service", "service", "Parks_1", "Gardens and parks"),
        ("dev/1/slot/0", "slot", "park", "Name of the park"),
        ("dev/1/slot/1", "slot", "intent", "What to do in the park"),
        ("dev/1/intent/0", "intent", "FindPark", "Look for a park"),
    ]
    assert {d.service for d in found} == {"Trains_1", "Parks_1"}


def test_names_come_with_their_words(schema):
    found = descriptions(schema, "dev", names=True)
    texts = {d.id: d.text for d in found}
    assert texts["dev/0/service_name"] == "trains"
    assert texts["dev/0/intent_name/1"] == "buy ticket"
    assert len(found) == 20


def test_blank_texts_are_left_out(schema):
    first = schema.services[0]
    slots = (dataclasses.replace(first.slots[0], description=" "), *first.slots[1:])
    changed = Schema((dataclasses.replace(first, slots=slots), *schema.services[1:]))
    ids = [d.id for d in descriptions(changed, "dev")]
    assert "dev/0/slot/0" not in ids and "dev/0/slot/1" in ids


def test_no_description_at_all_is_an_error(schema):
    service = schema.services[0]
    blank = dataclasses.replace(
        service,
        description="",
        slots=tuple(dataclasses.replace(s, description="") for s in service.slots),
        intents=tuple(dataclasses.replace(i, description=" ") for i in service.intents),
    )
    for names in (False, True):
        with pytest.raises(UserError, match="the train schema has no descriptions"):
            descriptions(Schema((blank,)), "train", names)


def test_own_texts_change_nothing(schema):
    texts = {d.id: d.text for d in descriptions(schema, "dev", names=True)}
    assert with_texts(schema, "dev", texts) == schema


def test_texts_are_replaced_at_their_place(schema):
    texts = {"dev/0/slot/1": "How cosy it is", "dev/1/service": "Green places"}
    changed = with_texts(schema, "dev", texts)
    before, after = (
        {d.id: d.text for d in descriptions(s, "dev", names=True)}
        for s in (schema, changed)
    )
    assert after == before | texts


def test_renamed_slots_are_renamed_in_intents(schema):
    changed = with_texts(
        schema,
        "dev",
        {
            "dev/0/slot_name/0": "Target town",
            "dev/0/slot_name/1": "comfort",
            "dev/0/intent_name/0": "search for trains",
            "dev/0/service_name": "rail ways",
        },
    )
    service = changed.services[0]
    assert service.name == "RailWays_1"
    assert [slot.name for slot in service.slots] == ["target_town", "comfort", "price"]
    assert [intent.name for intent in service.intents] == [
        "SearchForTrains",
        "BuyTicket",
    ]
    assert service.intents[0].required_slots == ("target_town",)
    assert service.intents[0].optional_slots == (("comfort", "second"),)
    assert service.intents[0].result_slots == ("target_town", "comfort", "price")


@pytest.mark.parametrize(
    ("texts", "message"),
    [
        ({"dev/0/slot/9": "x"}, "'dev/0/slot/9' is not a text of the schema; did you"),
        ({"dev/0/slot/0": " "}, "dev/0/slot/0: the new text is ' '; give a text"),
        ({"dev/0/slot/0": "a\nb"}, "with single spaces"),
        (
            {"dev/0/slot_name/0": "price"},
            "service 'Trains_1' would have two slots called 'price'",
        ),
        ({"dev/0/slot_name/0": "?!"}, "'\\?!' cannot be a name"),
    ],
)
def test_wrong_texts(schema, texts, message):
    with pytest.raises(UserError, match=message):
        with_texts(schema, "dev", texts)


@pytest.mark.parametrize(
    ("text", "values", "expected"),
    [
        ("Rating on a scale of 10, from 1.5", (), ("10", "1.5")),
        ("Greets <name> at {time} in [room] for $price", (),
         ("<name>", "{time}", "[room]", "$price")),
        ("Whether to Buy or rent", ("rent", "buy", "lease"), ("rent", "Buy")),
        ("True if there is wifi", ("True", "False"), ()),
        ("Number of renters", ("rent", " "), ()),
    ],
)  # fmt: skip
def test_protected(text, values, expected):
    assert protected(text, values) == expected


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("pickup_location", "pickup location"),
        ("FindBus", "find bus"),
        ("RentalCars_12", "rental cars"),
        ("isATM", "is atm"),
        ("has_wifi", "has wifi"),
    ],
)
def test_words_of(name, words):
    assert words_of(name) == words


@given(st.lists(st.text("abcxyz", min_size=1, max_size=6), min_size=1, max_size=4))
def test_words_of_names(words):
    text = " ".join(words)
    snake = name_of(text, "pickup_location")
    assert snake == "_".join(words) and words_of(snake) == text
    camel = name_of(text, "Buses_1")
    assert camel == "".join(map(str.capitalize, words)) + "_1"


def test_real_schema(real_data):
    schema = read_schema(real_data / "sgd/train/schema.json")
    found = descriptions(schema, "train")
    assert len(found) == 294 and len({d.text for d in found}) == 281
    assert not [d for d in found if not isinstance(d, Description)]
    assert with_texts(schema, "train", {d.id: d.text for d in found}) == schema
    test = read_schema(real_data / "sgd/test/schema.json")
    kept = {d.name: d.protected for d in descriptions(test, "test") if d.protected}
    stylist = ("average_rating", "phone_number", "street_address", "stylist_name")
    assert kept == {
        "intent": ("rent", "buy"),
        "rating": ("5",),
        **dict.fromkeys(stylist, ("stylist/salon",)),
    }
