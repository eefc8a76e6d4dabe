"""Values in gin files that would train on nothing, on NaN, or fail later."""

import types

import jax.numpy as jnp
import pytest
from t5x import adafactor, checks, decoding, models, trainer
from t5x.checkpoint.retention import Retention
from t5x.checkpoint.settings import RestoreCheckpointConfig, SaveCheckpointConfig
from t5x.decoding import temperature_sample
from t5x.errors import UserError
from t5x.examples.t5 import network
from t5x.feed.registered import DatasetConfig
from t5x.partitioning import PjitPartitioner
from t5x.training.learning_rate import create_learning_rate_scheduler


def model(**settings):
    vocabulary = types.SimpleNamespace(eos_id=1, vocab_size=8)
    return models.EncoderDecoderModel(
        module=None,
        input_vocabulary=vocabulary,
        output_vocabulary=vocabulary,
        optimizer_def=None,
        **settings,
    )


def sample(**settings):
    inputs, cache = jnp.zeros((1, 4), jnp.int32), {}
    return temperature_sample(inputs, cache, lambda state: (None, None), 1, **settings)


def beams(**settings):
    inputs, cache = jnp.zeros((1, 4), jnp.int32), {}
    return decoding.beam_search(inputs, cache, lambda state: None, 1, **settings)


def stopping(**settings):
    return trainer.EarlyStoppingAction(
        ("task", "metric"), **{"mode": "min", **settings}
    )


def data(lengths=None, batch_size=2):
    return DatasetConfig("toy", lengths, "train", batch_size, False, 0)


def layout(batch_size):
    return PjitPartitioner(num_partitions=1).get_data_layout(batch_size)


def config(**settings):
    return network.T5Config(vocab_size=8, **settings)


@pytest.mark.parametrize(
    ("make", "settings", "message"),
    [
        (model, {"label_smoothing": 1.0}, "label_smoothing = 1.0: give a number of at"),
        (model, {"label_smoothing": -0.1}, "least 0 and below 1"),
        (model, {"label_smoothing": "0.1"}, "label_smoothing = '0.1'"),
        (model, {"z_loss": -1e-4}, "z_loss = -0.0001"),
        (model, {"z_loss": float("nan")}, "z_loss = nan"),
        (model, {"loss_normalizing_factor": 0}, "loss_normalizing_factor = 0"),
        (model, {"loss_normalizing_factor": -1.0}, "loss_normalizing_factor = -1.0"),
        (model, {"loss_chunk": -1}, "loss_chunk = -1"),
        (config, {"dropout_rate": 1.5}, "T5Config.dropout_rate = 1.5"),
        (config, {"dropout_rate": "0"}, "dropout_rate = '0'"),
        (config, {"num_encoder_layers": -1}, "layers = -1: give a whole number of at"),
        (config, {"num_decoder_layers": 1.5}, "layers = 1.5: give a whole number of"),
        (config, {"emb_dim": 0}, "emb_dim = 0: give a whole number of at least 1"),
        (config, {"num_heads": "8"}, "num_heads = '8': give a whole number of"),
        (config, {"dtype": "bfloat17"}, "'bfloat17': there is no such dtype; use"),
        (sample, {"temperature": -1.0}, "temperature = -1.0"),
        (sample, {"topk": -5}, "topk = -5: give a whole number of at least 0"),
        (sample, {"topk": 0, "topp": 1.9}, "topp = 1.9"),
        (sample, {"topk": 2, "topp": 0.5}, "At most one of `topp` or `topk`"),
        (sample, {"topp": 0.5}, "At most one of `topp` or `topk`"),
        (create_learning_rate_scheduler, {"warmup_steps": 0}, "warmup_steps = 0"),
        (create_learning_rate_scheduler, {"base_learning_rate": "a"}, "rate = 'a'"),
        *((create_learning_rate_scheduler, {"factors": f"constant * {factor}",
         setting: value},
         rf"{setting} = {value}: give a number of at least 1\.") for factor,
         setting in (("rsqrt_decay", "warmup_steps"),
         ("rsqrt_normalized_decay", "warmup_steps"), ("linear_decay", "warmup_steps"),
         ("decay_every", "steps_per_decay"),
         ("cosine_decay", "steps_per_cycle")) for value in (0, -5)),
        *((create_learning_rate_scheduler, {setting: float(value)},
         rf"{setting} = {value}: give a finite number\.") for setting,
         value in (("base_learning_rate", "-inf"), ("decay_factor", "nan"),
         ("step_offset", "inf"), ("min_learning_rate", "nan"))),
        (adafactor.Adafactor, {"epsilon1": 0.0}, "epsilon1 = 0.0: give a number of at"),
        (adafactor.Adafactor, {"decay_rate": -0.8}, "decay_rate = -0.8: .* at least 0"),
        (adafactor.Adafactor, {"clipping_threshold": 0.0}, "clipping_threshold = 0.0"),
        (adafactor.Adafactor, {"beta1": 1.0}, "beta1 = 1.0: .* least 0 and below 1"),
        (adafactor.Adafactor, {"weight_decay_rate_lr_exponent": -1.0},
         "weight_decay_rate_lr_exponent = -1.0"),
        (beams, {"alpha": float("nan")}, "alpha = nan: give a finite number"),
        (beams, {"alpha": "0.6"}, "alpha = '0.6': give a finite number"),
        (beams, {"alpha": 200.0},
         (r"alpha = 200.0: .* of 4 tokens leaves float32. Give .* from -135\.2 "
         r"to 135\.2")),
        (stopping, {"patience": 0}, "patience = 0: give a whole number of at least 1"),
        (stopping, {"atol": float("nan")}, "atol = nan: give a number of at least 0"),
        (stopping, {"mode": "up"}, "mode = 'up'"),
        (stopping, {"rtol": -1}, "rtol = -1"),
        (stopping, {"compare_to": "x"}, "compare_to = 'x'"),
        (create_learning_rate_scheduler, {"factors": None}, "factors = None: give nam"),
        (SaveCheckpointConfig, {"dtype": "int8"}, r"SaveCheckp.*\.dtype.*'int8'"),
        (RestoreCheckpointConfig, {"path": "x", "mode": "a"}, r"Config\.mode.*'a'"),
        (RestoreCheckpointConfig, {"path": "x", "dtype": "int8"}, "dtype.*'int8'"),
        (Retention, {"metric_name": "a/b", "metric_mode": "best"}, "Unsupported .*'be"),
        (Retention, {"metric_name": "accuracy"}, "'accuracy' must be '<run>/<tag>'"),
        (PjitPartitioner, {"num_partitions": -1}, "num_partitions = -1: give a whole"),
        (PjitPartitioner, {"num_partitions": "2"}, "num_partitions = '2': give a who"),
        (layout, {"batch_size": 2.5}, "The batch size = 2.5: give a whole number of"),
        (data, {"batch_size": 0}, "DatasetConfig.batch_size = 0: give a whole number"),
        (data, {"batch_size": "8"}, "batch_size = '8': give a whole number of at le"),
        (SaveCheckpointConfig, {"keep": 1.5}, "keep = 1.5: give a whole number"),
        (SaveCheckpointConfig, {"period": "2"}, "period = '2': .* at least 0, or None"),
        (SaveCheckpointConfig, {"keep": -1}, "keep = -1"),
        (SaveCheckpointConfig, {"checkpoint_steps": 5},
         "checkpoint_steps = 5: give a l"),
        (data, {"lengths": {"inputs": 0}}, r"task_feature_lengths\['inputs'\] = 0"),
        (data, {"lengths": "8"}, "task_feature_lengths = '8': give a length for each"),
    ],
)  # fmt: skip
def test_values_out_of_range_are_named(make, settings, message):
    with pytest.raises(UserError, match=message):
        make(**settings)


def test_arrays_are_taken_for_topk_and_topp():
    for settings in ({"topk": jnp.array(2)}, {"topk": 0, "topp": jnp.array(0.5)}):
        with pytest.raises(TypeError):  # the network of this test is not a real network
            sample(**settings)


def test_the_ends_of_the_ranges_are_taken():
    model(label_smoothing=0.0, z_loss=0.0, loss_normalizing_factor=1e-9)
    model(loss_normalizing_factor="NUM_REAL_TARGET_TOKENS")
    config(dropout_rate=0)
    assert SaveCheckpointConfig().save_dataset
    create_learning_rate_scheduler("constant * cosine_decay", warmup_steps=0)
    adafactor.Adafactor(decay_rate=0, clipping_threshold=None, weight_decay_rate=0.0)
    SaveCheckpointConfig(keep=0, period=None, checkpoint_steps=(1, 2))
    data({"inputs": 8, "targets": None, "ids": (3, 2)})
    data()
    checks.number("x", 0.5, below=1)
