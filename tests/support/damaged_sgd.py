"""A damage of an SGD folder for each rule of `jaxaug data check`, with its report."""

import functools
import json
import operator

V1 = "sgd_x/data/v1/dev/schema.json"
DEV = "dev/dialogues_001.json"
TEST = "test/dialogues_001.json"
TRAIN = "train/schema.json"


def put(*keys_and_value):
    """Sets a value in JSON."""
    *keys, last, value = keys_and_value
    return lambda data: functools.reduce(operator.getitem, keys, data).__setitem__(
        last, value
    )


def frame(*keys_and_value, turn=0):
    return put(0, "turns", turn, "frames", 0, *keys_and_value)


def double(data):
    turns = data[0]["turns"]
    turns.insert(1, json.loads(json.dumps(turns[0])))


def same_description(data):
    data[0]["slots"][2]["description"] = data[0]["slots"][0]["description"] + "."


def swap(data):
    data[0], data[1] = data[1], data[0]


# File, damage, text at the place (its n-th occurrence), rule, words. test_sgd_errors
# and test_schema test the rules of the readers; some occur here to test their places.
CASES = [
    (DEV, put(0, 3), "3", 1, "wrong type", "dialogue #0: expected an object, got 3"),
    (
        DEV,
        put(0, "turns", 1, "utterance", 5),
        '"utterance"',
        2,
        "wrong type",
        "got 5",
    ),
    (
        DEV,
        frame("state", "requested_slots", ["price", "prise"]),
        '"prise"',
        1,
        "unknown slot",
        "(did you mean 'price'?), got 'prise'",
    ),
    (
        DEV,
        frame("slots", 0, "exclusive_end", 99),
        '"start"',
        1,
        "span outside the text",
        "expected 0 <= start < exclusive_end <= 22, the length of the utterance",
    ),
    (
        DEV,
        frame("slots", 0, "start", 10),
        '"start"',
        1,
        "span is not the value",
        (
            "slot 'city': the text from 10 to 15 is ' Bern', expected one of its "
            "values: ['Bern', 'Bern']. 'Bern' begins at 11. Correct start and "
            "exclusive_end"
        ),
    ),
    (
        DEV,
        frame("state", "slot_values", "class", ["second", "third"], turn=2),
        '"third"',
        1,
        "value not possible",
        (
            "slot 'class' has the value 'third', expected one of its possible_values "
            "or 'dontcare' (known: first, second). Correct the value, or add it to "
            "the schema."
        ),
    ),
    (
        DEV,
        frame("state", "slot_values", "city", ["Bern", " "]),
        '" "',
        1,
        "empty value",
        "slot 'city' has the value ' ', which no format can write. Write the value, or",
    ),
    (
        DEV,
        frame("actions", 0, "values", [""]),
        '""',
        1,
        "empty value",
        "the value ''",
    ),
    (
        TRAIN,
        put(0, "slots", 2, "possible_values", ["1", ""]),
        '""',
        1,
        "empty value",
        "service 'Trains_1': slot 'price' has the value '', which no format can write.",
    ),
    (
        DEV,
        put(0, "dialogue_id", "3_0\n1"),
        '"dialogue_id"',
        1,
        "name with a line break",
        (
            "dialogue '3_0\\n1': the id '3_0\\n1' holds a line break or a tab, which "
            "ends a line or field of tables. Rename it, everywhere in the folder."
        ),
    ),
    (
        TRAIN,
        put(0, "intents", 1, "name", "Buy\u2028Ticket"),
        '"name": "Buy\\u2028Ticket"',
        1,
        "name with a line break",
        (
            "service 'Trains_1': the name of the intent 'Buy\\u2028Ticket' holds a "
            "line break"
        ),
    ),
    (
        DEV, double, '"speaker"', 2, "speaker order",
        "dialogue '3_00000', turn 1: expected SYSTEM, got USER: speakers take turns",
    ),
    (
        DEV,
        put(1, "dialogue_id", "3_00000"),
        '"dialogue_id"',
        2,
        "repeated",
        "no other",
    ),
    (
        "train/dialogues_002.json",
        put(0, "dialogue_id", "1_00000"),
        '"dialogue_id"',
        1,
        "repeated",
        "dialogues_001.json too; ids are unique in a split. Remove one of the two.",
    ),
    (
        TRAIN,
        put(0, "slots", 2, "name", "city"),
        '"name": "city"',
        2,
        "repeated",
        "occurs twice",
    ),
    (
        TRAIN, same_description, '"description": "Where the train goes."', 1,
        "repeated description",
        ("slot 'price': has the description of 'city', 'Where the train goes.': a "
         "tracker cannot tell them apart. Say in what they differ."),
    ),
    (
        TRAIN,
        put(0, "slots", 2, "description", " "),
        '"description": " "',
        1,
        "no description",
        "slot 'price': the description is empty",
    ),
    (
        TRAIN,
        lambda data: data[0]["slots"][2].pop("is_categorical"),
        '{\n    "name": "price"',
        1,
        "missing field",
        "slot 'price': field 'is_categorical' is missing, expected true or false",
    ),
    (
        V1,
        lambda data: data.pop(),
        "[",
        1,
        "variant does not match",
        "1 services, but ",
    ),
    (
        V1,
        put(0, "slots", 1, "possible_values", ["first", "2nd"]),
        '"possible_values"',
        2,
        "variant does not match",
        (
            "slot 'class_v1' has the values ['first', '2nd'], the original's 'class' "
            "has ['first', 'second']. Dialogues keep their values"
        ),
    ),
]  # fmt: skip
