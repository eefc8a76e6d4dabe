"""The dry run opens the initial checkpoint of a run."""

import dataclasses

import jax
import model_kit
import numpy as np
import pytest
from t5x import checkpoints, models, partitioning, train_state, utils
from t5x.errors import UserError
from t5x.examples.t5 import network
from t5x.start import rehearsal

pytest.importorskip("seqio")


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    """Returns the folder of a checkpoint of `model_kit.t5_model`, of step 3."""
    folder = tmp_path_factory.mktemp("saved")
    model = model_kit.t5_model()
    variables = model.get_initial_variables(
        jax.random.key(0),
        {"encoder_input_tokens": (1, 4), "decoder_input_tokens": (1, 4)},
    )
    state = train_state.InferenceState.create(variables).replace(step=np.int32(3))
    partitioner = partitioning.PjitPartitioner(num_partitions=1)
    checkpoints.Checkpointer(state, partitioner, str(folder)).save(state)
    return folder / "checkpoint_3"


def check(model, path, mode="specific"):
    arguments = {
        "model": model,
        "dataset_cfg": utils.DatasetConfig(
            "toy", {"inputs": 8, "targets": 4}, "test", 2, False, 0
        ),
        "restore_checkpoint_cfg": utils.RestoreCheckpointConfig(str(path), mode),
    }
    rehearsal._check_checkpoint(arguments, utils.TrainStateInitializer)


def other_model(**sizes):
    config = dataclasses.replace(model_kit.T5_CONFIG, **sizes)
    words = model_kit.VOCABULARY
    return models.EncoderDecoderModel(network.Transformer(config), words, words, None)


def test_a_checkpoint_of_the_model_passes(saved, capsys):
    check(model_kit.t5_model(), saved)
    check(model_kit.t5_model(), saved.parent, "latest")
    assert "not compared" not in capsys.readouterr().err


def test_a_checkpoint_of_another_size(saved):
    with pytest.raises(
        UserError,
        match=r"Shape of `target/decoder/decoder_norm/scale` in checkpoint "
        r".*checkpoint_3 \(8,\) does not match expected \(16,\)\. Use the model size",
    ):
        check(other_model(emb_dim=16), saved)


def test_what_is_out_of_reach_is_announced(monkeypatch, capsys):
    def no_network(*address):
        raise OSError("Name or service not known")

    monkeypatch.setattr(rehearsal.socket, "getaddrinfo", no_network)
    check(model_kit.t5_model(), "gs://bucket/checkpoint_3")
    assert capsys.readouterr().err == (
        "dry run: the checkpoint not checked: gs:// is out of reach from here.\n"
    )
