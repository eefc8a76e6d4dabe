"""A tracker outside its run: its inputs, parity with T5X, and its outputs."""

import dataclasses
import functools
import io
import json
import shutil
import time

import jax
import numpy as np
import pytest
from t5x import decoding, models

import jaxaug
from jaxaug import cli
from jaxaug.core.buckets import pad
from jaxaug.core.errors import UserError
from jaxaug.data import sgd
from jaxaug.data.schema import Schema, read_schema
from jaxaug.formats import d3st
from jaxaug.metrics import evaluate_folder
from jaxaug.track import run, turns
from jaxaug.track import tracker as tracker_module
from jaxaug.track.answers import Said, find
from jaxaug.track.options import Robust
from jaxaug.track.tracker import Tracker

TALK = "USER: A train to Oslo please\nSYSTEM: I found 2.\nUSER: First class.\n"


@pytest.fixture
def schema(sgd_tree):
    return read_schema(sgd_tree / "test/schema.json")


def test_tokens_equal_t5x(trained):
    """Batches have a few widths and one number of rows; the order is kept."""
    folder, _ = trained
    tracker = Tracker.load(folder, batch_size=2)
    inputs = [[*range(9, 9 + n % 39), 1] for n in (3, 38, 5, 37, 6, 33, 2, 36)]
    found = tracker.write_tokens(inputs)
    model = tracker._model
    t5x = models.EncoderDecoderModel(
        *(model.module, model.input_vocabulary, model.output_vocabulary, None),
        decode_fn=functools.partial(decoding.temperature_sample, temperature=0.0),
    )
    expected = jax.jit(t5x.predict_batch)(
        tracker._params,
        {
            "encoder_input_tokens": pad(inputs, len(inputs), 40),
            "decoder_input_tokens": np.zeros((len(inputs), 12), np.int32),
        },
    )
    assert found == np.asarray(expected).tolist()
    assert len({tuple(row) for row in found}) > 3


@pytest.mark.parametrize("robust", [Robust(), Robust(constrained=True)])
def test_nan_logits_are_no_empty_state(trained, robust):
    folder, data = trained
    tracker = Tracker.load(folder, data / "test/schema.json", robust=robust)
    broken = tracker.with_params(jax.tree.map(lambda x: x * np.nan, tracker._params))
    with pytest.raises(UserError, match="step 0 .*NaN or infinite.* check the weights"):
        broken.predict(TALK)
    with pytest.raises(UserError, match="its output for a text is nan"):
        broken._log_likelihoods([([5, 5, 1], "none")])


def test_compiled_trackers_compile_nothing_later(trained, monkeypatch):
    """Later predictions have only shapes that `compiled` has compiled."""
    folder, data = trained
    asked = set()

    def decode(model, function, num, length, params, sources, ids, key):
        asked.add(sources.shape)
        return np.ones((len(sources), 1, length), np.int32)

    monkeypatch.setattr(tracker_module.decoder, "decode", decode)
    own = Tracker.load(folder, data / "test/schema.json", batch_size=4)
    wordings = [
        read_schema(path) for path in sorted(data.glob("sgd_x/data/*/test/schema.json"))
    ]
    ready = own.compiled([own.schema, *wordings])
    compiled = frozenset(asked)
    assert compiled == {(4, 32), (4, 40)}
    asked.clear()
    for schema in (own.schema, *wordings):
        for length in (0, 2, 9, 40):
            ready.about(schema).predict("USER: a\n" + "USER: a b c d\n" * length)
    assert asked == compiled
    asked.clear()
    own.predict("USER: a\nUSER: b\n")
    assert asked == {(2, 32), (2, 40)}
    # A prompt shorter than the prompts of all wordings.
    asked.clear()
    bare = dataclasses.replace(own.schema.services[0], slots=(), intents=())
    ready.about(Schema((bare,))).predict("USER: a")
    assert asked == {(4, 32)}


def test_of_a_long_text_only_the_end_is_tokenized(trained, monkeypatch):
    tracker = Tracker.load(trained[0])
    words, seen = tracker._model.input_vocabulary, []
    length = tracker._lengths["inputs"]
    encode = words.encode
    texts = [
        "a train, to oslo. " * 5000,
        "a" + " " * 90_000 + "b",  # the whole text has few tokens
        "x" * 20_000,  # no blank where it could be cut
        "a train to oslo",
    ]
    expected = [[*encode(text)[1 - length :], words.eos_id] for text in texts]

    def noted(text):
        seen.append(len(text))
        return encode(text)

    monkeypatch.setattr(words, "encode", noted)
    assert [tracker._encode(text) for text in texts] == expected
    assert seen[0] < 1000 and seen[-1] == len(texts[-1])


def test_work_stops_when_asked_between_inputs_and_batches(trained):
    tracker = Tracker.load(trained[0], batch_size=2)
    left = iter(range(5))

    def between():
        if next(left, None) is None:
            raise TimeoutError

    stopped = tracker.about(tracker.schema, between)
    with pytest.raises(TimeoutError):
        stopped.predict("USER: a\n" * 9)
    asked = []
    one = {"services": ["Trains_1"], "turns": [{"speaker": "USER", "utterance": "a"}]}
    tracker.about(tracker.schema, lambda: asked.append(1)).predict(one)
    assert len(asked) == 2  # an input and a batch


def answering(tracker, *texts):
    """Returns a writer that answers with the texts in turn, for any input."""
    left = iter(texts)
    words = tracker._model.input_vocabulary
    return lambda inputs: [[*words.encode(next(left)), 1, 0, 0] for _ in inputs]


def test_states_and_spans(trained):
    folder, data = trained
    tracker = Tracker.load(folder, data / "train/schema.json")
    dialogue = turns.read_dialogues(TALK, "talk", tracker.schema)
    answers = (
        "[states] 0=oslo [intents] i0 [req_slots] 2",
        "[states] 0=oslo 1=1a 2=50 [intents] i1 [req_slots]",
    )
    (found,) = tracker.predict_all(dialogue, answering(tracker, *answers))
    first, second = found.as_json()["turns"][::2]
    assert first["frames"] == [
        {
            "service": "Trains_1",
            "state": {
                "active_intent": "FindTrain",
                "requested_slots": ["price"],
                "slot_values": {"city": ["oslo"]},
            },
            "spans": {"city": {"turn": 0, "start": 11, "end": 15, "text": "Oslo"}},
        }
    ]
    (frame,) = second["frames"]
    assert frame["state"]["slot_values"] == {
        "city": ["oslo"], "class": ["first"], "price": ["50"]
    }  # fmt: skip
    assert frame["spans"]["class"] == {"turn": 2, "start": 0, "end": 5, "text": "First"}
    assert frame["spans"].keys() == {"city", "class"}  # The value 50 occurs in no turn.


def test_prompts_equal_training(trained):
    """Prompts from dialogues without annotation, cut on the left, in lower case."""
    folder, data = trained
    tracker = Tracker.load(folder)
    seen = []

    def write(inputs):
        seen.extend(inputs)
        return [[1]] * len(inputs)

    bare = [
        {
            **json.loads(json.dumps(item)),
            "turns": [
                {**turn, "frames": [{"service": f["service"]} for f in turn["frames"]]}
                for turn in item["turns"]
            ],
        }
        for item in json.loads((data / "dev/dialogues_001.json").read_text())
    ]
    tracker.predict_all(
        turns.read_dialogues(json.dumps(bare), "bare", tracker.schema), write
    )
    formatter = d3st.D3STFormatter(
        read_schema(data / "dev/schema.json"), d3st.D3STOptions()
    )
    words = tracker._model.input_vocabulary
    expected = [
        [*words.encode(example.inputs)[-39:], 1]
        for dialogue in sgd.read_dialogues(data, "dev")
        for example in formatter.dialogue(dialogue)
    ]
    assert seen == expected and max(map(len, seen)) == 40


def test_all_ways_to_say_the_same(trained, tmp_path, monkeypatch, capsys):
    folder, data = trained
    moved = shutil.move(folder, tmp_path / "moved")
    schema = shutil.copy(data / "train/schema.json", tmp_path / "mine.json")
    monkeypatch.setenv("JAXAUG_DATA_DIR", str(tmp_path / "gone"))
    tracker = jaxaug.Tracker.load(moved, schema)
    expected = tracker.predict(TALK).as_json()
    listed = [
        {"speaker": speaker, "utterance": text}
        for speaker, _, text in (line.partition(": ") for line in TALK.splitlines())
    ]
    for dialogue in (listed, {"turns": listed}, {"turns": listed, "services": []}):
        assert tracker.predict(dialogue).as_json() == expected
    for text in (TALK, json.dumps({"turns": listed}), json.dumps([{"turns": listed}])):
        monkeypatch.setattr("sys.stdin", io.StringIO(text))
        command = ["predict", "--run", str(moved), "--schema", str(schema)]
        assert cli.main(command) == 0
        assert json.loads(capsys.readouterr().out) == expected
    two = tmp_path / "two.jsonl"
    two.write_text(2 * f"{json.dumps({'turns': listed})}\n")
    out = tmp_path / "out.jsonl"
    assert cli.main([*command, "--in", str(two), "--out", str(out)]) == 0
    first, second = map(json.loads, out.read_text().splitlines())
    assert first == expected and second["dialogue_id"] == "dialogue_2"
    assert second["turns"] == expected["turns"]


def test_a_folder_that_evaluate_reads(trained, tmp_path):
    folder, data = trained
    tracker = Tracker.load(folder)
    file = data / "test/dialogues_001.json"
    run.write(run.predict(tracker, file.read_text(), str(file)), tmp_path / "pred")
    assert evaluate_folder(data, "test", tmp_path / "pred")
    # The variant's schema replaces it, with its names.
    variant = Tracker.load(folder, data / "sgd_x/data/v2/test/schema.json")
    run.write(run.predict(variant, file.read_text(), str(file)), tmp_path / "v2")
    assert evaluate_folder(data, "test", tmp_path / "v2", variant="v2")


def test_computed_results_are_reused(trained, monkeypatch):
    folder, _ = trained
    monkeypatch.setattr(run, "_SHARD", 2)
    text = f"{TALK}\n{TALK.replace('Oslo', 'Rome')}"
    expected = [p.as_json() for p in run.predict(Tracker.load(folder), text, "text")]
    calls = []

    def stopped(self, inputs):
        calls.append(inputs)
        raise KeyboardInterrupt

    monkeypatch.setattr(Tracker, "write_tokens", stopped)
    again = run.predict(Tracker.load(folder), text, "text")
    assert [p.as_json() for p in again] == expected and not calls
    with pytest.raises(KeyboardInterrupt):
        run.predict(Tracker.load(folder), text.replace("Rome", "Kyiv"), "text")
    assert len(calls) == 1


def test_services_that_are_asked_about(trained, tmp_path, capsys):
    folder, _ = trained
    (tmp_path / "talk.txt").write_text("USER: hello\n")
    command = ["predict", "--run", str(folder), "--in", str(tmp_path / "talk.txt")]
    for names in (["Parks_1"], ["Trains_1", "Parks_1"]):
        assert cli.main([*command, "--services", *names]) == 0
        answer = json.loads(capsys.readouterr().out)
        assert [f["service"] for f in answer["turns"][0]["frames"]] == names
    assert cli.main([*command, "--services", "Park_1"]) == 1
    assert "did you mean 'Parks_1'" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "talk: holds no dialogue. Give dialogues in the layout of SGD"),
        ("USER: a\nhello", "talk: line 2: expected USER: or SYSTEM: and the utterance"),
        ("[{]", "talk: is not JSON: "),
        ('{"turns": [{"speaker": "USER", "utterance": "a"}]}\n{',
         "talk: is not JSON: line 2"),
        ('{"turns": [{"speaker": "USER", "utterance": ""}]}\n{"turns":0, "turns":1}',
         "talk: is not JSON: line 2: .*an object has the name 'turns' 2 times"),
        ('{"turn": [], "services": []}',
         "dialogue #0: unknown key 'turn'; did you mean 'turns'. Correct or remove"),
        ('{"servces": ["Trains_1"], "turns": [{"speaker": "USER", "utterance": 1}]}',
         "dialogue #0: unknown key 'servces'; did you mean 'services'"),
        ('{"turns": [{"speaker": "USER", "utterence": "a"}]}',
         "turn 0: unknown key 'utterence'; did you mean 'utterance'"),
        ('{"turns": [{"speaker": "USER", "utterance":"", "frames":[{"servce":1}]}]}',
         "turn 0: frames: unknown key 'servce'; did you mean 'service'"),
        ('{"turns": []}', "talk: dialogue #0: expected a dialogue with turns, got"),
        ('[{"turns": [{"speaker": "BOT"}]}]', r"turn 0: expected speaker \(USER or"),
        ('{"services": ["Train_1"], "turns": [{"speaker": "USER", "utterance":""}]}',
         "the schema has no service 'Train_1'; did you mean 'Trains_1'.*--schema"),
        ('{"turns": [{"speaker": "USER", "utterance": "a", "frames": 3}]}',
         "turn 0: frames: expected a list, got 3"),
        ('{"turns": [{"speaker": "USER", "utterance": "\\ud83c"}]}',
         "a string holds .*half of a surrogate pair"),
        (2 * '{"dialogue_id": "a", "turns": [{"speaker": "USER", "utterance": ""}]}\n',
         "line 2: dialogue_id 'a' occurs twice. Give each"),
    ],
)  # fmt: skip
def test_invalid_dialogues(schema, text, message):
    with pytest.raises(UserError, match=message):
        turns.read_dialogues(text, "talk", schema)


def test_fields_of_other_files_are_known(schema):
    """Fields of annotated SGD and MultiWOZ dialogues, and of `jaxaug predict`."""
    frame = dict.fromkeys(
        ("slots", "state", "actions", "service_call", "service_results", "spans")
    )
    turn = {"turn_id": "0", "speaker": "USER", "utterance": "a"}
    turn["frames"] = [{**frame, "service": "Trains_1"}]
    item = {"dialogue_id": "1", "services": ["Trains_1"], "turns": [turn]}
    (found,) = turns.read_dialogues(json.dumps(item), "talk", schema)
    assert [f.service for f in found.turns[0].frames] == ["Trains_1"]


def test_a_service_that_is_listed_again_counts_once(schema):
    turn = {"speaker": "USER", "utterance": "a", "frames": ["Trains_1"] * 3}
    found = turns.of_object([turn], "talk", schema, "1")
    assert [f.service for f in found.turns[0].frames] == ["Trains_1"]


def test_runs_of_blanks_take_no_time(schema):
    start = time.monotonic()
    said = f"a{' ' * 200_000}b"
    (found,) = turns.read_dialogues(f"USER:  {said} ", "talk", schema)
    assert found.turns[0].utterance == said
    assert time.monotonic() - start < 5


def test_lines_end_at_line_feeds_alone(schema):
    said = "a table\u2028in Oslo\u0085"
    line = json.dumps(
        {"turns": [{"speaker": "USER", "utterance": said}]}, ensure_ascii=False
    )
    for text in (f"{line}\n{line}\n", f"{line}\r\n{line}"):
        found = turns.read_dialogues(text, "talk", schema)
        assert [one.turns[0].utterance for one in found] == [said, said]
    (plain,) = turns.read_dialogues("USER: a\u0085b\rSYSTEM: c\r\n", "talk", schema)
    assert [turn.utterance for turn in plain.turns] == ["a\u0085b", "c"]


def test_the_input_is_not_replaced(trained, tmp_path, capsys, monkeypatch):
    folder, _ = trained
    monkeypatch.chdir(tmp_path)
    command = ["predict", "--run", str(folder)]
    for name, out in (("dialogues.json", "."), ("d.jsonl", "../x/d.jsonl")):
        (tmp_path / "x").mkdir(exist_ok=True)
        monkeypatch.chdir(tmp_path / "x")
        (tmp_path / "x" / name).write_text("USER: hi\n")
        assert cli.main([*command, "--in", name, "--out", out]) == 1
        assert f"would replace the input {name}" in capsys.readouterr().err
        assert (tmp_path / "x" / name).read_text() == "USER: hi\n"


def test_runs_of_other_models_are_refused(trained, tmp_path):
    folder, _ = trained
    with pytest.raises(
        UserError, match="config.gin: no such file. Name the folder of a"
    ):
        Tracker.load(tmp_path / "none")
    config = folder / "config.gin"
    config.write_text(config.read_text().replace("d3st_sgd", "persona"))
    with pytest.raises(
        UserError,
        match="is a set of a tracker .d3st, d3st2a, json, sdt, sdtids, sdtind, t5dst",
    ):
        Tracker.load(folder)


def test_values_are_found_as_whole_words(sgd_tree):
    schema = read_schema(sgd_tree / "train/schema.json")
    text = "USER: to New  York or York\nSYSTEM: Yorkshire?\nUSER: no, (new york)!"
    (dialogue,) = turns.read_dialogues(text, "talk", schema)
    assert find(dialogue, 0, "new york") == Said(0, 3, 12, "New  York")
    assert find(dialogue, 0, "york") == Said(0, 16, 20, "York")
    assert find(dialogue, 1, "york").turn == 0
    assert find(dialogue, 2, "new york") == Said(2, 5, 13, "new york")
    assert find(dialogue, 2, "oslo") is find(dialogue, 2, " ") is None
