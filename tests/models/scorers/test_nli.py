"""Entailment by a DeBERTa: from the published files to the score, as in PyTorch."""

import shutil

import pytest
import torch
import transformers

from jaxaug.core import pins
from jaxaug.core.errors import UserError
from jaxaug.models.named import catalogue
from jaxaug.models.scorers import encoder

PAIRS = [
    ("the name of the city", "this city"),
    ("cost in dollars", "the price of two nights at a hotel"),
    ("a song", "phone number and address"),
]
# As MoritzLaurer/DeBERTa-v3-base-mnli-fever-anli and cross-encoder/nli-deberta-v3-base.
ORDERS = [("entailment", "neutral", "contradiction")]
ORDERS += [("contradiction", "entailment", "neutral")]


def published(folder, train_spm, labels):
    torch.manual_seed(0)
    config = transformers.DebertaV2Config(
        vocab_size=110, hidden_size=16, num_hidden_layers=2, num_attention_heads=2,
        intermediate_size=24, max_position_embeddings=64, initializer_range=0.5,
        relative_attention=True, position_buckets=16, norm_rel_ebd="layer_norm",
        share_att_key=True, pos_att_type="p2c|c2p", position_biased_input=False,
        type_vocab_size=0, id2label=dict(enumerate(labels)),
    )  # fmt: skip
    model = transformers.DebertaV2ForSequenceClassification(config).eval()
    model.save_pretrained(folder)
    train_spm(folder)
    return model


def test_a_model_of_the_hub_by_its_id(tmp_path, train_spm, monkeypatch):
    monkeypatch.setenv("JAXAUG_CACHE_DIR", str(tmp_path / "cache"))
    name = "hf:somebody/deberta-nli"
    with pytest.raises(UserError, match=f"`jaxaug models fetch {name}`"):
        encoder.folder_of(name)
    folder = catalogue.hub_folder("somebody/deberta-nli")
    published(tmp_path / "model", train_spm, ORDERS[0])
    shutil.copytree(tmp_path / "model", folder)
    pins.note(folder, source="somebody/deberta-nli", sha256=pins.digests(folder))
    assert encoder.folder_of(name) == folder
    (folder / "spm.model").write_bytes(b"damaged")
    with pytest.raises(UserError, match="spm.model"):
        encoder.folder_of(name)
