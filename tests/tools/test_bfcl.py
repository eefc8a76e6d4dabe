"""Dialogues of the Berkeley Function Calling Leaderboard."""

import json

import pytest

from jaxaug import cli
from jaxaug.core.errors import UserError
from jaxaug.tools import bfcl, cases
from jaxaug.tools.match import ABSENT

FILE = "BFCL_v4_multi_turn_base.json"


def function(name, **properties):
    parameters = {"type": "dict", "properties": properties, "required": []}
    return {"name": name, "description": f"tool to {name}", "parameters": parameters}


TEXT, NUMBER = {"type": "string"}, {"type": "integer"}
FUNCTIONS = [
    function("cd", folder=TEXT),
    function("ls", all={"type": "boolean", "default": False}),
    function("tail", file=TEXT, lines=NUMBER | {"default": 10}),
    function(
        "order", side={"type": "string", "enum": ["Buy"]}, price={"type": "float"}
    ),
    function("cancel", price={"type": "float"}, reasons={"type": "array"}),
    function("rm", file=TEXT),
]
TURNS = [
    ("show all files", ["ls(True)"]),
    ("go to docs and show them", ["cd(folder='docs')", "ls()"]),
    ("the last lines of A.txt", ["tail(file='a.txt', lines=10)"]),
    ("and its last 1,200 lines", ["tail('A.txt', lines=1200)"]),
    ("get one at today's price", ["order(side='Buy', price=7.5)"]),
    ("cancel it: too dear, too late", ["cancel(7.5, ('too dear', 'too late'))"]),
    ("thanks", []),
]


def written(tmp_path, **changes):
    """Writes a dialogue with its functions and answers; returns its file."""
    says = [[{"role": "user", "content": text}] for text, _ in TURNS]
    dialogue = {"id": "base_0", "question": says, "involved_classes": ["MathAPI"]}
    dialogue |= {"excluded_function": ["rm"], "initial_config": {}} | changes
    answer = {"id": "base_0", "ground_truth": [calls for _, calls in TURNS]}
    for path, rows in (
        (FILE, [dialogue]),
        (f"possible_answer/{FILE}", [answer]),
        ("multi_turn_func_doc/math_api.json", FUNCTIONS),
    ):
        (tmp_path / path).parent.mkdir(exist_ok=True)
        (tmp_path / path).write_text("".join(json.dumps(row) + "\n" for row in rows))
    return tmp_path / FILE


def test_turns_whose_values_are_known(tmp_path):
    (source,) = cases.read(written(tmp_path), None)
    found = {int(one.id.split()[1]): one for one in source.cases}
    right = {
        n: (one.expected[0].name, one.expected[0].accepted) for n, one in found.items()
    }
    assert right == {
        0: ("ls", {"all": (True,)}),
        2: ("tail", {"file": ("a.txt",), "lines": (10, ABSENT)}),
        3: ("tail", {"file": ("A.txt",), "lines": (1200,)}),
        5: ("cancel", {"price": (7.5,), "reasons": (["too dear", "too late"],)}),
    }  # fmt: skip
    left = {bfcl.SEVERAL: 1, bfcl.NEEDS_RESULT: 1, bfcl.NO_CALL: 1}
    assert source.left_out == left
    assert {one.group for one in source.cases} == {"base_0"}
    assert len(found[0].messages) == 1 and len(found[0].tools) == 5
    assert [one["role"] for one in found[2].messages] == [
        *("user", "assistant", "tool"),
        *("user", "assistant", "tool", "tool", "user"),
    ]
    made = found[2].messages[4]["tool_calls"]
    assert [json.loads(one["function"]["arguments"]) for one in made] == [
        {"folder": "docs"},
        {},
    ]
    told = [one["tool_call_id"] for one in found[2].messages[5:7]]
    assert told == [one["id"] for one in made]


def test_left_out_turns_are_reported(tmp_path, capsys, monkeypatch):
    def as_they_are(sources, *_):  # The grammar's judge needs a model.
        found = [case for source in sources for case in source.cases]
        return dict.fromkeys((cases.ORIGINAL, cases.CONTROL), found)

    monkeypatch.setattr(cases, "of_sources", as_they_are)
    words = ["--model", "openai:a", "--endpoint", "http://localhost:1/v1", "--dry_run"]
    path = str(written(tmp_path))
    assert cli.main(["sensitivity", "--in", path, *words]) == 0
    said = capsys.readouterr().out
    assert "4 cases" in said and f", 1 {bfcl.NEEDS_RESULT}, 1" in said


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"missed_function": {"1": ["ls"]}}, "line 1: .* message that offers a tool"),
        ({"id": "multi_turn_long_context_0"}, "line 1: .* long results of tools"),
        ({"involved_classes": ["MemoryAPI"]}, "results of 'MemoryAPI'"),
        ({"involved_classes": ["TravelAPI"]}, "travel_booking.json, which does not ex"),
        ({"question": [[]]}, "question: messages: expected a list"),
        ({"question": [[{"role": "user"}]]}, "the calls of all 1 turns"),
        ({"excluded_function": ["cd"]}, r"no function of the call \"cd\(folder='docs'"),
        ({"id": "base_1"}, "no answer to base_1"),
    ],
)
def test_dialogues_that_cannot_be_read(tmp_path, changes, text):
    with pytest.raises(UserError, match=text):
        cases.read(written(tmp_path, **changes), None)
