"""Persona-Chat tasks: names, exact tokens, truncation, mixtures, and metrics."""

import subprocess
from pathlib import Path

import pytest

pytest.importorskip("seqio")

import numpy as np
import seqio
from t5x import utils

import tasks.vocabulary
from jaxaug.core.errors import UserError
from jaxaug.curriculum import levels, mixture, schedule
from jaxaug.curriculum.levels import Levelled
from jaxaug.data import personachat as data
from jaxaug.feed import sets
from tasks import personachat

ROOT = Path(__file__).resolve().parents[2]
ORIGINAL = "personachat_self_original"
LENGTHS = {"inputs": 96, "targets": 32}
THINGS = ("dogs", "cats", "books", "cars", "tea")


def write_files(folder):
    """Writes 24 dialogues, as validation and as training files; traits recur."""
    for wording in data.WORDINGS:
        for side, owner in (("self", "your"), ("other", "partner's")):
            lines = []
            for n in range(24):
                first, second = THINGS[n % 5], THINGS[(n + 2) % 5]
                own = "i like" if wording == "original" else "i am fond of"
                lines += [
                    f"1 {owner} persona: {own} {first}.",
                    f"2 {owner} persona: {own} {second}.",
                    f"3 hi , how are you ?\tgood , i like {first} . and you ?",
                    f"4 i have {n} {second} .\tme too , they are nice .",
                ]
            for split in ("train", "valid"):
                path = folder / f"{split}_{side}_{wording}_no_cands.txt"
                path.write_text("\n".join(lines) + "\n")


def write_levels(path):
    levels.write(
        path,
        [
            Levelled(
                f"i like {thing}.",
                (
                    (f"i like {thing}.",),
                    (f"{thing} are what i like.",),
                    (f"{thing} , yes.",),
                ),
            )
            for thing in THINGS[:4]
        ],
    )


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    root = tmp_path_factory.mktemp("personachat")
    write_files(root)
    write_levels(root / "levels.jsonl")
    return root


@pytest.fixture(scope="module", autouse=True)
def registered(folder):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("JAXAUG_PERSONACHAT_DIR", str(folder))
        patch.setenv("JAXAUG_PERSONACHAT_LEVELS", str(folder / "levels.jsonl"))
        patch.setenv("JAXAUG_CACHE_DIR", str(folder / "cache"))
        patch.delenv("JAXAUG_PERSONACHAT_SPLITS", raising=False)
        patch.setattr(seqio.TaskRegistry, "_REGISTRY", {})
        patch.setattr(seqio.MixtureRegistry, "_REGISTRY", {})
        patch.setattr(sets, "_SETS", {})
        patch.setattr(sets, "_PROVIDERS", [])
        patch.setattr(tasks.vocabulary, "_DEFAULT", tasks.vocabulary.FoundVocabulary())
        tasks.vocabulary.default_vocabulary(data.vocabulary_file(400))
        personachat.register()
        tasks.register()
        yield


_STREAMS = {}


def examples(name, split="validation", lengths=LENGTHS):
    key = name, split, str(lengths)
    if key not in _STREAMS:
        task = seqio.get_mixture_or_task(name)
        stream = task.get_dataset(lengths, split, shuffle=False)
        _STREAMS[key] = list(stream.as_numpy_iterator())
    return _STREAMS[key]


def texts(found):
    return [one["inputs_pretokenized"].decode() for one in found]


def test_names_and_splits():
    plain = [f"{s}_{w}" for s in ("self", "other") for w in data.WORDINGS]
    reworded = ["pcc_level1", "pcc_level2", "rt_level1"]
    reworded += [f"eda_level{level}" for level in range(1, 6)]
    prefixes = ("personachat_", "personachat_turns_")
    assert set(seqio.TaskRegistry.names()) == {
        prefix + name for prefix in prefixes for name in (*plain, *reworded)
    }
    assert set(seqio.MixtureRegistry.names()) == {
        prefix + name for prefix in prefixes for name in ("flatten", "official", "rt")
    }
    assert set(seqio.TaskRegistry.get(ORIGINAL).splits) == {"train", "validation"}
    assert set(seqio.TaskRegistry.get("personachat_pcc_level1").splits) == {"train"}


def test_exact_example():
    found = examples(ORIGINAL)
    assert len(found) == 48
    words = tasks.vocabulary.default_vocabulary()
    second = found[1]
    text = (
        "[persona] i like dogs. [persona] i like books. [partner] hi , how are you ? "
        "[self] good , i like dogs . and you ? [partner] i have 0 books ."
    )
    assert second["inputs_pretokenized"].decode() == text
    assert second["targets_pretokenized"] == b"me too , they are nice ."
    assert (second["dialogue_id"], second["turn"]) == (b"valid_00000", 1)
    cut = text.index(" [partner]")
    expected = words.encode(text[:cut]) + words.encode(text[cut + 1 :]) + [1]
    assert second["inputs"].tolist() == expected
    expected = words.encode("me too , they are nice .") + [1]
    assert second["targets"].tolist() == expected


def test_turns_end_with_the_end_of_sequence():
    second = examples("personachat_turns_self_original")[1]
    words = tasks.vocabulary.default_vocabulary()
    lines = ["i like dogs. i like books.", "hi , how are you ?"]
    lines += ["good , i like dogs . and you ?", "i have 0 books ."]
    expected = [token for line in lines for token in [*words.encode(line), 1]]
    assert second["inputs"].tolist() == expected
    assert second["inputs_pretokenized"].decode() == "\n".join(lines)


def test_the_partners_persona():
    text = texts(examples("personachat_other_revised"))[0]
    assert text.startswith("[partner_persona] i am fond of dogs. [partner_persona]")


def test_what_is_too_long_loses_its_oldest_utterances(caplog):
    whole = examples(ORIGINAL, lengths=None)[1]["inputs"].tolist()
    words = tasks.vocabulary.default_vocabulary()
    first = words.encode("[persona] i like dogs. [persona] i like books.")
    assert whole[: len(first)] == first
    limit = len(whole) - 9
    cut = examples(ORIGINAL, lengths={"inputs": limit, "targets": 16})[1]
    assert cut["inputs"].tolist() == first + whole[len(first) + 9 :]
    for line in (
        f"24 of 48 inputs lose their oldest utterances at {limit} tokens",
        "48 of 48 targets lose the end of the response at 16 tokens",
    ):
        assert f"{ORIGINAL} validation: {line} (longest: " in caplog.text
    # With too little room for the persona it keeps its first half.
    tiny = examples(ORIGINAL, lengths={"inputs": 9, "targets": 16})[1]
    assert tiny["inputs"].tolist() == first[:4] + whole[-5:]
    assert len(tiny["inputs"]) == 9


def test_levels_reword_the_traits():
    one = texts(examples("personachat_pcc_level1", "train"))
    two = texts(examples("personachat_pcc_level2", "train"))
    assert one[0].startswith(
        "[persona] dogs are what i like. [persona] books are what i like. [partner] hi"
    )
    assert two[0].startswith("[persona] dogs , yes. [persona] books , yes. [partner]")
    # No rewordings of tea are known, so it stays; responses and history stay anyway.
    assert "[persona] i like tea. [partner] hi" in two[4]
    plain = examples(ORIGINAL, "train")
    changed = examples("personachat_pcc_level2", "train")
    for before, after in zip(plain, changed, strict=True):
        assert before["targets"].tolist() == after["targets"].tolist()
        assert before["dialogue_id"] == after["dialogue_id"]
    assert texts(plain) != two
    eda = texts(examples("personachat_eda_level5", "train"))
    assert eda != texts(plain) and len(eda) == 48


def test_order_depends_on_seed_and_task():
    level = "personachat_pcc_level1"
    orders = {}
    for name, seed in ((ORIGINAL, 0), (ORIGINAL, 1), (level, 0)):
        found = seqio.TaskRegistry.get(name).source.get_dataset("train", True, seed)
        again = seqio.TaskRegistry.get(name).source.get_dataset("train", True, seed)
        orders[name, seed], repeated = (
            tuple((one["dialogue_id"], one["turn"]) for one in part.as_numpy_iterator())
            for part in (found, again)
        )
        assert repeated == orders[name, seed]
    assert len(set(orders.values())) == 3
    assert len({tuple(sorted(order)) for order in orders.values()}) == 1


def test_mixtures():
    def parts(name):
        found = seqio.MixtureRegistry.get(name)
        return {task.name: found.get_rate(task) for task in found.tasks}

    assert parts("personachat_flatten") == pytest.approx(
        {ORIGINAL: 0.2, "personachat_pcc_level1": 0.4, "personachat_pcc_level2": 0.4}
    )
    assert parts("personachat_turns_official") == pytest.approx(
        {
            "personachat_turns_self_original": 0.2,
            "personachat_turns_self_revised": 0.8,
        }
    )
    assert set(parts("personachat_rt")) == {ORIGINAL, "personachat_rt_level1"}


def test_a_cyclic_curriculum_shows_each_level_in_its_turn():
    curriculum = mixture.level_mixture(
        [ORIGINAL, "personachat_pcc_level1", "personachat_pcc_level2"],
        schedule.cyclic(10, levels=2, original_fraction=0.0, cycles=2),
    )
    cfg = utils.DatasetConfig(curriculum, LENGTHS, "train", 4, True, 3)
    converter = seqio.EncDecFeatureConverter
    batches = tasks.token_feed.get_dataset(cfg, 0, 1, converter, otherwise=None)
    decode = tasks.vocabulary.default_vocabulary().decode
    found = []
    for _ in range(60):
        for row in next(batches)["encoder_input_tokens"]:
            text = decode(row.tolist())
            is_two, is_one = " , yes." in text, "are what i like" in text
            found.append(2 if is_two else 1 if is_one else 0)
    assert found == ([0] * 40 + [1] * 40 + [2] * 40) * 2


def test_right_answers():
    evaluator = seqio.Evaluator(
        ORIGINAL,
        feature_converter=seqio.EncDecFeatureConverter(pack=False),
        eval_split="validation",
        sequence_length=LENGTHS,
    )

    def predict(dataset, model_feature_shapes=None):
        return [
            (int(number), batch["decoder_target_tokens"].tolist())
            for number, batch in dataset.as_numpy_iterator()
        ]

    def likelihood(dataset, model_feature_shapes=None):
        return [(int(number), -8.0) for number, _ in dataset.as_numpy_iterator()]

    future, _ = evaluator.evaluate(
        compute_metrics=True, step=1, predict_fn=predict, score_fn=likelihood
    )
    right = future.result()[ORIGINAL]
    assert right["f1"] == pytest.approx(100.0)
    assert right["sacrebleu_4"] == pytest.approx(100.0)
    tokens = sum(len(one["targets"]) for one in examples(ORIGINAL))
    assert right["perplexity"] == pytest.approx(np.exp(8 * 48 / tokens))


def test_wrong_answers():
    found = examples(ORIGINAL)
    targets, predictions = [], []
    for number, one in enumerate(found):
        text = one["targets_pretokenized"].decode()
        targets.append(personachat.postprocess(text, one, is_target=True))
        said = text if number % 2 else "tea [partner] me too"
        predictions.append(personachat.postprocess(said, one))
    assert targets[1] == {
        "text": "me too , they are nice .",
        "tokens": len(found[1]["targets"]),
    }
    assert predictions[0] == {"text": "tea"}
    half = personachat.responses(targets, predictions)
    # Of the even examples, 4 in 24 say "good i like tea and you".
    assert half["f1"] == pytest.approx(50 + 50 * 4 / 24 * 2 / 7)
    assert half["parlai_bleu_2"] == pytest.approx(50.0, abs=1e-4)


def test_what_is_missing_is_said(folder):
    (folder / "valid_other_original_no_cands.txt").rename(folder / "away")
    with pytest.raises(UserError, match="valid_other_original_no_cands.txt is missing"):
        examples("personachat_other_original")
    (folder / "away").rename(folder / "valid_other_original_no_cands.txt")
    with pytest.raises(UserError, match="jaxaug models fetch marian-en-fr"):
        examples("personachat_rt_level1", "train")


def test_registration_reads_no_dialogue(tmp_path, monkeypatch):
    monkeypatch.setenv("JAXAUG_PERSONACHAT_DIR", str(tmp_path / "none"))
    monkeypatch.setenv("JAXAUG_PERSONACHAT_SPLITS", "valid")
    monkeypatch.delenv("JAXAUG_PERSONACHAT_LEVELS")
    monkeypatch.setattr(sets, "_SETS", {})
    personachat.register()
    task = sets.find(ORIGINAL)
    assert task.splits == ("train", "validation", "test")
    assert sets.find("personachat_pcc_level5")
    with pytest.raises(UserError, match="`jaxaug data fetch personachat`"):
        task.examples("test")


TINY = {
    "t5": ("network.T5Config.emb_dim = 16", "network.T5Config.mlp_dim = 16",
     "network.T5Config.vocab_size = 512", "network.T5Config.num_encoder_layers = 1",
     "network.T5Config.num_decoder_layers = 1",
     "personachat.vocabulary_file.size = 400"),
    "dialogpt": ("gpt2.Config.vocab_size = 258", "gpt2.Config.bos_token_id = 0",
     "gpt2.Config.emb_dim = 16", "gpt2.Config.mlp_dim = 16",
     "gpt2.Config.num_layers = 1", "gpt2.Config.head_dim = 8",
     "gpt2.Config.num_heads = 2", "gpt2.Config.dtype = 'float32'", "RESTORE = None"),
}  # fmt: skip


@pytest.mark.slow
@pytest.mark.long
@pytest.mark.parametrize("name", sorted(TINY))
def test_trains_and_evaluates(python, name, tmp_path, tiny_lm):
    prefix = "personachat_turns_" if name == "dialogpt" else "personachat_"
    names = [f"{prefix}{n}" for n in ("self_original", "pcc_level1", "pcc_level2")]
    bindings = [
        *TINY[name], f"MODEL_DIR = '{tmp_path / 'run'}'", f"PCC_LEVELS = {names}",
        "TASK_FEATURE_LENGTHS = {'inputs': 160, 'targets': 24}", "TRAIN_STEPS = 6",
        "EVAL_PERIOD = 6", "EVAL_STEPS = 1", "STEPS_PER_LEVEL_TWICE = 1",
        "BATCH_SIZE = 4", "EVAL_BATCH_SIZE = 16", "LEVELS = 2",
    ]  # fmt: skip
    if name != "t5":
        bindings.append(f"TOKENIZER = '{tiny_lm}'")
    done = subprocess.run(
        [
            python,
            "-m",
            "t5x.train",
            f"--gin_file=configs/personachat_{name}.gin",
            "--gin_file=configs/runs/personachat_pcc.gin",
            "--accept_truncation",
            *(f"--gin_bindings={binding}" for binding in bindings),
        ],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    written = list((tmp_path / "run/inference_eval").glob("*-metrics.jsonl"))
    assert len(written) == 1, done.stdout
    assert '"perplexity"' in written[0].read_text()
    assert '"parlai_bleu_4"' in written[0].read_text()
