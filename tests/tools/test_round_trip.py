"""SGD -> each format -> SGD keeps everything that the format can hold."""

import dataclasses
import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jaxaug.data.schema import Intent, Schema, Service, Slot, read_schema
from jaxaug.tools import losses, slots, tool_lists
from jaxaug.tools.convert import document_of, read_document
from tests.support import small_sgd

_WORD = st.text("abcXY é9-", min_size=1, max_size=6).filter(str.strip)
_NAME = st.text("abcXY9", min_size=1, max_size=4)
_DOTTED = st.lists(_NAME, min_size=1, max_size=3).map(".".join)


@st.composite
def services(draw, name):
    names = draw(st.lists(_DOTTED, unique=True, max_size=5))
    # A slot with nested slots is not generated.
    names = [n for n in names if not any(o.startswith(f"{n}.") for o in names)]
    made = []
    for slot in names:
        values = draw(st.lists(_WORD, unique=True, max_size=3))
        values = draw(st.sampled_from([values, ["True", "False"]]))
        is_categorical = bool(values) and draw(st.booleans())
        made.append(Slot(slot, draw(_WORD), is_categorical, tuple(values)))
    intents = []
    for intent in draw(st.lists(_NAME, unique=True, min_size=1, max_size=3)):
        use = {slot: draw(st.sampled_from("RODN")) for slot in names}
        intents.append(
            Intent(
                intent,
                draw(_WORD),
                draw(st.booleans()),
                tuple(n for n in names if use[n] == "R"),
                tuple(
                    (n, "dontcare" if use[n] == "O" else draw(_WORD))
                    for n in names
                    if use[n] in "OD"
                ),
                tuple(n for n in names if "." not in n and draw(st.booleans())),
            )
        )
    return Service(name, draw(_WORD), tuple(made), tuple(intents))


_SCHEMAS = st.lists(_NAME, unique=True, min_size=1, max_size=3).flatmap(
    lambda names: st.tuples(*map(services, names)).map(Schema)
)


def _without_lost_fields(schema: Schema, kind: str) -> dict:
    """Returns the services without fields that the format cannot hold."""
    held = {}
    for service in schema.services:
        intents = {}
        used: set[str] = set()
        for intent in service.intents:
            given = {*intent.required_slots}, dict(intent.optional_slots)
            told = intent.is_transactional, {*intent.result_slots}
            intents[intent.name] = (
                intent.description,
                *given,
                told if kind in ("openapi", "mcp") else None,
            )
            used |= {*given[0], *given[1]}
            used |= told[1] if kind in ("openapi", "mcp") else set()
        slots = {slot for slot in service.slots if slot.name in used}
        is_tool = [*intents] == [service.name]
        described = service.description if kind == "openapi" and not is_tool else None
        held[service.name] = (described, slots, intents)
    return held


@pytest.mark.parametrize(
    "kind", ["openapi", "mcp", "openai", "anthropic", "json_schema"]
)
@settings(max_examples=60, deadline=None)
@given(schema=_SCHEMAS)
def test_sgd_there_and_back(kind, schema, tmp_path_factory):
    path = tmp_path_factory.getbasetemp() / f"{kind}.json"
    document, dropped, left = document_of(schema, kind)
    path.write_text(json.dumps(document))
    again = read_document(path)
    assert again.format == kind
    assert _without_lost_fields(again.schema, kind) == _without_lost_fields(
        schema, kind
    )
    assert left == []
    fields = {
        one.path[1] if one.path[1] != "intents" else one.path[-1] for one in dropped
    }
    assert fields <= {"slots", "description"} | (
        set() if kind in ("openapi", "mcp") else {"is_transactional", "result_slots"}
    )


def test_sgd_is_read_as_it_is(sgd_tree):
    path = sgd_tree / "dev/schema.json"
    found = read_document(path)
    assert (found.format, found.lost) == ("sgd", [])
    document, dropped, left = document_of(found.schema, "sgd")
    assert (document, dropped, left) == ([small_sgd.TRAINS, small_sgd.PARKS], [], [])


def test_a_slot_above_another_one_keeps_both():
    free = [Slot(name, name, False, ()) for name in ("a", "a.b", ".", "c.")]
    made = slots.object_of(free, ["a.b"], {"a": "1"})
    assert [*made["properties"]] == ["a", "a.b", ".", "c."]
    assert made["required"] == ["a.b"]
    assert made["properties"]["a"]["default"] == "1"


def test_names_that_an_interface_refuses(sgd_tree):
    schema = read_schema(sgd_tree / "train/schema.json")
    [service] = schema.services
    renamed = Schema((dataclasses.replace(service, name="Züge nach Süden " * 5),))
    names = [t["function"]["name"] for t in document_of(renamed, "openai")[0]]
    assert len({*names}) == 2
    assert all(0 < len(name) <= 64 and name.isascii() for name in names)
    assert tool_lists.kind_of(document_of(renamed, "openai")[0]) == "openai"


@pytest.mark.parametrize(
    ("one", "two", "equal"),
    [
        ([True], [1], False), ({"a": [0]}, {"a": [False]}, False),
        ([1, {"a": 2.0}], [1.0, {"a": 2}], True), ([1], [1, 1], False),
        ({"a": 1, "b": None}, {"b": None, "a": 1}, True), ("1", 1, False),
    ],
)  # fmt: skip
def test_equality_of_json_values(one, two, equal):
    assert losses.same(one, two) is equal
