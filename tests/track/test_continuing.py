"""Decoder-only trackers outside of their runs: fully trained ones, and adapters."""

import functools
import json

import jax
import numpy as np
import pytest
import seqio
import tensorflow as tf
from t5x import checkpoints, decoding, models, optimizers, partitioning

from jaxaug import cli
from jaxaug.core.errors import UserError
from jaxaug.models import convert, finetune, llama
from jaxaug.models.lora import layout, settings
from jaxaug.models.text import continuing, registry
from jaxaug.models.tokenizers import hf
from jaxaug.models.weights import hf_folder
from jaxaug.track.tracker import Tracker
from tests.support import grids

LENGTHS = {"inputs": 96, "targets": 10}
CONFIG = """from __gin__ import dynamic_registration
from jaxaug.models import llama
from t5x import models
from tasks import vocabulary

MIXTURE_OR_TASK_NAME = 'd3st_sgd'
TASK_FEATURE_LENGTHS = {lengths}
MODEL = @models.DecoderOnlyModel()
models.DecoderOnlyModel:
  module = @llama.DecoderWrapper()
  vocabulary = @vocabulary.default_vocabulary()
  inputs_bidirectional_attention = {both_ways}
vocabulary.default_vocabulary.path = '{base}'
llama.DecoderWrapper.config = @llama.Config()
llama.Config:
  vocab_size = 258
  emb_dim = 16
  num_layers = 1
  num_heads = 2
  head_dim = 8
  mlp_dim = 24
  num_kv_heads = 1
  tie_embeddings = True
  id_offset = 1
"""
ADAPTED = """
from jaxaug.models import finetune
from jaxaug.models.lora import settings
ADAPTED_MODEL = @finetune.lora()
BASE = '{base}'
ADAPTER = @settings.Settings()
finetune.lora:
  model = %MODEL
  base = %BASE
  adapter = %ADAPTER
settings.Settings.rank = 2
"""
SETTINGS = settings.Settings(rank=2)
TALK = "USER: A train to Oslo please\nSYSTEM: I found 2.\nUSER: First class.\n"


def run_of(tmp_path, tiny_lm, both_ways=False, more=""):
    folder = tmp_path / "my_run"
    folder.mkdir()
    text = (CONFIG + more).format(base=tiny_lm, lengths=LENGTHS, both_ways=both_ways)
    # Imports come first in a gin file.
    lines = text.splitlines()
    imports = [line for line in lines if line.startswith("from ")]
    (folder / "config.gin").write_text(
        "\n".join([*imports, *(line for line in lines if line not in imports)])
    )
    return folder


def evaluated(module, params, words, texts, both_ways):
    """Returns the tokens of an evaluation by T5X's model and converter."""
    model = models.DecoderOnlyModel(
        module, words, None, inputs_bidirectional_attention=both_ways,
        decode_fn=functools.partial(decoding.temperature_sample, temperature=0.0),
    )  # fmt: skip
    rows = [
        [*words.encode(text)[1 - LENGTHS["inputs"] :], words.eos_id] for text in texts
    ]
    examples = tf.data.Dataset.from_generator(
        lambda: ({"inputs": row, "targets": [5, words.eos_id]} for row in rows),
        output_signature={
            name: tf.TensorSpec([None], tf.int32) for name in ("inputs", "targets")
        },
    )
    converted = seqio.PrefixLMFeatureConverter(pack=False)(examples, LENGTHS)
    (batch,) = converted.batch(len(rows)).as_numpy_iterator()
    found = jax.jit(model.predict_batch)(params, batch)
    return rows, np.asarray(found)[:, : LENGTHS["targets"]].tolist()


TEXTS = ["0=city 1=class [user] " + "oslo please " * n for n in range(0, 12, 2)]


@pytest.mark.parametrize("both_ways", grids.first(1, [True, False]))
def test_tokens_equal_an_evaluation(tiny_lm, sgd_tree, tmp_path, both_ways):
    folder = run_of(tmp_path, tiny_lm, both_ways)
    convert.convert(tiny_lm, folder / "checkpoint_3", form="t5x")
    tracker = Tracker.load(folder, sgd_tree / "test/schema.json", batch_size=4)
    model = tracker._model
    assert isinstance(model, continuing.PrefixModel)
    assert model.label == "my_run@3" and model.bidirectional is both_ways
    rows, expected = evaluated(
        model.module, tracker._params, model.input_vocabulary, TEXTS, both_ways
    )
    assert [tracker._encode(text) for text in TEXTS] == rows
    assert len(rows[-1]) == LENGTHS["inputs"]  # Cut on the left.
    assert tracker.write_tokens(rows) == expected
    assert len({tuple(row) for row in expected}) > 3


def test_an_adapter_answers_with_its_base(tiny_lm, sgd_tree, tmp_path):
    published = hf_folder.load(tiny_lm)
    places = layout.layout_of(
        published.family, published.config, published.params, SETTINGS
    )
    draw = np.random.default_rng(0)
    matrices = jax.tree.map(
        lambda x: np.float32(0.3 * draw.standard_normal(x.shape)),
        places.initial(jax.random.PRNGKey(0)),
    )
    folder = run_of(tmp_path, tiny_lm, more=ADAPTED)
    plain = models.DecoderOnlyModel(published.module, None, optimizers.adamw(0.1))
    trained = finetune.lora(plain, tiny_lm, SETTINGS)
    partitioner = partitioning.PjitPartitioner(num_partitions=1)
    states = finetune.AdapterStateInitializer(
        trained.optimizer_def, trained.get_initial_variables, {}, partitioner
    )
    state = states.from_scratch(jax.random.PRNGKey(0)).replace_params(matrices)
    manager = checkpoints.OrbaxCheckpointManagerInterface(
        folder, states.global_train_state_shape, partitioner
    )
    manager.save(state.replace_step(np.int32(7)))
    manager.close()

    tracker = Tracker.load(folder, sgd_tree / "test/schema.json", batch_size=4)
    words = hf.load(tiny_lm, id_offset=1)
    module = llama.DecoderWrapper(tracker._model.module.config)
    rows, expected = evaluated(
        module, layout.merge(published.params, matrices, places), words, TEXTS, False
    )
    assert tracker.write_tokens(rows) == expected
    assert expected != evaluated(module, published.params, words, TEXTS, False)[1]


def test_predict(tiny_lm, sgd_tree, tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("JAXAUG_CACHE_DIR", str(tmp_path / "cache"))
    folder = run_of(tmp_path, tiny_lm)
    convert.convert(tiny_lm, folder / "checkpoint_3", form="t5x")
    talk = tmp_path / "talk.txt"
    talk.write_text(TALK)
    schema = str(sgd_tree / "train/schema.json")
    command = ["predict", "--run", str(folder), "--schema", schema, "--in", str(talk)]
    assert cli.main(command) == 0
    (line,) = capsys.readouterr().out.splitlines()
    found = json.loads(line)
    assert [turn["speaker"] for turn in found["turns"]] == ["USER", "SYSTEM", "USER"]
    assert found["turns"][2]["frames"][0]["service"] == "Trains_1"


def test_it_is_not_a_paraphraser(tiny_lm, tmp_path):
    folder = run_of(tmp_path, tiny_lm)
    convert.convert(tiny_lm, folder / "checkpoint_3", form="t5x")
    with pytest.raises(UserError, match="is a DecoderOnlyModel, which writes no para"):
        registry.load(str(folder))
