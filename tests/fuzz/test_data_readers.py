"""Damaged data: JSON, schemas, dialogues, predictions, vocabularies, and caches."""

import csv
import io
import json
import math
import shutil
from pathlib import Path

import numpy as np
import pytest
from fuzz_kit import Reader
from mutators import BYTES, JSON, LINES, change_line, json_mutator
from record_checks import assert_distinct, equal_where_given, frame_object

from jaxaug.core import files
from jaxaug.curriculum import levels
from jaxaug.data import schema, sgd, tables
from jaxaug.feed import batches, cache, tokens, vocabulary
from jaxaug.feed.parallel import Corpus
from jaxaug.formats.d3st import D3STOptions
from jaxaug.metrics import benchmark, evaluate, predictions, training
from jaxaug.models.scorers import store
from jaxaug.tools import cases, measure, models, run
from jaxaug.tools.arguments import TaskOptions
from jaxaug.track import turns

SPLIT = "dev"


def copy_of(name):
    """Returns a maker that copies a file of the material."""

    def make(folder, material):
        return Path(shutil.copyfile(material / name, folder / "fuzzed.json"))

    return make


def read_schema(path, material):
    return schema.read_schema(path)


def is_json_of_file(found, expected, path):
    assert found == json.loads(path.read_bytes().decode("utf-8-sig"))


def is_schema_of_file(found, expected, path):
    """Checks that the records equal the file, and that names are distinct and known."""
    plain = [schema.service_object(service) for service in found.services]
    given = json.loads(path.read_text("utf-8-sig"))
    assert equal_where_given(plain, given), "the records differ from the file"
    assert plain
    assert_distinct([item["service_name"] for item in plain])
    for item in plain:
        slots = {slot["name"] for slot in item["slots"]}
        assert_distinct([slot["name"] for slot in item["slots"]])
        assert_distinct([intent["name"] for intent in item["intents"]])
        for intent in item["intents"]:
            for key in ("required_slots", "optional_slots", "result_slots"):
                assert set(intent[key]) <= slots


def read_dialogues(path, material):
    known = schema.read_schema(material / SPLIT / "schema.json")
    return list(sgd.read_dialogue_file(path, known))


def are_dialogues_of_file(found, expected, path):
    plain = [
        {
            "dialogue_id": dialogue.dialogue_id,
            "services": list(dialogue.services),
            "turns": [
                {
                    "speaker": turn.speaker,
                    "utterance": turn.utterance,
                    "frames": [frame_object(frame) for frame in turn.frames],
                }
                for turn in dialogue.turns
            ],
        }
        for dialogue in found
    ]
    given = json.loads(path.read_text("utf-8-sig"))
    assert equal_where_given(plain, given), "the records differ from the file"
    assert_distinct([item["dialogue_id"] for item in plain])
    for item in plain:
        for turn in item["turns"]:
            assert turn["speaker"] in ("USER", "SYSTEM")
            assert {f["service"] for f in turn["frames"]} <= set(item["services"])


def make_predictions(folder, material):
    """Writes predictions that are right except for a value, a slot, and an intent."""
    references = benchmark.load(material, SPLIT)
    states = {
        (r.dialogue_id, r.turn, r.service): r.state
        for r in benchmark.references_of(references.dialogues.values())
    }
    key = next(key for key in states if key[2] == "Trains_1")
    states[key] = sgd.State("BuyTicket", ("price",), {"city": ("Lima",)})
    path = folder / "fuzzed" / "dialogues.json"
    predictions.write_predictions(path, references.dialogues.values(), states)
    return path.parent


def score(path, material):
    report, _, counts = evaluate.evaluate_folder(material, SPLIT, path)
    # NaN is not equal to itself.
    return json.loads(json.dumps(report).replace("NaN", '"NaN"')), counts


def are_scores(found, expected, path):
    report, counts = found
    total = counts["dialogues"] + counts["dialogues_without_prediction"]
    assert total == expected[1]["dialogues"] and counts["dialogues"] > 0
    assert 0 < counts["frames"] <= expected[1]["frames"]
    for group in report.values():
        for value in group.values():
            assert value == "NaN" or (math.isfinite(value) and 0 <= value <= 1)
    if report != expected[0]:
        given = json.loads((path / "dialogues.json").read_text("utf-8-sig"))
        good = path.parents[1] / next(
            p for p in path.parents[1].iterdir() if p.name.startswith("good")
        )
        original = json.loads((good / "fuzzed/dialogues.json").read_text())
        assert given != original, "other scores of the same predictions"


def make_model(folder, material):
    return Path(
        shutil.copyfile(
            vocabulary.train_words(material, folder / "cache"), folder / "fuzzed.model"
        )
    )


TEXTS = ["a train to oslo", "0=date 1a) may", "zebra", ""]


def read_model(path, material):
    words = vocabulary.TokenVocabulary(path)
    ids = [words.encode(text) for text in TEXTS]
    return words.vocab_size, ids, [words.decode(row) for row in ids]


def is_vocabulary(found, expected, path):
    size, ids, texts = found
    assert size > 2 and all(0 <= i < size for row in ids for i in row)
    assert all(isinstance(text, str) for text in texts)


def recipe_of(material):
    return cache.Recipe(Corpus(str(material), SPLIT), D3STOptions())


def make_records(folder, material):
    cache.build(recipe_of(material), 1, folder / "fuzzed")
    return folder / "fuzzed"


def read_records(path, material):
    return list(cache.build(recipe_of(material), 1, path).read())


def token_sources(material):
    """Writes record cache and vocabulary next to the material."""
    root = material.parent / "token_sources"
    return (
        cache.build(recipe_of(material), 1, root),
        vocabulary.train_words(material, root),
    )


def make_tokens(folder, material):
    records, model = token_sources(material)
    tokens.build(records, model, folder / "fuzzed")
    return folder / "fuzzed"


def read_tokens(path, material):
    records, model = token_sources(material)
    found = tokens.build(records, model, path)
    return [
        [found.get(field, index).tolist() for field in ("inputs", "targets")]
        for index in range(len(found))
    ]


def make_levels(folder, material):
    items = [
        levels.levelled(f"text {i}", ["one", "two", "three"], [0.9, 0.8, 0.7], 3)
        for i in range(6)
    ]
    levels.write(folder / "fuzzed.jsonl", items)
    return folder / "fuzzed.jsonl"


def are_levels_of_file(found, expected, path):
    lines = path.read_bytes().decode("utf-8-sig").split("\n")
    given = [json.loads(line) for line in lines if line]
    assert_distinct([item.text for item in found])
    assert len({len(item.levels) for item in found}) == 1
    assert [item.text for item in found] == [record["text"] for record in given]
    assert [list(map(list, item.levels[1:])) for item in found] == [
        record["levels"] for record in given
    ]


def make_table(folder, material):
    rows = "".join(f'"text {i}; with, marks";label {i};{i}\n' for i in range(6))
    path = folder / "fuzzed.csv"
    path.write_text(f"text;label;number\n{rows}")
    return path


def read_table(path, material):
    found = tables.read(path, "text")
    return found.delimiter, list(found.header), [row.rest for row in found.rows]


def are_rows_of_file(found, expected, path):
    """Compares the rows with Python's csv reader; all are as long as the header."""
    delimiter, header, rows = found
    text = path.read_bytes().decode("utf-8-sig")
    cells = list(csv.reader(io.StringIO(text, newline=""), delimiter=delimiter))
    assert cells[0] == header
    assert [row for row in cells[1:] if row] == rows
    assert {len(row) for row in rows} <= {len(header)}


def batches_of(material):
    records, model = token_sources(material)
    cached = tokens.build(records, model, material.parent / "token_sources")
    lengths = {"inputs": 16, "targets": 8}
    task = tokens.Examples("task", cached)
    return batches.TokenBatches([task], lengths, 2, seed=3, pack=True)


def make_position(folder, material):
    stream = batches_of(material)
    for _ in range(5):
        next(stream)
    stream.save(folder / "fuzzed")
    return folder / "fuzzed.json"


def read_position(path, material):
    stream = batches_of(material)
    stream.restore(path.with_suffix(""))
    # Numbers of rows and examples; a changed digit may give another valid number.
    position = json.loads(path.read_text("utf-8-sig"))["position"]
    return {name: array.tolist() for name, array in next(stream).items()}, position


def is_position(found, expected, path):
    (batch, position), (good, kept) = found, expected
    assert position.keys() == kept.keys() and position["ended"] is False
    numbers = [position["row"], position["draws"], *position["counts"]]
    numbers += position["waiting"][0]
    assert all(type(number) is int and number >= 0 for number in numbers)
    assert batch.keys() == good.keys()


SCORES = {bytes([i]) * 20: np.arange(4, dtype=np.float32) + i for i in range(20)}


def make_scores(folder, material):
    store.Store(folder / "fuzzed.sqlite").put(SCORES)
    return folder / "fuzzed.sqlite"


def read_scores(path, material):
    found = store.Store(path).get(SCORES)
    return {key: vector.tolist() for key, vector in found.items()}


def are_some_scores(found, expected, path):
    """Checks the present scores; missing ones are computed again."""
    assert found.items() <= expected.items(), "other scores"


def make_talk(folder, material):
    said = [
        {"turns": [{"speaker": "USER", "utterance": f"hello {i}"}]} for i in range(9)
    ]
    (folder / "fuzzed.json").write_text(json.dumps(said))
    return folder / "fuzzed.json"


def read_talk(path, material):
    known = schema.read_schema(material / "dev/schema.json")
    found = turns.read_dialogues(files.read_text(path, "Mend it."), str(path), known)
    return [(one.dialogue_id, [turn.utterance for turn in one.turns]) for one in found]


def are_texts(found, expected, path):
    assert found and all(isinstance(t, str) for _, texts in found for t in texts)


def make_training(folder, material):
    run = folder / "fuzzed"
    (run / "inference_eval").mkdir(parents=True)
    (run / "config.gin").write_text("x = 1\n")
    (run / "choices.json").write_text('{"JAXAUG_DATA_DIR": "x"}')
    scores = [{"step": step, "accuracy": step / 10} for step in range(9)]
    outputs = [
        {"input": {"inputs_pretokenized": "a"}, "target": "b", "output": "c"}
    ] * 9
    for name, lines in (("t-metrics", scores), ("t-8", outputs)):
        text = "".join(f"{json.dumps(line)}\n" for line in lines)
        (run / f"inference_eval/{name}.jsonl").write_text(text)
    return run


def read_training(path, material):
    found = training.read(path)
    return found and (found.scores, found.samples, found.config, found.choices)


def are_numbers_and_texts(found, expected, path):
    if found is None:  # The folder has no `config.gin`.
        return
    scores, samples, _, choices = found
    for curves in scores.values():
        for curve in curves.values():
            assert all(type(value) is float for value in curve.values())
    for texts in samples.values():
        for one in texts:
            assert all(isinstance(t, str) for t in (one.source, one.target, one.output))
    json.dumps(choices, ensure_ascii=False).encode()


CITY = {"type": "string", "description": "name of the city"}
SIZE = {"type": "object", "properties": {"w": {"description": "width"}}}
FUNCTION = {"name": "f", "description": "find a city", "parameters": {
    "type": "object", "required": ["city"], "properties": {"city": CITY, "box": SIZE},
}}  # fmt: skip
SAID = [{"role": "user", "content": "hi"}, {"role": "assistant", "content": None}]
CALL = {"name": "f", "arguments": {"city": "Oslo"}, "accepted": {"box": [{"w": 1}]}}


def make_files(**contents):
    """Returns a maker of a folder with JSON files; a name may have a folder."""

    def make(folder, material):
        for name, content in contents.items():
            path = folder / "fuzzed" / f"{name.replace('__', '/')}.json"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(json.dumps(content))
        return folder / "fuzzed"

    return make


def used(wordings):
    """Returns what is done with cases before a model is asked, and the requests."""
    measure.coverage(wordings)
    flat = [case for found in wordings.values() for case in found]
    shown = models.with_shots(flat, flat[:1])
    made = [(case.messages, case.tools, case.expected) for case in shown]
    json.dumps([row[:2] for row in made], allow_nan=False)
    return repr(made)


def read_cases(path, material):
    options = TaskOptions(files=(str(path / "other.json"),))
    task = run.of_file(path / "cases.json", path / "tools.json", None, options)
    return used(task.wordings)


def read_bfcl(path, material):
    found = cases.read(path / "q.json", None)
    return used({cases.ORIGINAL: [case for one in found for case in one.cases]})


def are_requests(found, expected, path):
    assert isinstance(found, str)


TOOLS = [{"type": "function", "function": FUNCTION}]
READERS = {
    "cases of tools": Reader(
        make_files(
            tools=TOOLS,
            other=TOOLS,
            cases={"id": "a", "messages": SAID, "calls": [CALL]},
        ),
        read_cases,
        JSON,
        are_requests,
    ),
    "cases of BFCL": Reader(
        make_files(
            q={"id": "a", "question": [SAID], "function": [FUNCTION]},
            possible_answer__q={
                "id": "a",
                "ground_truth": [{"f": {"city": ["Oslo", ""]}}],
            },
        ),
        read_bfcl,
        JSON,
        are_requests,
    ),
    "talk": Reader(make_talk, read_talk, JSON, are_texts),
    "training": Reader(make_training, read_training,
     (*LINES, change_line(json_mutator)), are_numbers_and_texts),
    "json": Reader(copy_of("dev/schema.json"), lambda path,
     material: files.read_json(path, "Mend it."), JSON, is_json_of_file),
    "schema": Reader(copy_of("dev/schema.json"), read_schema, JSON, is_schema_of_file),
    "dialogues": Reader(copy_of("dev/dialogues_001.json"), read_dialogues, JSON,
     are_dialogues_of_file),
    "predictions": Reader(make_predictions, score, BYTES, are_scores),
    "vocabulary": Reader(make_model, read_model, BYTES, is_vocabulary),
    "record cache": Reader(make_records, read_records, BYTES),
    "token cache": Reader(make_tokens, read_tokens, BYTES),
    "position in batches": Reader(make_position, read_position, JSON, is_position),
    "table of texts": Reader(make_table, read_table, BYTES, are_rows_of_file),
    "levels": Reader(make_levels, lambda path, material: levels.read(path),
     (*LINES, change_line(json_mutator)), are_levels_of_file),
    "scores": Reader(make_scores, read_scores, BYTES, are_some_scores),
}  # fmt: skip


@pytest.mark.parametrize("name", READERS)
def test_damaged_files(fuzzer, sgd_tree, name, files):
    report = fuzzer.run(name, sgd_tree, files)
    assert not report.defects, report.text()
    assert report.counts["refused"] + report.counts["same"] > 0
