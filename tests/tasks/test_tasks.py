"""Registration, preprocessing, metrics, and the stream of a whole mixture."""

import subprocess

import pytest

pytest.importorskip("seqio")

import numpy as np
import seqio
import tensorflow as tf
from t5x.search.decode_state import BROKEN

from jaxaug.core.errors import UserError
from jaxaug.feed import sets

FAMILY = [
    "sgd",
    *(f"sgdx_v{i}" for i in range(1, 6)),
    *(f"{name}_v{i}" for name in ("aug", "eda", "tree") for i in range(1, 6)),
]
LENGTHS = {"inputs": 112, "targets": 48}


def test_names(tasks):
    d3st = [f"{form}_{name}" for form in ("d3st", "d3st2a") for name in FAMILY]
    families = ("json", "sdt", "sdtids", "sdtind", "t5dst")
    others = [f"{form}_{name}" for form in families for name in FAMILY]
    expected = {*d3st, *others}
    expected |= {f"{name}_{short}" for name in d3st for short in ("short2", "short5")}
    assert set(seqio.TaskRegistry.names()) == expected
    assert set(seqio.MixtureRegistry.names()) == {
        f"{form}_{mixture}"
        for form in ("d3st", "d3st2a", "json", "sdt", "sdtids", "sdtind", "t5dst")
        for mixture in (
            "eval",
            *(
                f"{folder}_{n}x"
                for folder in ("sgdx", "aug", "eda", "tree")
                for n in (2, 4, 6)
            ),
        )
    }


def test_mixtures(tasks):
    def parts(name):
        mixture = seqio.MixtureRegistry.get(name)
        return {task.name: mixture.get_rate(task) for task in mixture.tasks}

    assert parts("d3st_aug_4x") == dict.fromkeys(
        ["d3st_sgd", "d3st_aug_v1", "d3st_aug_v2", "d3st_aug_v3"], 1.0
    )
    assert set(parts("t5dst_eval")) == {f"t5dst_{name}" for name in FAMILY[:6]}
    assert len(parts("d3st_sgdx_6x")) == 6


def test_splits(tasks):
    splits = {
        name: set(seqio.TaskRegistry.get(name).splits)
        for name in seqio.TaskRegistry.names()
    }
    assert (
        splits["d3st_sgd"] == splits["t5dst_sgdx_v5"] == {"train", "validation", "test"}
    )
    assert splits["d3st_aug_v2"] == splits["d3st_sgd_short2"] == {"train"}


def test_training_shuffles_and_evaluation_keeps_the_order(tasks):
    recipes = sets.find("d3st_sgd").recipes
    orders = {split: recipe.options.order for split, recipe in recipes.items()}
    assert orders == {"train": "shuffled", "validation": "schema", "test": "schema"}
    short = sets.find("d3st_aug_v3_short5").recipes["train"]
    assert short.options.max_items == (1, 5)
    assert short.corpus.variant == "v3"


def examples(name, split, lengths=LENGTHS):
    task = seqio.get_mixture_or_task(name)
    return list(task.get_dataset(lengths, split, shuffle=False).as_numpy_iterator())


def test_exact_example(tasks):
    example = examples("d3st_sgd", "test")[0]
    words = tasks.vocabulary.default_vocabulary()
    for name in ("inputs", "targets"):
        text = example[f"{name}_pretokenized"].decode()
        assert words.decode(example[name].tolist()) == text
        assert example[name][-1] == 1
        assert words.unk_id not in example[name]
    assert example["split"] == b"test"


def test_long_inputs_lose_their_left_end(tasks, caplog):
    whole = examples("d3st_sgdx_v2", "test", None)
    with caplog.at_level("INFO", logger="absl"):
        cut = examples("d3st_sgdx_v2", "test", {"inputs": 40, "targets": 48})
    longer = [len(example["inputs"]) > 40 for example in whole]
    assert sum(longer) > 0
    for before, after in zip(whole, cut, strict=True):
        assert after["inputs"].tolist() == before["inputs"][-40:].tolist()
        assert after["inputs"][-1] == 1
    longest = max(len(example["inputs"]) for example in whole)
    assert (
        f"d3st_sgdx_v2 test: {sum(longer)} of {len(whole)} inputs lose their left end "
        f"at 40 tokens (longest: {longest})"
    ) in [record.getMessage() for record in caplog.records]


def test_an_output_whose_logits_were_no_numbers(tasks):
    words = tasks.vocabulary.default_vocabulary()
    tokens = words.encode("table")
    assert words.decode([*tokens, 0, 0]) == words.decode(tokens)
    message = (
        rf"^decoding step {len(tokens)} \(counted from 0\): the logits of the model"
    )
    with pytest.raises(UserError, match=message):
        words.decode([*tokens, BROKEN, 0])


def test_padded_size_and_equality(tasks):
    found = tasks.vocabulary.default_vocabulary()
    assert tasks.vocabulary.padded_size() % 128 == 0
    assert 0 <= tasks.vocabulary.padded_size() - found.vocab_size < 128
    assert tasks.vocabulary.padded_size(1) == found.vocab_size
    same = seqio.SentencePieceVocabulary(found.sentencepiece_model_file)
    assert found == same
    assert found != seqio.SentencePieceVocabulary(found.sentencepiece_model_file, 100)
    assert found != seqio.ByteVocabulary()
    import copy

    assert copy.deepcopy(found) == found
    assert copy.deepcopy(found).encode("table") == found.encode("table")


def evaluate(name, split, change):
    """Returns metrics of predictions made by `change(number, target ids)`."""
    evaluator = seqio.Evaluator(
        name,
        feature_converter=seqio.EncDecFeatureConverter(pack=False),
        eval_split=split,
        sequence_length=LENGTHS,
    )

    def predict(dataset, model_feature_shapes=None):
        return [
            (int(number), change(int(number), batch["decoder_target_tokens"].tolist()))
            for number, batch in dataset.as_numpy_iterator()
        ]

    future, _ = evaluator.evaluate(compute_metrics=True, step=1, predict_fn=predict)
    return future.result()


@pytest.mark.parametrize("name", ["d3st_sgdx_v3", "t5dst_sgd"])
def test_right_answers_score_100(tasks, name):
    (found,) = evaluate(name, "test", lambda number, ids: ids).values()
    names = ["joint_goal_accuracy", "joint_goal_accuracy_seen", "average_goal_accuracy"]
    assert [found[key] for key in [*names, "multiwoz_jga"]] == [100.0] * 4
    assert found["malformed"] == 0.0


def test_wrong_answers_score_what_they_should(tasks):
    answers = examples("d3st_sgd", "test")
    empty = sum(
        example["targets_pretokenized"].startswith(b"[states] [intents]")
        for example in answers
    )
    nonsense = tasks.vocabulary.default_vocabulary().encode("table") + [1]
    nonsense += [0] * (LENGTHS["targets"] - len(nonsense))
    (found,) = evaluate("d3st_sgd", "test", lambda number, ids: nonsense).values()
    assert found["joint_goal_accuracy"] == pytest.approx(100 * empty / len(answers))
    assert found["average_goal_accuracy"] == 0.0
    assert found["malformed"] == 2.0
    # A turn with any filled frame is wrong.
    turns = {}
    for example in answers:
        turn = example["dialogue_id"], int(example["turn"])
        is_empty = example["targets_pretokenized"].startswith(b"[states] [intents]")
        turns[turn] = turns.get(turn, True) and is_empty
    share = 100 * sum(turns.values()) / len(turns)
    assert found["multiwoz_jga"] == pytest.approx(share)
    half = evaluate("d3st_sgd", "test", lambda n, ids: ids if n % 2 else nonsense)
    right = sum(
        number % 2 or example["targets_pretokenized"].startswith(b"[states] [intents]")
        for number, example in enumerate(answers)
    )
    assert half["d3st_sgd"]["joint_goal_accuracy"] == pytest.approx(
        100 * right / len(answers)
    )


def test_frames_of_t5dst_are_joined(tasks):
    from jaxaug.formats.records import Parsed
    from tasks.metrics import FrameAnswer, join

    def answer(frame, **values):
        parsed = Parsed(values, malformed=1)
        return FrameAnswer("test", "1", 2, frame, "S_1", parsed)

    joined = join([answer(0, a=("1",)), answer(0, b=("2",)), answer(0), answer(1)])
    assert joined == {
        ("1", 2, 0, "S_1"): Parsed({"a": ("1",), "b": ("2",)}, malformed=3),
        ("1", 2, 1, "S_1"): Parsed({}, malformed=1),
    }


@pytest.mark.long
def test_a_mixture_goes_on_exactly_after_a_stop(tasks, tmp_path):
    def batches():
        return seqio.get_dataset(
            "d3st_aug_6x", LENGTHS, seqio.EncDecFeatureConverter(pack=True), "train",
            shuffle=True, seed=7, num_epochs=None,
        ).batch(4)  # fmt: skip

    stream = iter(batches())
    for _ in range(20):
        next(stream)
    saved = tf.train.Checkpoint(stream=stream).save(str(tmp_path / "position"))
    expected = [next(stream) for _ in range(30)]
    restored = iter(batches())
    tf.train.Checkpoint(stream=restored).restore(saved).assert_consumed()
    for batch in expected:
        np.testing.assert_array_equal(
            batch["encoder_input_tokens"], next(restored)["encoder_input_tokens"]
        )


def test_registration_reads_no_dialogue(python, tasks, tmp_path, sgd_tree, monkeypatch):
    for path in sgd_tree.glob("*/dialogues_*.json"):
        path.write_text("not read")
    monkeypatch.setenv("JAXAUG_VARIANTS_DIR", str(_folder(tmp_path / "mine", sgd_tree)))
    program = (
        "import seqio, tasks\n"
        "print('d3st_mine_v1' in seqio.TaskRegistry.names(),\n"
        "      'd3st_mine_2x' in seqio.MixtureRegistry.names(),\n"
        "      'd3st_mine_4x' in seqio.MixtureRegistry.names())\n"
    )
    monkeypatch.setenv("JAXAUG_DATA_DIR", str(sgd_tree))
    monkeypatch.setenv("JAXAUG_CACHE_DIR", str(tmp_path / "cache"))
    done = subprocess.run(
        [python, "-c", program],
        capture_output=True,
        check=False,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout == "True True False\n"
    assert not (tmp_path / "cache").exists()


def _folder(folder, sgd_tree):
    target = folder / "v1" / "train" / "schema.json"
    target.parent.mkdir(parents=True)
    target.write_text((sgd_tree / "sgd_x/data/v1/train/schema.json").read_text())
    return folder
