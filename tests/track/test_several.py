"""A tracker under several wordings: scripted answers, one batch, options."""

import io
import json
import os
from pathlib import Path

import numpy as np
import pytest

from jaxaug import cli
from jaxaug.core.errors import UserError
from jaxaug.data import sgd
from jaxaug.data.schema import Schema, Service, Slot
from jaxaug.feed import recipes
from jaxaug.formats import answer_grammar
from jaxaug.models.tokenizers import spelling
from jaxaug.track import constraints, turns
from jaxaug.track import trained as trained_run
from jaxaug.track.options import Robust
from jaxaug.track.tracker import Tracker
from tests.support import grids

TALK = "USER: A train to Oslo please\nSYSTEM: I found 2.\nUSER: First class.\n"
OSLO, ROME, NONE = "0=oslo", "0=rome", ""


@pytest.fixture
def tracker(trained, monkeypatch):
    """Returns a tracker with scripted wordings of one service with three slots."""
    folder, data = trained
    found = Tracker.load(folder, data / "train/schema.json")
    monkeypatch.setattr(
        "jaxaug.augment.rewording.of_schema",
        lambda schema, num, keep: [_worded(schema, n + 1) for n in range(num)],
    )
    return found


def _worded(schema, number):
    (service,) = schema.services
    slots = [
        Slot(s.name, f"w{number} {s.description}", s.is_categorical, s.possible_values)
        for s in service.slots
    ]
    return Schema((Service(service.name, "", tuple(slots), service.intents),))


class Scripted:
    """Answers by the index of the wording, and counts the inputs of each call."""

    def __init__(self, tracker, answers):
        self.words, self.answers = tracker._model.input_vocabulary, answers
        self.calls, self.left = [], dict.fromkeys(range(9), 0)

    def __call__(self, inputs):
        self.calls.append(len(inputs))
        return [self._answer(item) for item in inputs]

    def _answer(self, item):
        text = self.words.decode(item)
        place = text.find("w")
        number = int(text[place + 1]) if text[place + 1 : place + 2].isdigit() else 0
        turn = self.left[number]
        self.left[number] += 1
        said = self.answers[turn][number]
        return [*self.words.encode(f"[states] {said} [intents] [req_slots]"), 1]


def predicted(tracker, options, answers):
    """Returns the JSON frames of both turns, and the calls."""
    tracker.robust = options
    write = Scripted(tracker, answers)
    dialogues = turns.read_dialogues(TALK, "talk", tracker.schema)
    (found,) = tracker.predict_all(dialogues, write)
    frames = [f for turn in found.as_json()["turns"] for f in turn["frames"]]
    return frames, write.calls


def test_all_wordings_are_one_batch_and_the_vote_wins(tracker, monkeypatch):
    long = {"inputs": 400, "targets": 12}
    monkeypatch.setattr(tracker, "_lengths", long)
    answers = [[ROME, OSLO, OSLO], [OSLO, OSLO, OSLO]]
    frames, calls = predicted(tracker, Robust(wordings=2), answers)
    assert calls == [6]
    slot = tracker.schema.services[0].slots[0]
    assert [f["state"]["slot_values"] for f in frames] == [{"city": ["oslo"]}] * 2
    assert frames[0]["agreement"] == {
        "city": {
            "share": 0.6667,
            "others": [
                {"wording": 0, "description": slot.description, "values": ["rome"]}
            ],
        }
    }
    assert frames[1]["agreement"] == {"city": {"share": 1.0, "others": []}}
    assert "uncertain" not in frames[0] and "unsaid" not in frames[0]


def test_three_that_agree_are_not_asked_further(tracker, monkeypatch):
    monkeypatch.setattr(tracker, "_lengths", {"inputs": 400, "targets": 12})
    answers = [[OSLO, OSLO, OSLO, ROME, ROME], [OSLO, ROME, OSLO, ROME, ROME]]
    # Wordings 3 and 4 are needed for the second turn only.
    late = [[OSLO] * 5, [OSLO, ROME, OSLO, ROME, ROME]]
    full, calls = predicted(tracker, Robust(wordings=4), answers)
    assert calls == [10]
    answers[0][3:] = late[1][3:]
    early, calls = predicted(tracker, Robust(wordings=4, early=True), answers)
    assert calls == [6, 2]
    states = [[f["state"]["slot_values"] for f in found] for found in (full, early)]
    assert states[0] == states[1] == [{"city": ["oslo"]}, {"city": ["rome"]}]
    assert early[0]["agreement"]["city"]["share"] == 1.0


def test_the_likelihoods_under_all_wordings_decide(tracker, monkeypatch):
    monkeypatch.setattr(tracker, "_lengths", {"inputs": 400, "targets": 12})
    asked = []

    def likelihoods(pairs):
        asked.extend(text for _, text in pairs)
        return [-1.0 if "rome" in text else -2.0 for _, text in pairs]

    monkeypatch.setattr(tracker, "_log_likelihoods", likelihoods)
    answers = [[OSLO, OSLO, ROME], [OSLO, OSLO, OSLO]]
    options = Robust(wordings=2, combine="likelihood")
    frames, _ = predicted(tracker, options, answers)
    values = [f["state"]["slot_values"] for f in frames]
    assert values == [{"city": ["rome"]}, {"city": ["oslo"]}]
    texts = [f"[states] {said} [intents] [req_slots]" for said in (OSLO, ROME)]
    assert asked == [texts[0]] * 3 + [texts[1]] * 3  # The second turn needs none.


def test_uncertain_and_unsaid_slots_are_marked_or_dropped(tracker, monkeypatch):
    monkeypatch.setattr(tracker, "_lengths", {"inputs": 400, "targets": 12})
    answers = [[OSLO, ROME], [ROME, ROME]]
    sure = {"wordings": 1, "min_confidence": 0.6}
    marked, _ = predicted(tracker, Robust(**sure, unsaid="mark"), answers)
    assert [f["uncertain"] for f in marked] == [["city"], []]
    assert [f["unsaid"] for f in marked] == [[], ["city"]]
    assert [f["state"]["slot_values"] for f in marked] == [
        {"city": ["oslo"]}, {"city": ["rome"]}
    ]  # fmt: skip
    options = Robust(**sure, unsaid="drop", uncertain="drop")
    dropped, _ = predicted(tracker, options, answers)
    assert [f["state"]["slot_values"] for f in dropped] == [{}, {}]
    assert [f["uncertain"] for f in dropped] == [["city"], []]
    assert [f["unsaid"] for f in dropped] == [[], ["city"]]


def test_log_likelihoods_equal_the_decoder(trained):
    """Equals the program that scores one input at a time, for any batches."""
    from jaxaug.paraphrase import decoder

    tracker = Tracker.load(trained[0], batch_size=2)
    words, length = tracker._model.output_vocabulary, tracker._lengths["targets"]
    texts = ["[states] 0=oslo [intents] i0", "[states]", "first class to oslo"]
    items = [[*range(9, 9 + n), 1] for n in (3, 30, 9)]
    found = tracker._log_likelihoods(list(zip(items, texts, strict=True)))
    for item, text, score in zip(items, texts, found, strict=True):
        output = [*words.encode(text), words.eos_id]
        row = np.array([output + [0] * (length - len(output))], np.int32)
        (expected,) = decoder.log_probabilities(
            tracker._model, tracker._params, np.array([item], np.int32), row
        )
        assert score == pytest.approx(float(expected), abs=1e-3)


@pytest.mark.parametrize("family", grids.first(1, ["d3st", "t5dst"]))
def test_constrained_answers_can_always_be_read(trained, family):
    """Random weights write no valid answer without constraints."""
    folder, data = trained
    plain = Tracker.load(folder, data / "train/schema.json")
    lengths = {"inputs": 60, "targets": 90}
    made = Tracker(plain._model, family, lengths, plain.schema, 4)
    made.robust = Robust(constrained=True)
    (found,) = made.predict_all(turns.read_dialogues(TALK, "talk", made.schema))
    assert sum(frame.state.malformed for frame in found.frames) == 0
    for frame in found.frames:
        service = made.schema.service(frame.service)
        for name, values in frame.state.slot_values.items():
            slot = service.slot(name)
            if slot.is_categorical:
                assert {*values} <= {*slot.possible_values, "dontcare"}
    made.robust = Robust()
    (free,) = made.predict_all(turns.read_dialogues(TALK, "talk", made.schema))
    assert free.frames != found.frames


def test_json_needs_a_vocabulary_without_extra_spaces(trained):
    plain = Tracker.load(trained[0])
    lengths = {"inputs": 60, "targets": 90}
    made = Tracker(
        plain._model, "json", lengths, plain.schema, 4, Robust(constrained=True)
    )
    with pytest.raises(UserError, match=r'as \{"a": "b" , "c"'):
        made.predict("USER: a")


def test_pieces_of_targets_are_in_the_language(trained):
    """Our vocabulary puts spaces around punctuation, which its decoder removes."""
    folder, data = trained
    schema = sgd.read_schema_of(data, "train")
    words = Tracker.load(folder, schema)._model.output_vocabulary
    spelled, count = spelling.of_vocabulary(words), 0
    for options in (recipes.FORMATS["d3st"], recipes.FORMATS["t5dst"]):
        for dialogue in sgd.read_dialogues(data, "train"):
            for example in options.formatter(schema).dialogue(dialogue):
                service = schema.service(example.service)
                one = answer_grammar.signature(options, service, example.key)
                text = b"".join(
                    spelled[n] or b"?" for n in words.encode(example.targets)
                )
                assert answer_grammar.machine((one,)).accepts(text), text
                count += 1
    assert count > 5


def test_other_wordings_share_the_automaton(trained):
    folder, data = trained
    tracker = Tracker.load(folder, data / "test/schema.json")
    words, options = tracker._model.output_vocabulary, recipes.FORMATS["d3st"]
    whole = constraints.of_schema(tracker.schema, options, words, 40)
    part = Schema(tracker.schema.services[:1])
    again = constraints.of_schema(part, options, words, 40, whole)
    assert again.automaton is whole.automaton
    with pytest.raises(UserError, match="allow more"):
        constraints.of_schema(part, options, words, 2)


def test_options_of_the_verb(trained, monkeypatch, capsys):
    folder, data = trained
    command = [
        "predict", "--run", str(folder), "--schema", str(data / "test/schema.json"),
    ]  # fmt: skip
    folder = str(data / "sgd_x/data")
    for more, told in (
        (["--wordings", "2", "--wordings_from", folder], "all wordings agree on "),
        (["--unsaid", "drop"], "unsaid slots: "),
        (["--constrained"], ""),
    ):
        monkeypatch.setattr("sys.stdin", io.StringIO(TALK))
        assert cli.main([*command, *more]) == 0
        out, err = capsys.readouterr()
        assert told in err
        frame = json.loads(out)["turns"][0]["frames"][0]
        assert ("agreement" in frame) == ("--wordings" in more)
        # The output can be read again.
        monkeypatch.setattr("sys.stdin", io.StringIO(out))
        assert cli.main([*command, *more]) == 0
        assert capsys.readouterr().out == out
    monkeypatch.setattr("sys.stdin", io.StringIO(TALK))
    assert cli.main([*command, "--combine", "likelihood"]) == 1
    assert "Set wordings" in capsys.readouterr().err


def test_scores_under_every_wording(trained, tmp_path, capsys):
    run, _ = trained
    out = tmp_path / "found"
    assert (
        cli.main(["robustness", str(run), "--out", str(out), "--unsaid", "mark"]) == 0
    )
    report = json.loads((out / "report.json").read_text())
    assert report["about"]["options"]["unsaid"] == "mark"
    assert report["per_variant"].keys() >= {"original", "v1"}
    assert "unsaid slots: " in report["about"]["checks"]["original"][0]
    assert "JGA" in capsys.readouterr().out


def test_a_schema_in_words_of_the_training_schemas(tracker, monkeypatch):
    """The tracker reads reworded descriptions and answers under the given names."""
    data = Path(os.environ["JAXAUG_DATA_DIR"])
    words = trained_run.frequent_words(tracker._run, None)
    train = (data / "train/schema.json").read_text().lower()
    assert words and all(word in train for word in words)
    shown = []

    def familiar(schema, known):
        shown.append(known)
        return _worded(schema, 1)

    monkeypatch.setattr("jaxaug.augment.rewording.familiar", familiar)
    answers = [[ROME, OSLO], [OSLO, OSLO]]
    frames, calls = predicted(tracker, Robust(familiar=str(data)), answers)
    assert shown == [words] and calls == [2]
    assert [f["state"]["slot_values"] for f in frames] == [{"city": ["oslo"]}] * 2


def test_the_levels_of_a_curriculum_are_its_training_schemas(trained):
    folder, _ = trained
    words = trained_run.frequent_words(str(folder), None)
    config = folder / "config.gin"
    levels = "from jaxaug.curriculum import mixture as curriculum\n" + (
        "curriculum.level_mixture.levels = ['d3st_sgd', ['d3st_sgd']]\n"
        "MIXTURE_OR_TASK_NAME = @curriculum.level_mixture()\n"
    )
    config.write_text(
        config.read_text().replace("MIXTURE_OR_TASK_NAME = 'd3st_sgd'\n", levels)
    )
    assert "level_mixture" in config.read_text()
    trained_run.frequent_words.cache_clear()
    assert trained_run.frequent_words(str(folder), None) == words
