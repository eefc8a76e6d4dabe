"""Predictions in DSTC8 format: round trip, and a message for every error."""

import copy
import json

import pytest

from jaxaug.core.errors import UserError
from jaxaug.data.sgd import State
from jaxaug.metrics import predictions
from jaxaug.metrics.benchmark import load, references_of
from jaxaug.metrics.predictions import read_predictions, warn, write_predictions


@pytest.fixture(scope="module")
def benchmark(data_dir):
    return load(data_dir, "test")


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "pred").mkdir()
    return tmp_path / "pred"


def put(folder, value, name="dialogues_001.json"):
    text = value if isinstance(value, str) else json.dumps(value)
    (folder / name).write_text(text, encoding="utf-8")


@pytest.fixture
def good(data_dir):
    """Returns the reference dialogues as JSON, which are perfect predictions."""
    return [
        dialogue
        for path in sorted((data_dir / "test").glob("dialogues_*.json"))
        for dialogue in json.loads(path.read_text(encoding="utf-8"))
    ]


def test_written_predictions_come_back(benchmark, folder):
    references = references_of(benchmark.dialogues.values())
    states = {}
    for number, (dialogue_id, turn, service, state) in enumerate(references):
        values = dict(state.slot_values) | {"ünknown slot": (f"välue {number}", "x")}
        states[dialogue_id, turn, service] = State("İntent", ("a", "a"), values)
    path = folder / "sub" / "p.json"
    assert write_predictions(path, benchmark.dialogues.values(), states) == []
    assert [p.name for p in path.parent.iterdir()] == ["p.json"]
    got = read_predictions(path.parent, benchmark)
    assert got.references == references
    assert got.states == list(states.values())
    assert got.spans is None
    assert not got.unpredicted and not got.ignored


def test_written_predictions_have_the_official_fields(benchmark, folder):
    dialogue = next(iter(benchmark.dialogues.values()))
    empty = State("NONE", (), {"city": ()})
    references = references_of([dialogue])
    states = {(r.dialogue_id, r.turn, r.service): empty for r in references}
    write_predictions(folder / "p.json", [dialogue], states)
    (got,) = json.loads((folder / "p.json").read_text())
    assert got["dialogue_id"] == dialogue.dialogue_id
    assert got["services"] == list(dialogue.services)
    assert [turn["speaker"] for turn in got["turns"]] == [
        turn.speaker for turn in dialogue.turns
    ]
    assert got["turns"][1] == {"speaker": "SYSTEM", "utterance": "fine", "frames": []}
    assert got["turns"][0]["utterance"] == dialogue.turns[0].utterance
    assert got["turns"][0]["frames"][0] == {
        "service": dialogue.turns[0].frames[0].service,
        "state": {"active_intent": "NONE", "requested_slots": [], "slot_values": {}},
    }


def test_dialogues_with_a_missing_frame_are_left_out_and_named(benchmark, folder):
    references = references_of(benchmark.dialogues.values())
    states = {(r.dialogue_id, r.turn, r.service): r.state for r in references}
    partial = next(d for d, n in _frames(references).items() if n > 1)
    del states[next(key for key in states if key[0] == partial)]
    path = folder / "p.json"
    assert write_predictions(path, benchmark.dialogues.values(), states) == [partial]
    got = read_predictions(folder, benchmark)
    assert got.unpredicted == [partial]
    assert len(got.states) == len(references) - _frames(references)[partial]


def _frames(references):
    ids = [reference.dialogue_id for reference in references]
    return {name: ids.count(name) for name in ids}


def test_a_failed_write_leaves_the_old_file(benchmark, folder):
    put(folder, "old", "p.json")
    broken = State("NONE", (), {"city": (object(),)})
    references = references_of(benchmark.dialogues.values())
    states = {(r.dialogue_id, r.turn, r.service): broken for r in references}
    with pytest.raises(TypeError):
        write_predictions(folder / "p.json", benchmark.dialogues.values(), states)
    assert [p.name for p in folder.iterdir()] == ["p.json"]
    assert (folder / "p.json").read_text() == "old"


def test_folders_without_predictions(benchmark, folder, good):
    def refused(place, message):
        with pytest.raises(UserError, match=message):
            read_predictions(place, benchmark)

    refused(folder / "nope", r"folder .*nope does not exist\. Name the")
    refused(folder, r"pred holds no predictions \(\*\.json\)\. Wri")
    put(folder, good)
    file = folder / "dialogues_001.json"
    refused(file, r"dialogues_001\.json is a file, expected a")
    put(folder, [])
    refused(folder, "its files hold no dialogue. Write predictions")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[{]", r"dialogues_001\.json: invalid JSON"),
        ('[{"dialogue_id": "1_0', r"dialogues_001\.json: truncated JSON"),
        ("", r"dialogues_001\.json: the file is empty"),
        ("3", r"dialogues_001\.json: expected a list of dialogues, got 3"),
        (
            "[3]",
            r"dialogues_001\.json: expected a dialogue with a 'dialogue_id', got 3",
        ),
        ('[{"turns": []}]', r"expected a dialogue with a 'dialogue_id', got \{'turns'"),
    ],
)
def test_files_of_another_shape(benchmark, folder, text, message):
    put(folder, text)
    with pytest.raises(UserError, match=message):
        read_predictions(folder, benchmark)


def test_bytes_that_are_not_utf_8(benchmark, folder):
    (folder / "p.json").write_bytes(b'[{"dialogue_id": "\xff"}]')
    with pytest.raises(UserError, match=r"p\.json: line 1: byte 0xff .* not UTF-8"):
        read_predictions(folder, benchmark)


def test_an_unknown_dialogue(benchmark, folder, good):
    good[1]["dialogue_id"] = "9_00001"
    put(folder, good)
    message = r"dialogues_001\.json: prediction for unknown dialogue '9_00001'"
    with pytest.raises(UserError, match=message + ".*Check --split and --data_dir"):
        read_predictions(folder, benchmark)


def test_a_dialogue_twice(benchmark, folder, good):
    put(folder, good)
    put(folder, good[:1], "more.json")
    message = (
        r"more\.json: dialogue '1_00000' is predicted twice, first in .*_001\.json"
    )
    with pytest.raises(UserError, match=message):
        read_predictions(folder, benchmark)


def put_in(*path, value):
    def change(dialogue):
        place = dialogue
        for step in path[:-1]:
            place = place[step]
        place[path[-1]] = value

    return change


STATE = ("turns", 0, "frames", 0, "state")


def of_state(key, value):
    return put_in(*STATE, key, value=value)


def put_span(start, end):
    span = {"slot": "x", "start": start, "exclusive_end": end}
    return put_in("turns", 0, "frames", 0, "slots", value=[span])


SPAN = (
    r"'slots': expected 0 <= start < exclusive_end <= \d+, the length of the "
    r"utterance, got \{'slot': 'x', "
)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            lambda dialogue: dialogue["turns"][0]["frames"].pop(0),
            r"turn 0: the frame of service '\w+' is missing.*Predict a state",
        ),
        (
            put_in("turns", value=[]),
            r"turn 0 is missing: the reference has \d+ turns, .*Predict every",
        ),
        (put_in("services", value=["x"]), r"'services': expected \['\w+'.*--variant"),
        (
            put_in("turns", 0, "speaker", value="SYSTEM"),
            r"expected 'USER', got 'SYSTEM'",
        ),
        (put_in("turns", 0, "utterance", value="so"), r"expected 'turn 0.*got 'so'"),
        (
            lambda dialogue: dialogue["turns"][0]["frames"].extend(
                dialogue["turns"][0]["frames"]
            ),
            r"turn 0: two frames of one service.*Keep one frame each",
        ),
        (put_in("turns", value={}), r"field 'turns': expected a list, got \{\}"),
        (put_in("turns", 0, value=7), r"turn 0: expected an object, got 7"),
        (put_in("turns", 0, "frames", value=None), r"field 'frames': .*got None"),
        (put_in(*STATE, value=[]), r"field 'state': expected an object, got \[\]"),
        (of_state("active_intent", 1), r"'active_intent': expected a string"),
        (of_state("requested_slots", "x"), r"'requested_slots': .*got 'x'"),
        (of_state("slot_values", []), r"'slot_values': expected an object"),
        (of_state("slot_values", {"q": "x"}), r"slot 'q': .*got 'x'"),
        (of_state("slot_values", {"q": []}), r"slot 'q': .*leave out slots"),
        (of_state("slot_values", {"q": [1]}), r"slot 'q': .*got \[1\]"),
        (put_in("turns", 0, "frames", 0, "slots", value=[{}]), r"'slots': .*start and"),
        (put_span(True, 2), r"'slots': .*start and exclusive_end, got \["),
        (put_span(-1, 2), SPAN + r"'start': -1, 'exclusive_end': 2\}"),
        (put_span(2, 2), SPAN + r"'start': 2, 'exclusive_end': 2\}"),
        (put_span(3, 2), SPAN + r"'start': 3, 'exclusive_end': 2\}"),
        (put_span(0, 999), SPAN + r"'start': 0, 'exclusive_end': 999\}"),
    ],
)
def test_dialogues_that_do_not_fit(benchmark, folder, good, change, message):
    change(good[2])
    put(folder, good)
    where = r"dialogues_001\.json: dialogue '1_00002'.*"
    with pytest.raises(UserError, match=where + message):
        read_predictions(folder, benchmark)


@pytest.mark.parametrize("layout", ["list", "lines", "object"])
def test_order_and_layout_of_the_files_do_not_matter(benchmark, folder, good, layout):
    expected = read_perfect(benchmark, folder, good)
    (folder / "dialogues_001.json").unlink()
    for number, part in enumerate((good[70:], good[40:70][::-1], good[:40])):
        texts = {
            "list": json.dumps(part),
            "lines": "[\n" + ",\n".join(map(json.dumps, part)) + "\n]\n",
            "object": json.dumps({one["dialogue_id"]: one for one in part}),
        }
        put(folder, texts[layout], f"{number}.json")
    assert read_predictions(folder, benchmark) == expected


def test_a_stream_reads_a_dialogue_when_its_block_is_requested(benchmark, folder, good):
    good[-1]["services"] = ["Other_1"]
    lines = ",\n".join(map(json.dumps, good))
    put(folder, f"[\n{lines}\n]\n")
    read = []
    dialogues = (read.append(d) or d for d in benchmark.dialogues.values())
    summary = predictions.Summary()
    blocks = predictions.stream(folder, benchmark, dialogues, summary, size=50)
    assert len(next(blocks).dialogues) == len(read) == summary.dialogues == 50
    assert len(next(blocks).dialogues) == 50
    with pytest.raises(UserError, match="dialogue '1_00119': field 'services'"):
        next(blocks)


def test_surplus_is_ignored_and_counted(benchmark, folder, good, capsys):
    expected = read_perfect(benchmark, folder, good)
    surplus = copy.deepcopy(good)
    surplus[0]["turns"][0]["frames"].append({"service": "Other_9", "state": {}})
    surplus[0]["turns"].append({"speaker": "USER", "utterance": "", "frames": []})
    put(folder, {d["dialogue_id"]: d for d in surplus})
    put(folder, "[]", "schema.json")
    put(folder, "not even JSON", "dialogues_and_metrics.json")
    got = read_predictions(folder, benchmark)
    assert got.states == expected.states
    counts = warn(got, 3, "here")
    assert counts == {
        "files that hold no predictions": 2,
        "frames that the references lack": 1,
        "turns that the references lack": 1,
        "slots that the schema lacks": 3,
    }
    printed = capsys.readouterr()
    assert "warning: here: ignored frames that the references lack: 1" in printed.err
    assert not printed.out


def read_perfect(benchmark, folder, good):
    put(folder, good)
    return read_predictions(folder, benchmark)


def test_dialogues_without_a_prediction_are_named(benchmark, folder, good, capsys):
    got = read_perfect(benchmark, folder, good[:-2])
    assert got.unpredicted == [d["dialogue_id"] for d in good[-2:]]
    assert warn(got, 0, "here") == {}
    message = (
        "here: 2 of 120 dialogues have no prediction (first: '1_00118') and are not"
    )
    assert message in capsys.readouterr().err


def test_utterances_and_system_frames_may_be_absent(benchmark, folder, good):
    expected = read_perfect(benchmark, folder, good)
    for dialogue in good:
        for turn in dialogue["turns"]:
            del turn["utterance"]
            if turn["speaker"] == "SYSTEM":
                del turn["frames"]
    put(folder, good)
    assert read_predictions(folder, benchmark).states == expected.states
