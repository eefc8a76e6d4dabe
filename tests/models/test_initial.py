"""Named models as initial checkpoints of training."""

import dataclasses

import numpy as np
import pytest
import transformers
from flax import traverse_util
from t5x import checkpoints

from jaxaug.core.errors import UserError
from jaxaug.models import initial
from jaxaug.models.named import catalogue
from jaxaug.models.weights import hf_folder, keymap

CONFIG = transformers.T5Config(
    vocab_size=40, d_model=8, d_kv=4, d_ff=16, num_heads=2, num_layers=1,
    num_decoder_layers=1, feed_forward_proj="gated-gelu", tie_word_embeddings=False,
)  # fmt: skip


@pytest.fixture
def named(tmp_path, monkeypatch):
    """Returns a model of the catalogue that is in a folder, stored in bfloat16."""
    folder = tmp_path / "jaxaug" / "tiny"
    model = transformers.T5ForConditionalGeneration(CONFIG).bfloat16()
    model.save_pretrained(folder)
    shipped = catalogue.Named("tiny", "t5", catalogue.SHIPPED, "1", "x", "test")
    monkeypatch.setitem(catalogue.CATALOGUE, "tiny", shipped)
    monkeypatch.setattr(catalogue, "__file__", str(folder.parent / "catalogue.py"))
    monkeypatch.setenv("JAXAUG_CACHE_DIR", str(tmp_path / "cache"))
    return folder


def test_the_checkpoint_has_the_published_values(named):
    path = initial.checkpoint("tiny")
    state = checkpoints.load_t5x_checkpoint(path)
    found = traverse_util.flatten_dict(state["target"], sep="/")
    expected = keymap.flat(hf_folder.load(named, param_dtype=None).params)
    assert found.keys() == expected.keys()
    for name, array in found.items():
        array = np.asarray(array)
        assert array.dtype == np.float32
        np.testing.assert_array_equal(array, np.asarray(expected[name], np.float32))
    assert int(np.asarray(state["state"]["step"])) == 0


def test_it_is_made_once_and_again_when_damaged(named):
    path = initial.checkpoint("tiny")
    file = f"{path}/checkpoint"
    with open(file, "r+b") as stream:
        good = stream.read()
        stream.seek(200)
        stream.write(b"\0\0\0\0")
    assert initial.checkpoint("tiny") == path
    with open(file, "rb") as stream:
        assert stream.read() == good


def test_other_weights_are_another_checkpoint(named):
    before = initial.checkpoint("tiny")
    transformers.T5ForConditionalGeneration(CONFIG).save_pretrained(named)
    assert initial.checkpoint("tiny") != before


def test_a_model_without_sentencepiece_has_no_vocabulary(named):
    with pytest.raises(UserError, match=r"tiny has no spiece\.model"):
        initial.vocabulary("tiny")
    (named / "spiece.model").write_bytes(b"x")
    assert initial.vocabulary("tiny") == str(named / "spiece.model")


def test_shipped_models_need_no_network(named):
    model = catalogue.find("tiny")
    assert model.on_disk and model.shipped
    assert catalogue.fetch("tiny") == model.folder
    assert dataclasses.replace(model, name="other").on_disk is False
