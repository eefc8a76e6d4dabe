"""SDT text: golden examples, inversion, malformed answers, and sources of examples."""

import dataclasses
import json
import os

import pytest

from jaxaug.cli import main
from jaxaug.core.errors import UserError
from jaxaug.data import demonstrations, sgd
from jaxaug.data.demonstrations import Demonstration
from jaxaug.data.schema import Intent, Schema, Service, Slot
from jaxaug.data.sgd import Dialogue, Frame, State, Turn
from jaxaug.feed import cache, parallel
from jaxaug.formats.sdt import SDTFormatter, SDTOptions, parse
from jaxaug_papers import multiwoz
from tests.support import small_multiwoz

SERVICE = Service(
    "Events_1",
    "Find events",
    (
        Slot("city", "City of the event", False, ()),
        Slot("kind", "Kind of event", True, ("Music", "None", "Team Sports")),
        Slot("seats", "Number of seats", True, ("1", "2")),
        Slot("price", "What it costs", False, ()),  # no intent takes it
    ),
    (
        Intent(
            "Find", "find one", False, ("city",), (("kind", "dontcare"),), ("price",)
        ),
        Intent("Buy", "buy tickets", True, ("city", "seats"), (), ()),
    ),
)
SHOWN = Demonstration(
    "Events_1",
    (("USER", "A  match in Rome"), ("SYSTEM", "When?"), ("USER", "Today")),
    (("city", "Rome"), ("kind", "Team Sports")),
    "Find",
)
OPTIONS = SDTOptions(demonstrations=(SHOWN,))


def example(values, options=OPTIONS, intent="Buy", epoch=0):
    turns = (
        Turn("USER", "Anything in\tOslo?", (Frame("Events_1", None),)),
        Turn("SYSTEM", "What?", ()),
        Turn("USER", "Music", (Frame("Events_1", State(intent, (), values)),)),
    )
    formatter = SDTFormatter(Schema((SERVICE,)), options)
    (found,) = formatter.dialogue(Dialogue("1_00001", ("Events_1",), turns), epoch)
    return found


def test_golden_text():
    found = example({"city": ("Oslo", "Oslo City"), "kind": ("Music",)})
    assert found.inputs == (
        "[example] [user] a match in rome [system] when? [user] today "
        "[slots] city=rome kind=c of possible values a) music b) none c) team sports "
        "seats=none of possible values a) 1 b) 2 "
        "[context] [user] anything in oslo? [system] what? [user] music"
    )
    assert found.targets == "[state] city=oslo | oslo city kind=a seats=none"
    assert (found.dialogue_id, found.turn, found.frame) == ("1_00001", 2, 0)


def test_golden_text_of_the_other_options():
    options = dataclasses.replace(
        OPTIONS,
        level="dst_intent",
        categorical="values",
        answered="active",
        lowercase=False,
    )
    found = example({"kind": ("None",)}, options)
    assert found.inputs == (
        "[example] [user] A match in Rome [system] When? [user] Today "
        "[slots] city=Rome kind=Team Sports of possible values Music, None, Team "
        "Sports seats=none of possible values 1, 2 [intent] Find of possible values "
        "Find, Buy [context] [user] Anything in Oslo? [system] What? [user] Music"
    )
    assert found.targets == "[state] kind=None [intent] Buy"
    parsed = options.parse(found.targets, found.key)
    assert parsed.slot_values == {"kind": ("None",)} and parsed.active_intent == "Buy"
    lettered = dataclasses.replace(options, categorical="letters")
    assert (
        "[intent] a of possible values a) Find b) Buy" in example({}, lettered).inputs
    )
    assert example({}, lettered).targets == "[state] [intent] b"
    assert example({}, lettered, "NONE").targets == "[state] [intent] none"
    assert parse("[state] [intent] b", example({}, lettered).key).active_intent == "Buy"
    assert parse("[state] [intent] z", example({}, lettered).key).malformed == 1


def test_golden_text_with_numbers():
    options = dataclasses.replace(OPTIONS, names="ids")
    found = example({"city": ("Oslo",), "seats": ("2",)}, options)
    assert "[slots] 0=rome 1=c of possible values a) music" in found.inputs
    assert found.targets == "[state] 0=oslo 1=none 2=b"
    values = {"city": ("oslo",), "seats": ("2",)}
    assert parse(found.targets, found.key).slot_values == values
    assert parse("[state] 0=oslo 3=b", found.key).malformed == 1


KEY = example({}).key


@pytest.mark.parametrize(
    ("text", "values", "malformed"),
    [
        ("[state] city=none kind=none seats=none", {}, 0),
        ("[state] city= new  york  kind=b", {"city": ("new york",), "kind": ("None",)},
         0),
        ("city=oslo", {"city": ("oslo",)}, 1),
        ("[state] kind=team sports", {"kind": ("Team Sports",)}, 0),
        ("[state] kind=dontcare", {"kind": ("dontcare",)}, 0),
        ("[state] kind=z city=oslo", {"city": ("oslo",)}, 1),
        ("[state] city=oslo when=now", {"city": ("oslo",)}, 1),
        ("[state] city=oslo city=rome", {"city": ("oslo",)}, 1),
        ("[state] city=oslo |  | rome", {"city": ("oslo", "rome")}, 1),
        ("[state] hm seats=2", {"seats": ("2",)}, 1),
        ("[state] city=oslo [state] city=rome", {"city": ("oslo",)}, 1),
        ("", {}, 1),
    ],
)  # fmt: skip
def test_parse(text, values, malformed):
    parsed = parse(text, KEY)
    assert parsed.slot_values == values
    assert parsed.malformed == malformed


def test_examples_that_cannot_be_shown_are_errors():
    with pytest.raises(UserError, match="answered is 'some': give one of all, active"):
        SDTOptions(answered="some")
    with pytest.raises(UserError, match="'Events_1' has no example dialogue.*DEMONSTR"):
        example({}, SDTOptions(demonstrations=()))
    wrong = dataclasses.replace(SHOWN, slot_values=(("citi", "Rome"),))
    with pytest.raises(UserError, match="'citi' is no slot of service 'Events_1'"):
        example({}, SDTOptions(demonstrations=(wrong,)))
    with pytest.raises(UserError, match="slot 'price' is filled, but no intent"):
        example({"price": ("3",)})


def test_the_rule(sgd_tree):
    train = demonstrations.choose(sgd_tree, "train")
    assert {n: d.dialogue_id for n, d in train.items()} == {"Trains_1": "1_00000"}
    found = demonstrations.choose(sgd_tree, "test")
    # Trains_1 is known from train; Parks_1 first occurs in dev.
    assert found["Trains_1"] == train["Trains_1"]
    assert (found["Parks_1"].split, found["Parks_1"].dialogue_id) == ("dev", "3_00001")
    dialogues = {d.dialogue_id: d for d in sgd.read_dialogues(sgd_tree, "train")}
    states = [
        frame.state.slot_values
        for turn in dialogues["1_00000"].turns
        for frame in turn.frames
        if frame.state is not None
    ]
    most = max(map(len, states))
    assert {n for n, _ in train["Trains_1"].slot_values} == {*max(states, key=len)}
    ends = next(
        index
        for index, turn in enumerate(dialogues["1_00000"].turns)
        for frame in turn.frames
        if frame.state is not None and len(frame.state.slot_values) == most
    )
    assert train["Trains_1"].turns == tuple(
        (turn.speaker, turn.utterance)
        for turn in dialogues["1_00000"].turns[: ends + 1]
    )


def test_the_rule_if_every_turn_has_frames_of_all_services(tmp_path):
    multiwoz.convert(small_multiwoz.write(tmp_path / "public"), tmp_path / "data")
    found = demonstrations.choose(tmp_path / "data", "train")
    assert {name: (d.dialogue_id, len(d.turns)) for name, d in found.items()} == {
        "hotel": ("B.json", 1),
        "taxi": ("A.json", 1),  # from the turn that mentions a taxi
        "police": ("A.json", 1),  # no user asks for it
    }
    taxi = (("taxi-destination", "acorn"), ("taxi-leaveat", "8pm"))
    assert found["taxi"].slot_values == taxi
    assert found["police"].slot_values == ()
    recipe = cache.Recipe(parallel.Corpus(str(tmp_path / "data"), "test"), SDTOptions())
    examples = list(cache.build(recipe, 1, tmp_path / "cache").read())
    assert len(examples) == 9
    assert "[slots] taxi-destination=acorn taxi-leaveat=8pm" in examples[1].inputs
    assert parse("[state] taxi-leaveat=8pm", examples[1].key).slot_values == {
        "taxi-leaveat": ("8pm",)
    }


def test_a_file_goes_first_and_is_part_of_the_key(sgd_tree, monkeypatch, capsys):
    recipe = cache.Recipe(parallel.Corpus(str(sgd_tree), "train"), SDTOptions())
    before = cache.cache_name(recipe)
    assert cache.cache_name(recipe) == before
    path = sgd_tree / "shown.json"
    command = [
        "data", "demonstrations", "--data_dir", str(sgd_tree), "--out", str(path),
    ]  # fmt: skip
    assert main(command) == 0
    assert "Trains_1: train 1_00000" in capsys.readouterr().out
    assert demonstrations.read(path) == demonstrations.choose(sgd_tree, "test")
    items = json.loads(path.read_text())
    for item in items:
        item["slot_values"] = {name: "lima" for name in item["slot_values"]}
        item["dialogue_id"] = ""
    path.write_text(json.dumps(items))
    monkeypatch.setenv("JAXAUG_DEMONSTRATIONS", str(path))
    assert cache.cache_name(recipe) != before
    found = list(cache.build(recipe, 1, sgd_tree / "cache").read())
    assert all("city=lima" in item.inputs for item in found)
    # The examples of the file are not in the data, so no dialogue is left out.
    assert {item.dialogue_id for item in found} == {"1_00000", "2_00000"}
    # Without a data folder, as in `jaxaug predict`, only the file is used.
    schema = sgd.read_schema_of(sgd_tree, "train")
    (dialogue, *_) = sgd.read_dialogues(sgd_tree, "train")
    first = next(SDTOptions().formatter(schema).dialogue(dialogue))
    assert first.inputs in {item.inputs for item in found}


@pytest.mark.parametrize(
    ("item", "message"),
    [
        (3, "expected an object, got 3"),
        ({"service": "A"}, "field 'turns': expected a list, got nothing"),
        ({"turns": []}, "field 'turns': expected at least one turn"),
        ({"turns": [{"speaker": "I"}]}, "field 'slot_values': expected an object"),
        (
            {"turns": [{"speaker": "I"}], "slot_values": {}, "service": "A"},
            "speaker is USER or SYSTEM",
        ),
        ({"turns": [1], "slot_values": {"a": ["b"]}}, "expected one text for 'a'"),
    ],
)
def test_a_wrong_file(item, message, tmp_path):
    path = tmp_path / "shown.json"
    path.write_text(json.dumps([item]))
    with pytest.raises(UserError, match=message) as error:
        demonstrations.read(path)
    assert os.fspath(path) in str(error.value)
    assert "`jaxaug data demonstrations` writes" in str(error.value)
