"""Data folder -> chat messages with tool calls -> data folder, and wrong records."""

import json
import re
import sys

import pyarrow
import pytest

from jaxaug.cli import main
from jaxaug.core.errors import UserError
from jaxaug.data import folders, record_files, sgd
from jaxaug.data.dialogue import State
from jaxaug.data.schema import Intent, Schema, Service, Slot
from jaxaug.tools import Imported
from jaxaug.tools.conversations import Exporter, Importer

CITY = {"type": "string", "description": "city"}
WEATHER = {
    "type": "function",
    "function": {
        "name": "get_weather",
        "description": "find the weather",
        "parameters": {
            "type": "object",
            "required": ["city"],
            "properties": {
                "city": CITY,
                "days": {"type": "integer", "description": "number of days"},
                "is_metric": {"type": "boolean", "description": "metric units"},
                "at": {"type": "object", "properties": {"hour": {"type": "string"}}},
            },
        },
    },
}


def user(text):
    return {"role": "user", "content": text}


def reply(text, *calls):
    made = [{"name": name, "arguments": arguments} for name, arguments in calls]
    told = {"tool_calls": made} if made else {}
    return {"role": "assistant", "content": text, **told}


def states(dialogue):
    return [
        [
            (f.service, f.state.active_intent, dict(f.state.slot_values))
            for f in turn.frames
        ]
        for turn in dialogue.turns
        if turn.speaker == "USER"
    ]


def told(dialogue):
    """Returns what records hold of a dialogue: one value, no NONE after an intent."""
    last = {}
    turns = []
    for turn in dialogue.turns:
        frames = []
        for frame in turn.frames if turn.speaker == "USER" else ():
            state = frame.state
            if state.active_intent != "NONE":
                last[frame.service] = state.active_intent
            values = {slot: v[:1] for slot, v in state.slot_values.items()}
            frames.append((frame.service, State(last[frame.service], (), values)))
        turns.append((turn.speaker, turn.utterance, frames))
    return dialogue.dialogue_id, dialogue.services, turns


@pytest.mark.parametrize("split", folders.SPLITS)
@pytest.mark.parametrize("suffix", ["jsonl", "parquet"])
def test_export_and_import_keep_states_utterances_and_services(
    tmp_path, split, suffix, capsys
):
    file, out = tmp_path / f"chats.{suffix}", tmp_path / "data"
    source = folders.resolve_data_dir()
    words = ["data", "export", str(source), "--split", split, "--out", str(file)]
    assert main(words) == 0
    words = ["data", "import", str(file), "--split", split, "--out", str(out)]
    assert main(words) == 0
    before = [told(one) for one in sgd.read_dialogues(source, split)]
    assert len(before) > 100
    assert [told(one) for one in sgd.read_dialogues(out, split)] == before
    assert "active intents NONE; they become the last intent" in capsys.readouterr().out


def test_a_state_has_the_calls_so_far_with_those_of_the_reply():
    importer = Importer()
    calls = [
        {"city": "Paris", "days": 2, "at": {"hour": "noon"}},
        {"city": "Oslo", "days": None, "is_metric": True, "sky": "blue"},
    ]
    messages = [
        {"role": "system", "content": "be kind"},
        reply("welcome"),
        user("hello"),
        reply("hi"),
        user("weather"),
        user("in Paris at noon"),
        reply(None, ("get_weather", json.dumps(calls[0]))),
        {"role": "tool", "content": "sunny"},
        reply("it is sunny"),
        user("and Oslo"),
        reply("", ("get_weather", calls[1])),
        user([{"type": "text", "text": "bye"}]),
    ]
    record = {"messages": messages, "tools": [WEATHER], "source": "me"}
    one = importer.dialogue(record, "a.jsonl: line 1", "train_1")
    assert [(turn.speaker, turn.utterance) for turn in one.turns] == [
        ("USER", "hello"),
        ("SYSTEM", "hi"),
        ("USER", "weather in Paris at noon"),
        ("SYSTEM", "it is sunny"),
        ("USER", "and Oslo"),
        ("SYSTEM", ""),
        ("USER", "bye"),
    ]
    paris = {"city": ("Paris",), "days": ("2",), "at.hour": ("noon",)}
    oslo = {"city": ("Oslo",), "at.hour": ("noon",), "is_metric": ("True",)}
    name = "get_weather"
    assert states(one) == [[], [(name, name, paris)]] + 2 * [[(name, name, oslo)]]
    assert (one.dialogue_id, one.services) == ("train_1", (name,))
    assert +importer.lost == {
        "messages of the role system": 1,
        "messages of the role tool": 1,
        "assistant messages before the first of the user": 1,
        "messages joined with the one before": 1,
        "arguments 'sky' that get_weather does not declare": 1,
        "fields 'source'": 1,
        "parts of tools that a schema does not hold": 2,
    }


@pytest.mark.parametrize(
    ("call", "values"),
    [
        ({"tool_calls": [{"function": {"name": "f", "arguments": ""}}]}, {}),
        ({"tool_calls": [{"function": {"name": "f", "arguments": None}}]}, {}),
        ({"tool_calls": [{"function": {"name": "f"}}]}, {}),
        ({"tool_calls": [{"name": "f", "arguments": {}}]}, {}),
        (
            {"function_call": {"name": "f", "arguments": '{"user.name": "bob"}'}},
            {"user_name": ("bob",)},
        ),
        (
            {"tool_calls": [], "function_call": {"name": "f", "arguments": {"b": ""}}},
            {},
        ),
    ],
)
def test_empty_and_older_calls(call, values):
    text = {"type": "string"}
    parameters = {"type": "object", "properties": {"user.name": text, "b": text}}
    record = {
        "messages": [
            user("a"),
            {"role": "assistant", "content": None} | call,
            {"role": "function", "name": "f", "content": "ok"},
        ],
        "tools": [
            {"type": "function", "function": {"name": "f", "parameters": parameters}}
        ],
    }
    importer = Importer()
    one = importer.dialogue(record, "x", "y")
    assert states(one) == [[("f", "f", values)]]
    assert importer.lost["messages of the role function"] == 1
    assert not [key for key in importer.lost if "declare" in key]


def test_calls_tell_removed_values_and_slots_of_other_intents():
    slots = tuple(Slot(name, name, False, ()) for name in ("city", "seats"))
    find = Intent("Find", "find", False, ("city",), (), ())
    book = Intent("Book", "book", True, ("seats",), (), ())
    schema = Schema((Service("Bus", "bus", slots, (find, book)),))
    record = {
        "id": 7,
        "messages": [
            user("a"),
            reply("b", ("Bus__Find", {"city": "Rome"}), ("Bus__Book", {"seats": "2"})),
            user("c"),
            reply("d", ("Bus__Find", {"city": None}), ("Bus__Book", {"seats": "3"})),
            user("e"),
        ],
    }
    one = Importer(Imported("sgd", schema, ())).dialogue(record, "x", "y")
    first, second = {"city": ("Rome",), "seats": ("2",)}, {"seats": ("3",)}
    assert states(one) == [[("Bus", "Book", first)]] + 2 * [[("Bus", "Book", second)]]
    again = Exporter(schema).record(one)
    called = [
        [(c["function"]["name"], json.loads(c["function"]["arguments"])) for c in calls]
        for m in again["messages"]
        if (calls := m.get("tool_calls"))
    ]
    assert called == [
        [("Bus__Find", {"city": "Rome"}), ("Bus__Book", {"seats": "2"})],
        [("Bus__Find", {"city": None}), ("Bus__Book", {"seats": "3"})],
    ]
    assert (again["id"], len(again["tools"])) == ("7", 2)


def test_other_tools_of_the_same_name_become_another_service():
    importer = Importer()
    other = json.loads(json.dumps(WEATHER))
    del other["function"]["parameters"]["properties"]["days"]
    messages = [user("a"), reply("b", ("get_weather", {"city": "Rome"}))]
    for number, tools in enumerate([[WEATHER], json.dumps([other]), [WEATHER]]):
        record = {"messages": messages, "tools": tools}
        one = importer.dialogue(record, "x", str(number))
        assert one.services == (f"get_weather{'_2' * (number == 1)}",)
    assert [*importer.services] == ["get_weather", "get_weather_2"]
    assert importer.lost["tools whose name another tool has; renamed"] == 1


def test_dialogues_without_tools_have_empty_states(tmp_path, capsys):
    file, out = tmp_path / "chats.json", tmp_path / "data"
    file.write_text(json.dumps([{"messages": [user("hi"), reply("hello")]}] * 2))
    words = ["data", "import", str(file), "--split", "dev", "--out", str(out)]
    assert main(words) == 0
    assert [states(one) for one in sgd.read_dialogues(out, "dev")] == [[[]]] * 2
    assert capsys.readouterr().out == (
        f"wrote 2 dialogues, 2 user turns, 0 states, 1 service to {out}/dev\n"
        "changed or left out:\n"
        "  dialogues without a tool call, whose states are empty: 2\n"
    )


def test_folders_of_datasets_are_read_by_split(tmp_path):
    """`save_to_disk` writes streams of Arrow batches, and JSON files about them."""
    json_texts = pyarrow.array([json.dumps(user("b"))], pyarrow.json_())
    messages = pyarrow.ListArray.from_arrays([0, 1], json_texts)
    tables = [
        pyarrow.table({"id": ["x"], "messages": [[user("a")]], "tools": [[WEATHER]]}),
        pyarrow.table({"id": ["y"], "messages": messages, "tools": [None]}),
    ]
    for folder, table in zip(["train", "validation"], tables, strict=True):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "state.json").write_text("{}")
        place = tmp_path / folder / "data-00000-of-00001.arrow"
        with (
            place.open("wb") as file,
            pyarrow.ipc.new_stream(file, table.schema) as writer,
        ):
            writer.write_table(table)
    (tmp_path / "dataset_dict.json").write_text("{}")
    for split, name in (("train", ("x", "a")), ("dev", ("y", "b"))):
        out = tmp_path / "data"
        words = ["data", "import", str(tmp_path), "--split", split, "--out", str(out)]
        assert main(words) == 0
        [one] = sgd.read_dialogues(out, split)
        assert (one.dialogue_id, one.turns[0].utterance) == name
    with pytest.raises(UserError, match="nothing of the split test, only train, valid"):
        [*record_files.read(tmp_path, "test")]


GOOD = {"messages": [user("a")], "tools": [WEATHER]}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            {"messages": [{"role": "bot"}]},
            r"messages #0: expected .* a role of user, a",
        ),
        ({"messages": [reply("hi")]}, "no message is by the user. Add one, or drop it"),
        ({"messages": "hi"}, "messages: expected a list, got 'hi'. Write"),
        ({"messages": [user(3)]}, "messages #0: content: expected a text, got 3"),
        (
            {"messages": [user("a"), reply("b", ("get_wether", {}))]},
            "#1: the called tool 'get_wether' is not defined; did you mean 'get_weath",
        ),
        (
            {"messages": [user("a"), reply("b", ("get_weather", "[1]"))]},
            r"messages #1: the arguments of get_weather are no JSON object: '\[1\]'.",
        ),
        (
            {"messages": [user("a") | {"tool_calls": [{}]}]},
            "messages #0: tool_calls of the role user: .* Only the assistant calls",
        ),
        ({"tools": "[{"}, "tools: truncated JSON: .* Write "),
        (
            {"tools": [{"type": "function"}]},
            "tools: 0/name: the name of a tool: expected a s",
        ),
        ({"id": "same"}, "the id 'same' is also in .*: line 1. Give each record anot"),
    ],
)
def test_wrong_records_give_line_rule_and_fix(tmp_path, capsys, change, message):
    file, out = tmp_path / "chats.jsonl", tmp_path / "data"
    lines = [GOOD | {"id": "same"}, GOOD | change]
    file.write_text("\n\n".join(map(json.dumps, lines)))
    words = ["data", "import", str(file), "--split", "dev", "--out", str(out)]
    assert main(words) == 1
    error = capsys.readouterr().err
    assert error.startswith(f"jaxaug: error: {file}: line 3: ")
    assert re.search(message, error), error
    assert not [*out.iterdir()]


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("a.jsonl", "\n", "a.jsonl: holds no record. Name a file of records"),
        ("a.json", "[]", "a.json: holds no record. Name a file of records"),
        ("a.jsonl", "{}\n[1]", r"line 2: expected an object with messages, got \[1\]"),
        ("a.jsonl", "{}\n{", "line 2: is no JSON: truncated JSON"),
        ("a.csv", "{}", "a.csv: the suffix names no format of records. Name a file"),
        ("a.parquet", "PAR1", "a.parquet: cannot be read after 0 records: .* Write"),
        ("a.arrow", "ARROW", "a.arrow: cannot be read after 0 records: .* Write"),
    ],
)
def test_wrong_files_give_place_and_fix(tmp_path, name, text, message):
    (tmp_path / name).write_text(text)
    with pytest.raises(UserError, match=message):
        [*record_files.read(tmp_path / name, "dev")]


def test_parquet_without_pyarrow_names_the_extra(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    (tmp_path / "a.parquet").write_text("PAR1")
    with pytest.raises(UserError, match="needs the package pyarrow.* extra 'parquet'"):
        [*record_files.read(tmp_path / "a.parquet", "dev")]
