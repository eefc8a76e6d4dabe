"""Slot names and values of MultiWOZ, as MultiWOZ_Evaluation normalizes them."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jaxaug.cli import main
from jaxaug.data import sgd
from jaxaug.data.schema import Service, Slot
from jaxaug.data.sgd import State
from jaxaug.metrics.benchmark import references_of
from jaxaug.metrics.multiwoz_values import (
    normalized_name,
    normalized_state,
    normalized_value,
)
from jaxaug.metrics.predictions import write_predictions
from jaxaug_papers import multiwoz as data
from tests.support import small_multiwoz

# Outputs of MultiWOZ_Evaluation at commit 7f19ee0, if no comment says otherwise.
PAIRS = {
    "name": {
        "acorn & lodge": "acorn and lodge",
        "acorn&lodge": "acorn and lodge",
        "rosa 's": "rosas bed and breakfast",
        "Nando's": "nandos",
        "nandos in the city centre": "nandos city centre",
        "restaurant 17": "restaurant one seven",
        "restaurant called two two": "restaurant two two",
        "cambridge botanic gardens": "cambridge university botanic gardens",
        "the botanical gardens at cambridge university": "cambridge university "
        "botanic gardens",
        "holiday inn exlpress, cambridge": "express by holiday inn cambridge",
        "christs": "christ's college",
        "anatolia": "anatolia",
    },
    "destination": {"lime house": "limehouse"},
    "departure": {"cityrooms": "cityroomz"},
    "food": {
        "English": "british",
        "portugese": "portuguese",
        "asian or oriental": "asian",
        "thai": "thai",
    },
    "type": {
        "swimming pool": "swimmingpool",
        "mutliple sports": "multiple sports",
        "night club": "nightclub",
        "guest house": "guesthouse",
    },
    "parking": {"free": "yes", "no": "no"},
    "internet": {"free": "yes"},
    "arrive": {
        "morning": "08:00",
        "mid-day": "12:00",
        "afternoon": "13:00",
        "one o'clock p.m. today": "13:00",
        "ten o'clock a.m.": "10:00",
        "three forty five p.m": "15:45",
        "by 8": "08:00",
        "after 8:15": "08:15",
        "afer 1745": "17:45",
        "9 am": "09:00",
        "9:30 a.m.": "09:30",
        "5 pm": "17:00",
        "5:15PM": "17:15",
        "5:15 p.m.": "17:15",
        "12:30 pm": "24:30",
        "17:45.": "17:45",
        "17 : 45": "17:45",
        "7:05": "07:05",
        "": "00:00",
        "am": "00:00",
        "dontcare": "dontcare",
        # There `8 pm` and `1242:00`.
        "8 pm.": "20:00",
        "1230 pm": "12:30",
    },
    "leave": {"lunch": "12:00"},
    "time": {"eight thirty": "08:30"},
    # There case and spaces stay.
    "booktime": {"5 pm": "5 pm", "5  PM": "5 pm"},
    "area": {"Centre ": "centre"},
}


@pytest.mark.parametrize(
    ("name", "raw", "expected"),
    [(name, *pair) for name, pairs in PAIRS.items() for pair in pairs.items()],
)
def test_values(name, raw, expected):
    assert normalized_value(name, raw) == expected


PARTS = st.sampled_from(
    [*" :.,?&'", "by", "after", "afer", "am", "a.m.", "pm", "p.m.", "8", "12", "free"]
    + [raw for pairs in PAIRS.values() for raw in pairs]
)


@given(st.sampled_from([*PAIRS]), st.text() | st.lists(PARTS, max_size=8).map("".join))
def test_normalizing_again_changes_nothing(name, text):
    once = normalized_value(name, text)
    assert normalized_value(name, once) == once


def test_names():
    found = [
        normalized_name("taxi", name)
        for name in ("taxi-leaveat", "taxi-leaveAt", "Taxi-leave at", "leave")
    ]
    assert found == ["leave"] * 4
    assert normalized_name("train", "arriveBy") == "arrive"
    assert normalized_name("hotel", "hotel-book people") == "bookpeople"
    assert normalized_name("hotel", "taxi-leaveat") == "taxi-leaveat"


def test_state_has_the_names_of_the_schema():
    slots = tuple(Slot(f"taxi-{s}", "", False, ()) for s in ("leaveat", "departure"))
    values: dict[str, tuple[str, ...]] = {
        "leave": ("9 am",),
        "taxi-leaveAt": ("8 am",),
        "Departure": ("caffee uno", "x"),
        "colour": ("Red",),
    }
    state = State("book", ("taxi-phone",), values)
    service = Service("taxi", "", slots, ())
    assert normalized_state(state, service) == State(
        "book",
        ("taxi-phone",),
        {
            "taxi-leaveat": ("09:00",),
            "taxi-departure": ("caffe uno", "x"),
            "colour": ("red",),
        },
    )
    exact = State("", (), {"leave": ("9",), "taxi-leaveat": ("8",)})
    assert normalized_state(exact, service).slot_values == {"taxi-leaveat": ("08:00",)}


def test_the_score_with_and_without(tmp_path, capsys):
    root = tmp_path / "data"
    data.convert(small_multiwoz.write(tmp_path / "public"), root)
    dialogues = list(sgd.read_dialogues(root, "test"))
    states = {r[:3]: r.state for r in references_of(dialogues)}
    said = {"taxi-destination": ("Acorn",), "taxi-leaveAt": ("after 8 p.m.",)}
    states["D.json", 2, "taxi"] = State("NONE", (), said)
    write_predictions(tmp_path / "pred/dialogues.json", dialogues, states)
    out = tmp_path / "m.json"
    command = ["evaluate", "multiwoz", "--split", "test", "--data_dir", str(root)]
    command += ["--predictions", str(tmp_path / "pred"), "--output", str(out)]
    assert main(command) == 0
    plain = json.loads(out.read_text())
    assert plain["joint_goal_accuracy"] == 2 / 3
    assert plain["about"]["normalized"] is False
    assert "ignored slots that the schema lacks: 1" in capsys.readouterr().err
    assert main([*command, "--normalize"]) == 0
    found = json.loads(out.read_text())
    assert found["joint_goal_accuracy"] == 1
    assert found["about"]["normalized"] is True
    printed, warned = capsys.readouterr()
    assert "dialogues scored, names and values normalized\n" in printed
    assert not warned
