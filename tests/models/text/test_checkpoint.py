"""A T5X run folder as a model: configuration, newest checkpoint, and errors."""

import functools
import shutil

import flax
import gin
import jax
import numpy as np
import pytest
import tensorboardX
from t5x import checkpoints, models, partitioning, train_state
from t5x.examples.t5 import network

from jaxaug.core.errors import UserError
from jaxaug.feed import vocabulary
from jaxaug.models.text import checkpoint, registry
from tests.support.tiny_run import CONFIG


@pytest.fixture(scope="module")
def variables(words):
    config = network.T5Config(
        vocab_size=1152, emb_dim=8, num_heads=2, num_encoder_layers=1,
        num_decoder_layers=1, head_dim=4, mlp_dim=8,
    )  # fmt: skip
    vocabulary_ = vocabulary.TokenVocabulary(words)
    model = models.EncoderDecoderModel(
        network.Transformer(config), vocabulary_, vocabulary_, None
    )
    names = ("encoder_input_tokens", "decoder_input_tokens", "decoder_target_tokens")
    init = functools.partial(
        model.get_initial_variables, input_shapes=dict.fromkeys(names, (1, 4))
    )
    return jax.jit(init)(jax.random.PRNGKey(0))


@pytest.fixture
def run_folder(tmp_path, words, variables):
    """Writes a run with checkpoints 3 and 12; returns folder and parameters."""
    folder = tmp_path / "my_run"
    folder.mkdir()
    (folder / "config.gin").write_text(CONFIG.format(words=words))
    found = {}
    for step in (3, 12):
        scaled = jax.tree.map(lambda x, step=step: x * step, variables["params"])
        state = train_state.InferenceState.create({**variables, "params": scaled})
        state = state.replace(step=np.int32(step))
        partitioner = partitioning.PjitPartitioner(num_partitions=1)
        checkpoints.Checkpointer(state, partitioner, folder).save(state)
        found[step] = flax.core.unfreeze(scaled)
    return folder, found


def test_newest_checkpoint_or_the_named_one(run_folder):
    folder, params = run_folder
    for path, step in ((folder, 12), (folder / "checkpoint_3", 3)):
        run = checkpoint.load(path)
        assert run.step == step
        assert type(run.model) is models.EncoderDecoderModel
        assert run.model.module.config.emb_dim == 8
        jax.tree.map(np.testing.assert_array_equal, run.params, params[step])


def test_the_configuration_of_the_caller_stays(run_folder):
    gin.parse_config("from __gin__ import dynamic_registration\nMY_OWN = 3\n")
    before = gin.config_str()
    assert "MY_OWN = 3" in before
    try:
        checkpoint.load(run_folder[0])
        assert gin.config_str() == before
        assert gin.query_parameter("MY_OWN/macro.value") == 3
    finally:
        gin.clear_config()


def test_relative_paths(run_folder, monkeypatch):
    folder, params = run_folder
    monkeypatch.chdir(folder.parent)
    for path, step in (("my_run", 12), ("my_run/", 12), ("./my_run/checkpoint_3/", 3)):
        run = checkpoint.load(path)
        assert run.step == step
        jax.tree.map(np.testing.assert_array_equal, run.params, params[step])
    monkeypatch.chdir(folder)
    assert registry.load(".").label == "my_run@12"
    assert registry.load("checkpoint_3").label == "checkpoint_3@3"


def test_registry_reads_folders(run_folder, words):
    folder, _ = run_folder
    model = registry.load(str(folder))
    assert model.label == "my_run@12"
    assert model.lowercase
    tokens = vocabulary.TokenVocabulary(words).encode("find a hotel in the city")
    assert model.encode(" Find a HOTEL in\tthe city") == [*tokens, 1]
    assert model.decode([*tokens, 1, 5]) == "find a hotel in the city"


def test_a_copy_of_a_run_is_the_same_model(run_folder, tmp_path):
    """Other checkpoints and networks are different models, whatever their names."""
    folder, _ = run_folder
    copy, changed = tmp_path / "copy", tmp_path / "x" / "my_run"
    for other in (copy, changed):
        shutil.copytree(folder, other)
    path = changed / "config.gin"
    activation = "mlp_dim = 8\n  mlp_activations = ('gelu',)"
    path.write_text(path.read_text().replace("mlp_dim = 8", activation))
    first = registry.load(str(folder)).identity
    assert registry.load(str(copy)).identity == first
    assert registry.load(str(copy / "checkpoint_12")).identity == first
    assert registry.load(str(folder / "checkpoint_3")).identity != first
    assert registry.load(str(changed)).identity != first


def test_no_configuration(tmp_path):
    with pytest.raises(
        UserError, match=r"config.gin: no such file. Name the folder of"
    ):
        registry.load(str(tmp_path))


def test_no_checkpoint(run_folder):
    folder, _ = run_folder
    for step in (3, 12):
        (folder / f"checkpoint_{step}").rename(folder / f"gone_{step}")
    with pytest.raises(UserError, match="my_run holds no complete checkpoint"):
        checkpoint.load(folder)
    with pytest.raises(UserError, match="of step 3 in .* Name the folder of"):
        checkpoint.load(folder / "checkpoint_3")


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("MODEL = @models.EncoderDecoderModel()", "MODEL = 3",
         "MODEL is a int, which is neither an Enc"),
        ("emb_dim = 8", "emb_dim = 'x'",
         ("T5Config.emb_dim = 'x': give a whole number of at least 1. Name the "
         "folder")),
        ("vocab_size = 1152", "vocab_size = {1: 2}",
         "describes a network that cannot be built .TypeError: .* Name the folder"),
        ("num_heads = 2", "num_heads = [2]",
         "describes a network that cannot be built"),
        ("num_encoder_layers = 1", "num_encoder_layers = 1000000000",
         "num_encoder_layers is 1000000000, but must be at most 1000."),
        ("vocab_size = 1152", "vocab_size = 1280",
         r"kernel of shape \(8, 1152\), .* config.gin needs \(8, 1280\).*VOCABULARY"),
    ],
)  # fmt: skip
def test_wrong_configuration(run_folder, old, new, message):
    path = run_folder[0] / "config.gin"
    path.write_text(path.read_text().replace(old, new, 1))
    with pytest.raises(UserError, match=message) as error:
        checkpoint.load(run_folder[0])
    assert str(path.parent) in str(error.value)


@pytest.mark.parametrize(("mode", "step"), [("max", 3), ("min", 12)])
def test_the_best_checkpoint_of_the_run(run_folder, mode, step):
    folder, params = run_folder
    config = folder / "config.gin"
    config.write_text(
        config.read_text()
        + "from t5x.checkpoint import orbax\nTASK = 'paraphrase_mine'\n"
        "from jaxaug.feed import pair_words\npair_words.metric_of.task = %TASK\n"
        "orbax.SaveBestCheckpointer.metric_name_to_monitor = @pair_words.metric_of()\n"
        f"orbax.SaveBestCheckpointer.metric_mode = '{mode}'\n"
    )
    # Nothing was evaluated yet.
    assert checkpoint.load(folder).step == 12
    events = str(folder / "inference_eval/paraphrase_mine")
    with tensorboardX.SummaryWriter(events) as writer:
        for at, value in ((3, 7.5), (6, 9.0), (12, 6.25)):
            writer.add_scalar("eval/bleu", value, at)
    run = checkpoint.load(folder)
    assert run.step == step
    jax.tree.map(np.testing.assert_array_equal, run.params, params[step])
    assert checkpoint.load(folder / "checkpoint_12").step == 12
