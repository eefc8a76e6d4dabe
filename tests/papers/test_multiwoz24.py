"""MultiWOZ 2.4: from its public layout to ours."""

import json

import pytest

from jaxaug.cli import main
from jaxaug.core.errors import UserError
from jaxaug.data import fetch, sgd
from jaxaug_papers import multiwoz24
from tests.support import small_multiwoz

HOTEL = {"name": "not mentioned", "area": "dontcare", "wifi": "none"}


def _system(text, hotel=None, booked=None, taxi=None):
    """Returns a turn of the system with the state after the user's turn."""
    metadata = {
        "hotel": {"semi": HOTEL | (hotel or {}), "book": {"booked": [], "stay": ""}},
        "taxi": {
            "semi": {"leaveAt": "", "destination": ""} | (taxi or {}),
            "book": {"booked": []},
        },
        "police": {"semi": {}, "book": {"booked": []}},
    }
    metadata["hotel"]["book"] |= booked or {}
    return {"text": text, "metadata": metadata}


def _user(text):
    return {"text": text, "metadata": {}}


@pytest.fixture
def public(tmp_path):
    root = tmp_path / "MULTIWOZ2.4"
    root.mkdir()
    schema = json.loads(json.dumps(small_multiwoz.SCHEMA))
    stay = {"name": "hotel-bookstay", "description": "nights", "is_categorical": False}
    schema[0]["slots"].append(stay)
    schema[0]["slots"][0]["possible_values"] = ["centre", "north side"]
    (root / "schema.json").write_text(json.dumps(schema))
    long = [
        _user("an inn\n"), _system("ok", {"name": "the acorn"}),
        _user("2 nights in the north"),
        _system("ok", {"area": "northside"}, {"stay": "2", "booked": [{"name": "a"}]}),
        _user("a taxi at 8, any place"),
        _system("done", {"area": "moon", "wifi": "yes"}, {"stay": "2"},
         {"leaveAt": "08:00", "destination": "don't care"}),
        _user("bye"),
    ]  # fmt: skip
    short = [_user("hello"), _system("hi", {"area": ""})]
    data = {f"{n}.json": {"goal": {}, "log": short} for n in "ABC"}
    data["D.json"] = {"goal": {}, "log": long}
    (root / "data.json").write_text(json.dumps(data))
    (root / "valListFile.json").write_text("B.json\n")
    (root / "testListFile.json").write_text("D.json\n")
    return root


def test_states_have_the_names_of_the_schema(public, tmp_path):
    report = multiwoz24.convert(public, tmp_path / "out")
    (found,) = sgd.read_dialogues(tmp_path / "out", "test")
    assert [turn.utterance for turn in found.turns][:2] == ["an inn", "ok"]
    states = [
        {frame.service: dict(frame.state.slot_values) for frame in turn.frames}
        for turn in found.turns[::2]
    ]
    idle = {"taxi": {}, "police": {}}
    last = {
        "hotel": {"hotel-area": ("moon",), "hotel-bookstay": ("2",)},
        "taxi": {"taxi-leaveat": ("08:00",), "taxi-destination": ("dontcare",)},
        "police": {},
    }
    assert states == [
        {"hotel": {"hotel-name": ("the acorn",), "hotel-area": ("dontcare",)}, **idle},
        {"hotel": {"hotel-area": ("north side",), "hotel-bookstay": ("2",)}, **idle},
        last, last,
    ]  # fmt: skip
    assert found.services == ("hotel", "taxi")
    assert {frame.state.active_intent for frame in found.turns[0].frames} == {"NONE"}
    assert not any(turn.frames for turn in found.turns[1::2])
    trains = [d.dialogue_id for d in sgd.read_dialogues(tmp_path / "out", "train")]
    assert trains == ["A.json", "C.json"]
    assert str(report).splitlines() == [
        "train: 2 dialogues, 2 turns of the user",
        "dev: 1 dialogues, 1 turns of the user",
        "test: 1 dialogues, 4 turns of the user",
        "a dialogue about no service is given all: 3 (first: B.json: [])",
        ("a value gets the schema's spaces: 1 (first: D.json turn 2: "
         "hotel-area=northside)"),
        ("a value that is not in the schema's possible_values is kept: 1 (first: "
         "D.json turn 4: hotel-area=moon)"),
        ("a last turn without state repeats the one before: 1 "
         "(first: D.json turn 6: bye)"),
        "a value of no slot is left out: 2 (first: D.json turn 4: hotel-wifi)",
    ]  # fmt: skip


def test_verbs(public, tmp_path, capsys):
    out = tmp_path / "out"
    command = ["data", "convert", "multiwoz24", "--source", str(public)]
    assert main([*command, "--out", str(out)]) == 0
    assert f"written: {out}." in capsys.readouterr().out
    with pytest.raises(UserError, match="mw: there is no download for it. Get it by h"):
        fetch.fetch(multiwoz24.DATA_SET, tmp_path / "mw")


@pytest.mark.parametrize(
    ("file", "text", "expected"),
    [
        ("schema.json", None, "schema.json.*budzianowski/multiwoz"),
        ("data.json", "[]", "data.json: has no object of dialogues"),
        ("data.json", '{"B.json": 1, "D.json": 1}', "dialogue B.json is not in the l"),
        ("valListFile.json", "", "valListFile.json: names no dialogue; expected"),
        ("testListFile.json", "X.json", "testListFile.json: names X.json; expected"),
        ("testListFile.json", None, "testListFile.json.*smartyfh/MultiWOZ2.4"),
    ],
)
def test_invalid_folders(public, tmp_path, file, text, expected):
    (public / file).unlink()
    if text is not None:
        (public / file).write_text(text)
    with pytest.raises(UserError, match=expected):
        multiwoz24.convert(public, tmp_path / "out")
