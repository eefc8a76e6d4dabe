"""Models with adapters by name, in `jaxaug paraphrase` and `jaxaug convert`."""

import jax
import numpy as np
import pytest
from t5x import checkpoints, models, optimizers, partitioning

from jaxaug import cli
from jaxaug.core.errors import UserError
from jaxaug.models import convert, finetune
from jaxaug.models.lora import layout, peft_folder
from jaxaug.models.lora.layout import layout_of
from jaxaug.models.lora.settings import Settings
from jaxaug.models.text import adapters, prompts, registry
from jaxaug.models.weights import hf_folder, keymap

SETTINGS = Settings(rank=2, alpha=3, targets=("q_proj", "down_proj"))
CONFIG = """from __gin__ import dynamic_registration
import __main__ as train_script
from jaxaug.models import finetune
from jaxaug.models.lora import settings

ADAPTED_MODEL = @finetune.lora()
ADAPTER = @settings.Settings()
BASE = '{base}'
RANK = 2
finetune.lora:
  adapter = %ADAPTER
  base = %BASE
settings.Settings:
  rank = %RANK
  alpha = 3
  targets = ['q_proj', 'down_proj']
train_script.train.model = %ADAPTED_MODEL
"""


@pytest.fixture(scope="module")
def published(tiny_lm):
    return hf_folder.load(tiny_lm)


@pytest.fixture(scope="module")
def adapter(published):
    """Returns layout and matrices, with values that bfloat16 can represent."""
    found = layout_of(published.family, published.config, published.params, SETTINGS)
    rng = np.random.default_rng(0)
    draw = lambda x: np.float32(rng.integers(-8, 9, x.shape)) / 16
    return found, jax.tree.map(draw, found.initial(jax.random.PRNGKey(0)))


@pytest.fixture(scope="module")
def merged(published, adapter):
    found, matrices = adapter
    return layout.merge(published.params, matrices, found)


@pytest.fixture(scope="module")
def folder(published, adapter, tmp_path_factory):
    """Returns the adapter in the format of peft."""
    out = tmp_path_factory.mktemp("adapter") / "polite"
    notes = peft_folder.Notes(layout.digest(published.params), "tiny", "{text}\n=>")
    return peft_folder.write(out, adapter[1], adapter[0], notes)


@pytest.fixture(scope="module")
def run(tiny_lm, published, adapter, tmp_path_factory):
    """Returns the folder of the run that trained the adapter, at step 7."""
    out = tmp_path_factory.mktemp("runs") / "my_run"
    out.mkdir()
    (out / "config.gin").write_text(CONFIG.format(base=tiny_lm))
    plain = models.DecoderOnlyModel(published.module, None, optimizers.adamw(0.1))
    model = finetune.lora(plain, tiny_lm, SETTINGS)
    partitioner = partitioning.PjitPartitioner(num_partitions=1)
    states = finetune.AdapterStateInitializer(
        model.optimizer_def, model.get_initial_variables, {}, partitioner
    )
    state = states.from_scratch(jax.random.PRNGKey(0))
    state = state.replace_params(adapter[1]).replace_step(np.int32(7))
    manager = checkpoints.OrbaxCheckpointManagerInterface(
        out, states.global_train_state_shape, partitioner
    )
    manager.save(state)
    manager.close()
    return out


def same(left, right):
    left, right = keymap.flat(left), keymap.flat(right)
    assert left.keys() == right.keys()
    for path, array in left.items():
        np.testing.assert_array_equal(array, right[path], err_msg=path)


def test_a_named_adapter_is_in_the_parameters(tiny_lm, folder, published, merged):
    loaded = registry.load(registry.with_adapter(str(tiny_lm), str(folder)))
    same(loaded.params, merged)
    assert loaded.label.endswith("+polite")
    assert loaded.prompt == prompts.Prompt("", "", "\n=>")
    assert loaded.trained_prompt
    plain = registry.load(str(tiny_lm))
    same(plain.params, published.params)
    assert loaded.identity != plain.identity
    assert registry.published_identity(f"{tiny_lm}+{folder}") == loaded.identity


def test_a_run_stands_for_its_base_with_the_adapter(tiny_lm, run, merged):
    for name in (str(run), f"{run}/checkpoint_7", f"{tiny_lm}+{run}"):
        loaded = registry.load(name)
        same(loaded.params, merged)
        assert loaded.label.endswith("+my_run@7")
        assert loaded.prompt == prompts.find("plain")


def test_the_adapter_of_a_run_becomes_a_folder_of_peft(
    run, published, merged, tmp_path
):
    out = tmp_path / "out"
    assert (
        cli.main(["convert", "--from", f"{run}", "--to", f"{out}", "--format", "peft"])
        == 0
    )
    found = adapters.load(out, published.module, published.params, "tiny")
    same(adapters.merged(published.params, found), merged)
    assert found.notes.base_digest == layout.digest(published.params)
    assert found.notes.prompt == prompts.PROMPTS["plain"]
    assert "/" not in found.notes.base


def test_merged_and_taken_out_again(tiny_lm, folder, published, merged, tmp_path):
    convert.convert(tiny_lm, tmp_path / "merged", merge_lora=folder)
    same(hf_folder.load(tmp_path / "merged").params, merged)
    convert.convert(tmp_path / "merged", tmp_path / "out", unmerge_lora=folder)
    again = keymap.flat(hf_folder.load(tmp_path / "out").params)
    for path, array in keymap.flat(published.params).items():
        np.testing.assert_allclose(again[path], array, atol=1e-6, err_msg=path)
    with pytest.raises(UserError, match="was trained on another base"):
        convert.convert(tmp_path / "merged", tmp_path / "twice", merge_lora=folder)


def test_an_adapter_of_another_base(tiny_lm, adapter, published, tmp_path):
    found, matrices = adapter
    other = jax.tree.map(lambda x: x + 1, published.params)
    notes = peft_folder.Notes(base_digest=layout.digest(other))
    peft_folder.write(tmp_path, matrices, found, notes)
    with pytest.raises(UserError, match="its digest is .*, but .* has "):
        registry.load(f"{tiny_lm}+{tmp_path}")


def test_no_adapter_at_all(tiny_lm, tmp_path, run):
    with pytest.raises(UserError, match="holds no adapter. Name a folder with"):
        registry.load(f"{tiny_lm}+{tmp_path}")
    with pytest.raises(UserError, match="is neither a run with configs/runs/lora.gin"):
        convert.convert(tiny_lm, tmp_path / "out", form="peft")
    with pytest.raises(UserError, match="No complete checkpoint of step 8"):
        registry.load(f"{run}/checkpoint_8")


def test_digest_depends_on_the_values(published):
    digest = layout.digest(published.params)
    assert layout.digest(jax.tree.map(np.float64, published.params)) == digest
    changed = dict(keymap.flat(published.params))
    path = min(changed)
    changed[path] = changed[path] + np.float32(1e-3)
    assert layout.digest({"x": changed}) != digest
