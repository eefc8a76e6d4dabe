"""Published tokenizers as vocabularies of the tasks, in training and checkpoints."""

import os
import subprocess
from pathlib import Path

import numpy as np
import pytest
import seqio
import tensorflow as tf

from jaxaug.core.errors import UserError
from jaxaug.feed.vocabulary import train_words
from jaxaug_papers import minisgd
from tasks import vocabulary
from tests.support import grids

ROOT = Path(__file__).resolve().parents[2]
TEXTS = ["[user] a café", "", "b"]


def named(path):
    found = vocabulary.FoundVocabulary()
    found.use(str(path))
    return found


@pytest.fixture(scope="module")
def words(tiny_lm):
    return named(tiny_lm)


def test_ids(words):
    assert (words.pad_id, words.bos_id, words.eos_id, words.unk_id) == (0, 1, 2, None)
    assert words.vocab_size == 259
    assert words.encode("ab") == [3 + sorted_byte("a"), 3 + sorted_byte("b")]
    for text in TEXTS:
        assert words.decode([*words.encode(text), 2, 9, 9]) == text


def sorted_byte(letter: str) -> int:
    """Returns the index of a printable ASCII character among sorted bytes."""
    return ord(letter) - ord("!")


def test_tensorflow_gives_the_same(words):
    one = words.encode_tf(tf.constant(TEXTS[0]))
    assert one.dtype == tf.int32 and one.numpy().tolist() == words.encode(TEXTS[0])
    several = words.encode_tf(tf.constant(TEXTS))
    assert several.to_list() == [words.encode(text) for text in TEXTS]
    decoded = words.decode_tf(several.to_tensor())
    assert [text.decode() for text in decoded.numpy()] == TEXTS
    assert words.decode_tf(one).numpy().decode() == TEXTS[0]


def test_streams_are_saved_and_restored(words, tmp_path):
    """A stream with the tokenizer in it can be part of a checkpoint."""
    texts = tf.data.Dataset.from_tensor_slices([f"text {i}" for i in range(9)])
    iterator = iter(texts.map(words.encode_tf, num_parallel_calls=2))
    for _ in range(4):
        next(iterator)
    checkpoint = tf.train.Checkpoint(iterator=iterator)
    path = checkpoint.write(str(tmp_path / "iterator"))
    expected = next(iterator).numpy().tolist()
    fresh = iter(texts.map(words.encode_tf, num_parallel_calls=2))
    tf.train.Checkpoint(iterator=fresh).read(path)
    assert next(fresh).numpy().tolist() == expected == words.encode("text 4")


def test_task_for_a_decoder_only_model(words):
    """Padding, BOS, and EOS are where T5X looks for them."""
    source = tf.data.Dataset.from_tensor_slices({"inputs": ["ab"], "targets": ["c"]})
    feature = seqio.Feature(words, add_eos=True)
    features = {"inputs": feature, "targets": feature}
    tokens = seqio.preprocessors.tokenize(source, features, copy_pretokenized=False)
    tokens = seqio.preprocessors.append_eos(tokens, features)
    lengths = {"inputs": 4, "targets": 3}
    converter = seqio.DecoderFeatureConverter(pack=False)
    (example,) = converter(tokens, lengths).as_numpy_iterator()
    a, b, c = words.encode("abc")
    assert example["decoder_target_tokens"].tolist() == [a, b, 2, c, 2, 0, 0]
    assert example["decoder_input_tokens"].tolist() == [0, a, b, 2, c, 2, 0]
    np.testing.assert_array_equal(
        example["decoder_loss_weights"], [0, 0, 0, 1, 1, 0, 0]
    )


def test_vocabulary_of_the_tasks(words, tiny_lm, monkeypatch):
    """A folder replaces the SentencePiece model; there is one vocabulary only."""
    found = vocabulary.FoundVocabulary()
    monkeypatch.setattr(vocabulary, "_DEFAULT", found)
    assert vocabulary.default_vocabulary(str(tiny_lm)) is found
    assert found == words and found.vocab_size == 259 and found.eos_id == 2
    assert found.encode("ab") == words.encode("ab")
    assert found.file == str(tiny_lm / "tokenizer.json")
    assert found.encode_batch(["ab"]) == [words.encode("ab")]
    assert not hasattr(found, "sentencepiece_model_file")
    with pytest.raises(UserError, match="is in use already"):
        vocabulary.default_vocabulary("other.model")


def test_the_models_of_the_package_are_named_by_their_sentencepiece_vocabulary():
    found = named("mini")
    assert not found.is_published
    assert found.eos_id == 1 and found.file.endswith("named/mini/spiece.model")


def test_equality(words, tiny_lm, tmp_path):
    assert words == named(tiny_lm / "tokenizer.json")
    assert words != seqio.PassThroughVocabulary(259)
    unread = named(tmp_path / "none.json")  # Nothing is read before it is used.
    with pytest.raises(UserError, match="no such file"):
        unread.encode("a")


def test_vocabularies_of_other_files_differ(tiny_lm, tmp_path):
    world = minisgd.write(
        tmp_path / "data", train_dialogues=2, dev_dialogues=1, test_dialogues=1
    )
    model = str(train_words(world, tmp_path))
    found = [named(path) for path in (tiny_lm, model, tiny_lm, model)]
    assert found[0] != found[1] and found[1] != found[2]
    assert found[0] == found[2] and found[1] == found[3]
    assert found[1] == seqio.SentencePieceVocabulary(model) != found[0]


@pytest.fixture
def train(python):
    """Runs `python -m t5x.train --gin_file=configs/d3st.gin ...` to its end."""

    def run(*arguments: str, **environment: str) -> subprocess.CompletedProcess:
        command = [python, "-m", "t5x.train", "--gin_file=configs/d3st.gin"]
        return subprocess.run(
            [*command, *arguments], cwd=ROOT, env=os.environ | environment, check=False,
            capture_output=True, text=True,
        )  # fmt: skip

    return run


@pytest.mark.slow
@pytest.mark.parametrize("name", grids.first(1, ["smollm2", "gpt2"]))
def test_model_files_resolve(train, name):
    """They are read on top of an experiment, with the fine-tuning run between them."""
    done = train(
        "--gin_file=configs/runs/finetune_sgd.gin",
        f"--gin_file=configs/models/{name}.gin",
        "--gin.INITIAL_CHECKPOINT_PATH='x'",
        "--gin.INITIAL_STEP=0",
        "--dry_run",
    )
    shown = done.stdout + done.stderr
    assert "DecoderOnlyModel" in shown and "id_offset = 1" in shown
    # Everything but the checkpoint exists.
    assert done.returncode == 1
    assert f"error: Path is not a valid checkpoint: {ROOT}/x does not exist" in shown


SIZES = """
from __gin__ import dynamic_registration
import __main__ as train_script
from t5x import checkpoints
from t5x import utils
from jaxaug.models import {family}

{family}.Config:
  vocab_size = 258
  emb_dim = 16
  num_layers = 1
  num_heads = 2
  head_dim = 8
  mlp_dim = 24
  dtype = 'float32'
TOKENIZER = '{tokenizer}'
MODEL_DIR = '{run}'
TRAIN_STEPS = 4
EVAL_PERIOD = 4
BATCH_SIZE = 2
EVAL_MIXTURE = 'd3st_sgd'
TASK_FEATURE_LENGTHS = {{'inputs': 512, 'targets': 80}}
train_script.train.infer_eval_dataset_cfg = None
"""
FROM_CHECKPOINT = """
llama.Config.num_kv_heads = 1
INITIAL_CHECKPOINT_PATH = '{start}'
INITIAL_STEP = 0
MAX_FINETUNING_STEPS = 4
train_script.train.actions = None
utils.SaveCheckpointConfig.checkpointer_cls = @checkpoints.Checkpointer
"""


@pytest.mark.slow
@pytest.mark.long
@pytest.mark.parametrize(("name", "family"), [("smollm2", "llama"), ("gpt2", "gpt2")])
def test_training(python, train, name, family, tiny_lm, tmp_path):
    """A few steps of D3ST on MiniSGD; SmolLM2's file from a converted checkpoint."""
    world = minisgd.write(
        tmp_path / "data", train_dialogues=5, dev_dialogues=2, test_dialogues=2
    )
    start, small = tmp_path / "start" / "checkpoint_0", tmp_path / "small.gin"
    text = SIZES.format(family=family, tokenizer=tiny_lm, run=tmp_path / "run")
    files = [f"configs/models/{name}.gin", str(small)]
    if name == "smollm2":
        convert = [python, "-m", "jaxaug.cli", "convert", "--from"]
        subprocess.run([*convert, str(tiny_lm), "--to", str(start)], check=True)
        text += FROM_CHECKPOINT.format(start=start)
        files = ["configs/runs/finetune_sgd.gin", *files]
    else:
        text += "utils.CheckpointConfig.restore = None\n"
    small.write_text(text)
    done = train(
        *(f"--gin_file={file}" for file in files),
        JAXAUG_DATA_DIR=str(world),
        JAXAUG_CACHE_DIR=str(tmp_path / "cache"),
    )
    assert done.returncode == 0, done.stderr[-3000:]
    assert (tmp_path / "run" / "checkpoint_4").exists()
