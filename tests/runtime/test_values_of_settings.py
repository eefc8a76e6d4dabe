"""Numbers of gin files that would train on nothing, on NaN, or end in a traceback later."""

import types

import jax.numpy as jnp
import pytest
from t5x import checks, models
from t5x.checkpoint.settings import SaveCheckpointConfig
from t5x.errors import UserError
from t5x.examples.t5 import network
from t5x.feed.data_config import DatasetConfig
from t5x.search.temperature_sample import temperature_sample
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


def data(lengths):
    return DatasetConfig("toy", lengths, "train", 2, False, 0)


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
        (
            network.T5Config,
            {"vocab_size": 8, "dropout_rate": 1.5},
            "dropout_rate = 1.5",
        ),
        (
            network.T5Config,
            {"vocab_size": 8, "dropout_rate": "0"},
            "dropout_rate = '0'",
        ),
        (sample, {"temperature": -1.0}, "temperature = -1.0"),
        (sample, {"topk": -5}, "topk = -5: give a whole number of at least 0"),
        (sample, {"topk": 0, "topp": 1.9}, "topp = 1.9"),
        (sample, {"topk": 2, "topp": 0.5}, "At most one of `topp` or `topk`"),
        (create_learning_rate_scheduler, {"warmup_steps": 0}, "warmup_steps = 0"),
        (create_learning_rate_scheduler, {"base_learning_rate": "a"}, "rate = 'a'"),
        (
            create_learning_rate_scheduler,
            {"factors": None},
            "factors = None: give names",
        ),
        (SaveCheckpointConfig, {"keep": 1.5}, "keep = 1.5: give a whole number"),
        (SaveCheckpointConfig, {"period": "2"}, "period = '2': .* at least 0, or None"),
        (SaveCheckpointConfig, {"keep": -1}, "keep = -1"),
        (
            SaveCheckpointConfig,
            {"checkpoint_steps": 5},
            "checkpoint_steps = 5: give a l",
        ),
        (data, {"lengths": {"inputs": 0}}, r"task_feature_lengths\['inputs'\] = 0"),
        (data, {"lengths": "8"}, "task_feature_lengths = '8': give a length for each"),
    ],
)
def test_values_out_of_range_are_named(make, settings, message):
    with pytest.raises(UserError, match=message):
        make(**settings)


def test_arrays_are_taken_for_topk_and_topp():
    for settings in ({"topk": jnp.array(2)}, {"topk": 0, "topp": jnp.array(0.5)}):
        with pytest.raises(TypeError):  # the network of this test, which is none
            sample(**settings)


def test_the_ends_of_the_ranges_are_taken():
    model(label_smoothing=0.0, z_loss=0.0, loss_normalizing_factor=1e-9)
    model(loss_normalizing_factor="NUM_REAL_TARGET_TOKENS")
    network.T5Config(vocab_size=8, dropout_rate=0)
    create_learning_rate_scheduler("constant * rsqrt_decay", warmup_steps=0)
    SaveCheckpointConfig(keep=0, period=None, checkpoint_steps=(1, 2))
    data({"inputs": 8, "targets": None, "ids": (3, 2)})
    data(None)
    checks.number("x", 0.5, below=1)
