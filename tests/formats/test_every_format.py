"""Common rules of all formats: orders, inversion, and invalid answers."""

import functools
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jaxaug.cli import main
from jaxaug.core.errors import UserError
from jaxaug.core.text import clean
from jaxaug.data import sgd
from jaxaug.data.demonstrations import Demonstration
from jaxaug.data.schema import Intent, Schema, Service, Slot
from jaxaug.data.sgd import Dialogue, Frame, State, Turn
from jaxaug.feed import cache, parallel
from jaxaug.formats.d3st import D3STOptions
from jaxaug.formats.json_tools import JSONOptions
from jaxaug.formats.records import merged
from jaxaug.formats.sdt import SDTIndOptions, SDTOptions
from jaxaug.formats.t5dst import T5DSTOptions, slot_of

SERVICE = Service(
    "Events_1", "Find events",
    (Slot("city", "City of the event", False, ()),
     Slot("kind", "Kind of event", True, ("Music", "None", "Team Sports")),
     Slot("seats", "Number of seats", True, ("1", "2"))),
    (Intent("Find", "find one", False, ("city",), (("kind", "dontcare"),), ()),
     Intent("Buy", "buy tickets", True, ("city", "seats"), (), ())),
)  # fmt: skip
SHOWN = Demonstration("Events_1", (("USER", "a match in Rome"),), (), "Find")
FORMATS = [
    D3STOptions(),
    JSONOptions(level="dst_intent"),
    SDTOptions(level="dst_intent", demonstrations=(SHOWN,)),
    SDTIndOptions(demonstrations=(SHOWN,)),
    T5DSTOptions(),
]
every_format = pytest.mark.parametrize("options", FORMATS, ids=lambda o: o.family)
VALUES = {"kind": ("Team Sports",), "seats": ("2",)}


def examples(options, values, epoch=0, *more):
    turns = (
        Turn("USER", "Anything in Oslo?", (Frame("Events_1", None),)),
        Turn("SYSTEM", "What?", ()),
        Turn("USER", "Music", (Frame("Events_1", State("Buy", (), values)),)),
    )
    dialogue = Dialogue("1_00001", ("Events_1",), (*turns, *more))
    return list(options.formatter(Schema((SERVICE,))).dialogue(dialogue, epoch))


def read(options, found):
    parsed = [options.parse(one.targets, one.key) for one in found]
    return functools.reduce(merged, parsed)


def inputs(options, values=VALUES, epoch=0, *more):
    return tuple(one.inputs for one in examples(options, values, epoch, *more))


@every_format
def test_shuffled_order_depends_on_dialogue_frame_epoch_and_seed_only(options):
    options = replace(options, order="shuffled")
    more = (Turn("SYSTEM", "Done", ()),)
    assert inputs(options) == inputs(options, VALUES, 0, *more)
    # Labels do not change the order, so the prompt does not reveal the answer.
    assert inputs(options) == inputs(options, {})
    assert len({inputs(options, epoch=epoch) for epoch in range(12)}) > 6
    assert len({inputs(replace(options, seed=seed)) for seed in range(8)}) > 3
    for epoch in range(12):
        parsed = read(options, examples(options, VALUES, epoch))
        assert (parsed.slot_values, parsed.malformed) == (VALUES, 0)
        assert parsed.active_intent == ("Buy" if options.answers_intents else "NONE")


@every_format
def test_another_schema_and_another_order(options):
    message = "dialogue '1_00001', turn 2: slot 'town' is no slot of service 'Events_1'"
    with pytest.raises(UserError, match=message):
        examples(options, {"town": ("Oslo",)})
    with pytest.raises(
        UserError, match="order is 'random': give one of schema, shuffled"
    ):
        replace(options, order="random")


PIECES = st.text(alphabet='[]{}":, |=abctins0123\\', max_size=60)


@every_format
@given(text=st.text(max_size=60) | PIECES)
def test_any_text_is_read(options, text):
    known = {slot.name for slot in SERVICE.slots}
    for one in examples(options, {}):
        parsed = options.parse(text, one.key)
        assert parsed.malformed >= 0 and parsed.slot_values.keys() <= known


WORDS = st.text(st.characters(categories=["Ll", "Nd"]), min_size=3)


@every_format
@given(values=st.lists(WORDS, min_size=1, max_size=3).filter(lambda v: v != ["none"]))
def test_parse_inverts_format(options, values):
    found = {"city": tuple(values), "seats": ("2",)}
    assert read(options, examples(options, found)).slot_values == found


@pytest.mark.parametrize(
    ("options", "bar", "every"),
    [
        (D3STOptions(), "|", 1),
        (D3STOptions(order="shuffled", categorical="a"), "|", 4),
        (JSONOptions(level="dst_intent", order="shuffled"), None, 4),
        (T5DSTOptions(), "||", 4),
    ],
)
def test_states_of_sgd_return(real_data, options, bar, every):
    folder, frames = real_data / "sgd", 0
    formatter = options.formatter(sgd.read_schema_of(folder, "dev"))
    for dialogue in list(sgd.read_dialogues(folder, "dev"))[::every]:
        of_frames = {}
        for one in formatter.dialogue(dialogue):
            of_frames.setdefault((one.turn, one.frame), []).append(one)
        for (turn, frame), found in of_frames.items():
            frames += 1
            state = dialogue.turns[turn].frames[frame].state
            if any(f" {bar} " in v for vs in state.slot_values.values() for v in vs):
                continue  # Such a value is read as two.
            parsed = read(options, found)
            assert parsed.malformed == 0
            assert folded(parsed) == folded(state)
            if options.answers_intents:
                assert parsed.active_intent == state.active_intent
                assert {*parsed.requested_slots} == {*state.requested_slots}
    assert frames == 20_542 if every == 1 else frames > 5000


def folded(state):
    return {
        name: [clean(value, True) for value in values]
        for name, values in state.slot_values.items()
    }


@pytest.mark.parametrize("options", [SDTOptions(), SDTIndOptions()])
def test_demonstrations_are_no_examples_and_variants_use_their_names(
    sgd_tree, tmp_path, options
):
    def built(split, variant=None):
        corpus = parallel.Corpus(str(sgd_tree), split, variant)
        return [*cache.build(cache.Recipe(corpus, options), 1, tmp_path).read()]

    ids = {"train": {"2_00000"}, "dev": {"3_00000"}, "test": {"4_00000", "4_00001"}}
    for split, expected in ids.items():
        assert {item.dialogue_id for item in built(split)} == expected
    trips = [item for item in built("test", "v2") if item.service == "Trains_12"]
    mark = "[slots]" if options.family == "sdt" else "[slot]"
    assert any(f"{mark} city_v2=oslo" in item.inputs for item in trips)
    parsed = options.parse(trips[-1].targets, trips[-1].key)
    assert parsed.malformed == 0


@pytest.mark.parametrize(
    ("options", "flags"),
    [(SDTOptions(answered="active"), ["--answered", "active"]), (SDTIndOptions(), [])],
)
def test_format_writes_the_examples_of_the_cache(sgd_tree, tmp_path, options, flags):
    out = tmp_path / "x.tsv"
    command = ["format", options.family, *flags, "--data_dir", str(sgd_tree)]
    assert main([*command, "--split", "dev", "--workers", "1", "--out", str(out)]) == 0
    recipe = cache.Recipe(parallel.Corpus(str(sgd_tree), "dev"), options)
    found = list(cache.build(recipe, 1, tmp_path).read())
    header, *rows = [line.split("\t") for line in out.read_text().splitlines()]
    assert [row[:3] for row in rows] == [
        [item.inputs, item.targets, item.dialogue_id] for item in found
    ]
    if options.per_slot:
        assert header[3:] == ["turn", "service", "slot"]
        assert [row[5] for row in rows] == [slot_of(item.key) for item in found]
