"""`jaxaug data show`: exact text, colors, and errors."""

import io

import pytest

from jaxaug.cli import main
from jaxaug.data import show

_TRIP = """\
4_00001 (test): Trains_1
  0 USER    A train to [Kyiv](city) please
    Trains_1: FindTrain
      + city = Kyiv
  1 SYSTEM  I found 2. The price is 30.
    Trains_1: calls FindTrain(city=Kyiv): 2 results
  2 USER    First class. What is the price again?
    Trains_1: BuyTicket (was FindTrain)  asks for price
        city = Kyiv
      + class = first

"""
_LEGEND = "[text](slot): a span of the annotation; + new, ~ changed, - gone\n"


def shown(capsys, *arguments):
    assert main(["data", "show", *map(str, arguments)]) == 0
    return capsys.readouterr().out


def test_a_dialogue(sgd_tree, capsys):
    assert shown(capsys, sgd_tree, "--dialogue", "4_00001") == _TRIP + _LEGEND


def test_frames_of_two_services(sgd_tree, capsys):
    assert shown(capsys, sgd_tree, "--split", "test", "--num", 1) == (
        """\
4_00000 (test): Parks_1, Trains_1
  0 USER    A park for a picnic, and a train there
    Parks_1: FindPark  asks for park
      + intent = picnic | a picnic
    Trains_1: NONE
  1 SYSTEM  Try [Green Park](park)

"""
        + _LEGEND
    )


def test_changed_and_removed_values(sgd_tree, edit_json, capsys):
    def change(dialogues):
        state = dialogues[1]["turns"][2]["frames"][0]["state"]
        state["slot_values"] = {"class": ["second\x1b[31m"], "city": ["Rome", "Roma"]}
        spans = dialogues[1]["turns"][0]["frames"][0]["slots"]
        spans += [
            {"slot": "price", "start": 11, "exclusive_end": 15},
            {"slot": "price", "start": 13, "exclusive_end": 16},
            {"slot": "price", "start": 2, "exclusive_end": 7},
        ]

    edit_json(sgd_tree / "test/dialogues_001.json", change)
    dialogue = next(
        d for _, d in show.choose(sgd_tree, "test") if d.dialogue_id == "4_00001"
    )
    lines = list(show.text(dialogue, "test", show._plain))
    assert lines[1] == "  0 USER    A [train](price) to [Kyiv](city, price) please"
    assert lines[-2:] == [
        "      + class = second\\x1b[31m",
        "      ~ city = Rome | Roma (was Kyiv)",
    ]
    before, after = (t.frames[0].state for t in dialogue.turns[::2])
    gone = list(show._state("Trains_1", after, before, show._plain))
    assert gone == [
        "    Trains_1: FindTrain (was BuyTicket)",
        "      ~ city = Kyiv (was Rome | Roma)",
        "      - class = second\\x1b[31m",
    ]


def test_which_dialogues(sgd_tree, capsys):
    def ids(*arguments):
        out = shown(capsys, sgd_tree, *arguments)
        return [line.split(" ")[0] for line in out.splitlines() if line[:1].isdigit()]

    assert ids() == ["1_00000", "2_00000", "3_00000"]
    assert ids("--num", 9, "--split", "dev") == ["3_00000", "3_00001"]
    assert ids("--num", 9, "--service", "Parks_1") == ["3_00001", "4_00000"]


class Terminal(io.StringIO):
    def isatty(self):
        return True


def test_colours_are_for_terminals_that_want_them(sgd_tree, monkeypatch):
    def written(*arguments):
        terminal = Terminal()
        monkeypatch.setattr("sys.stdout", terminal)
        options = ["--dialogue", "4_00001", *arguments]
        assert main(["data", "show", str(sgd_tree), *options]) == 0
        return terminal.getvalue()

    monkeypatch.delenv("NO_COLOR", raising=False)
    coloured = written()
    assert "\033[1;36mUSER  \033[0m  A train to " in coloured
    assert "\033[4;33mKyiv\033[0m\033[2m](city)\033[0m please\n" in coloured
    assert "      \033[32m+ class = first\033[0m\n" in coloured
    assert written("--no-color") == _TRIP + _LEGEND
    monkeypatch.setenv("NO_COLOR", "1")
    assert written() == _TRIP + _LEGEND


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--dialogue", "4_0001"], "no dialogue '4_0001'; did you mean '4_00001' or"),
        (["--service", "Park_1"], "no service 'Park_1'; did you mean 'Parks_1'?"),
        (["--service", "Parks_1", "--split", "train"],
         ": train: no service 'Parks_1'; known: Trains_1."),
        (["--service", "Parks_1", "--dialogue", "4_00001"],
         "dialogue '4_00001' is not about service 'Parks_1'. Leave --service out"),
    ],
)  # fmt: skip
def test_refusals(sgd_tree, capsys, arguments, message):
    assert main(["data", "show", str(sgd_tree), *arguments]) == 1
    captured = capsys.readouterr()
    assert captured.out == "" and message in captured.err


def test_embedded_and_real_data(capsys, real_data):
    out = shown(capsys, real_data / "sgd", "--split", "dev", "--num", 200)
    assert out.count(" (dev): ") == 200
