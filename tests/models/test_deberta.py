"""DeBERTa v2 and v3, compared with PyTorch."""

import json
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch
import transformers
from transformers.models.deberta_v2 import modeling_deberta_v2

from jaxaug.core.errors import UserError
from jaxaug.models import deberta
from jaxaug.models.weights import hf_folder
from tests.models import torch_kit
from tests.models.torch_kit import LABELS

SIZES = {
    "vocab_size": 31, "hidden_size": 12, "num_hidden_layers": 2,
    "num_attention_heads": 3, "intermediate_size": 20, "max_position_embeddings": 24,
    "initializer_range": 0.4,
}  # fmt: skip
# As in the published config.json of each; more buckets than tokens in a test would hide
# them.
V3 = {
    "relative_attention": True, "position_buckets": 8, "norm_rel_ebd": "layer_norm",
    "share_att_key": True, "pos_att_type": "p2c|c2p", "max_relative_positions": -1,
    "position_biased_input": False, "type_vocab_size": 0,
}  # fmt: skip
XLARGE = V3 | {"conv_kernel_size": 3, "conv_act": "gelu", "attention_head_size": 4}
KINDS = {
    "v3": V3,
    "v2-xlarge": XLARGE,
    "grouped convolution": V3
    | {"conv_kernel_size": 5, "conv_groups": 4, "conv_act": "tanh"},
    "narrow embeddings": V3 | {"embedding_size": 6, "type_vocab_size": 2},
    "own keys": V3
    | {"share_att_key": False, "norm_rel_ebd": "none", "position_buckets": -1},
    "c2p alone": V3 | {"share_att_key": False, "pos_att_type": ["c2p"]},
    "p2c alone": V3
    | {"share_att_key": False, "pos_att_type": ["p2c"], "max_relative_positions": 9},
    "learned positions": V3 | {"position_biased_input": True, "type_vocab_size": 2},
    "not relative": V3 | {"relative_attention": False, "position_biased_input": True},
}
# Rows of different lengths, beyond the buckets; segments of a pair.
LENGTHS = np.array([20, 7, 1])
MASK = np.arange(20) < LENGTHS[:, None]
SEGMENTS = np.where(MASK, np.arange(20) > 4, 0).astype(np.int32)
IDS = np.where(MASK, np.random.default_rng(0).integers(5, 31, MASK.shape), 0)
HEAD = "DebertaV2ForSequenceClassification"


def torch_model(folder: Path, name: str = HEAD, **options):
    """Returns a random model of PyTorch, which is also written to the folder."""
    model = torch_kit.random_torch(name, **SIZES | options)
    model.save_pretrained(folder)
    return model


def run_torch(model, ids=IDS, mask=MASK, segments=SEGMENTS):
    with torch.no_grad():
        return model(
            input_ids=torch.tensor(ids).long(),
            attention_mask=torch.tensor(mask).long(),
            token_type_ids=torch.tensor(segments).long(),
        )


def run(module, params, ids=IDS, mask=MASK, segments=SEGMENTS):
    """Returns hidden states of the last layer, and logits."""

    @jax.jit
    def both(params):
        inputs = {"params": params}, ids, segments, mask
        return module.apply(*inputs), module.apply(*inputs, method="classify")

    return map(np.asarray, both(params))


@pytest.mark.parametrize("kind", KINDS)
def test_states_and_logits_equal_torch(kind, tmp_path):
    theirs = torch_model(tmp_path, id2label=LABELS, **KINDS[kind])
    ours = hf_folder.load(tmp_path)
    assert ours.family.name == "deberta" and ours.config.labels == tuple(
        LABELS.values()
    )
    # Tokens after the end of a text have no effect.
    ids = np.where(MASK, IDS, 7)
    hidden, logits = run(ours.module, ours.params, ids)
    last = run_torch(theirs.deberta).last_hidden_state.numpy()
    np.testing.assert_allclose(hidden[MASK], last[MASK], atol=2e-5)
    expected = run_torch(theirs).logits.numpy()
    np.testing.assert_allclose(logits, expected, atol=2e-5)
    assert np.ptp(expected, axis=0).min() > 0.01


def test_a_text_alone_has_the_logits_that_it_has_in_a_batch(tmp_path):
    theirs = torch_model(tmp_path, **XLARGE)
    ours = hf_folder.load(tmp_path)
    row = np.s_[1:2, : LENGTHS[1]]
    _, logits = run(ours.module, ours.params, IDS[row], None, None)
    expected = run_torch(theirs).logits.numpy()
    np.testing.assert_allclose(logits, expected[1:2], atol=2e-5)


@pytest.mark.parametrize(
    "options", [{}, {"id2label": LABELS, "pooler_hidden_act": "tanh"}]
)
@pytest.mark.parametrize("kind", KINDS)
def test_round_trip_of_weights_and_config_is_exact(kind, options, tmp_path):
    name = HEAD if options else "DebertaV2Model"
    theirs = torch_model(tmp_path / "m", name, **KINDS[kind], **options)
    unread = torch_kit.unread_after_round_trip(tmp_path / "m")
    assert {n.rpartition("encoder.")[2] for n in unread} == (
        {"LayerNorm.weight", "LayerNorm.bias"} if kind == "not relative" else set()
    )
    again = deberta.to_hf(hf_folder.read_config(tmp_path / "m")[2])
    # PyTorch reads our files as the same model.
    (tmp_path / "m" / "config.json").write_text(json.dumps(again))
    read = getattr(transformers, name).from_pretrained(tmp_path / "m").eval()
    np.testing.assert_array_equal(run_torch(read)[0], run_torch(theirs)[0])


def test_rows_of_distances_equal_torch():
    """Sizes of the published models, also beyond their greatest distance."""
    config = deberta.Config(1, 1, 1, 1, 1, buckets=256, max_distance=512)
    length = 900
    places = torch.zeros(1, length, 1)
    theirs = modeling_deberta_v2.build_relative_position(places, places, 256, 512)[0]
    expected = np.clip(theirs.numpy() + 256, 0, 511)
    np.testing.assert_array_equal(deberta.distances(length, config), expected)
    assert len(np.unique(expected)) == 512


def test_activations_of_bfloat16_stay_close_and_give_float32_logits(tmp_path):
    theirs = torch_model(tmp_path, **V3)
    ours = hf_folder.load(tmp_path, dtype=jnp.bfloat16)
    hidden, logits = run(ours.module, ours.params)
    assert (hidden.dtype, logits.dtype) == (jnp.bfloat16, np.float32)
    np.testing.assert_allclose(logits, run_torch(theirs).logits.numpy(), atol=0.25)


def test_bare_checkpoint_of_pre_training(tmp_path):
    """The form of microsoft/deberta-v3-base: PyTorch's file, other heads."""
    theirs = torch_model(tmp_path, "DebertaV2Model", **V3)
    (tmp_path / "model.safetensors").unlink()
    tensors = {f"deberta.{k}": v for k, v in theirs.state_dict().items()}
    tensors |= {
        "deberta.embeddings.position_ids": torch.arange(24)[None],
        "lm_predictions.lm_head.bias": torch.zeros(31),
        "mask_predictions.dense.weight": torch.zeros(12, 12),
    }
    torch.save(tensors, tmp_path / "pytorch_model.bin")
    settings = {"model_type": "deberta-v2"} | SIZES | V3
    (tmp_path / "config.json").write_text(json.dumps(settings))
    ours = hf_folder.load(tmp_path)
    hidden = np.asarray(jax.jit(ours.module.apply)({"params": ours.params}, IDS))
    expected = run_torch(theirs).last_hidden_state.numpy()
    np.testing.assert_allclose(hidden[MASK], expected[MASK], atol=2e-5)
    with pytest.raises(UserError, match=r"has the head 'none', but 'classifier' is"):
        ours.module.apply({"params": ours.params}, IDS, method="classify")


def _settings(**changes):
    return SIZES | {"model_type": "deberta-v2", "architectures": [HEAD], **changes}


@pytest.mark.parametrize(
    "changes, text",
    [
        ({"position_buckets": 1.5}, r"position_buckets is 1.5, but must be a whole"),
        ({"pos_att_type": 3},
         r"pos_att_type is 3, but must be a text or a list of texts"),
        ({"share_att_key": "yes"},
         r"share_att_key is 'yes', but must be true or false"),
        ({"conv_kernel_size": 3, "conv_groups": 5}, r"cannot be built"),
        ({"position_buckets": 6},
         r"encoder.rel_embeddings.weight has shape \[16, 12\]"),
        ({"conv_kernel_size": 3}, r"4 missing: deberta.encoder.conv.LayerNorm.bias"),
        ({"architectures": ["DebertaV2Model"]}, r"4 left over: classifier.bias"),
        ({"vocab_size": None}, r"config.json"),
    ],
)  # fmt: skip
def test_files_that_do_not_fit_are_errors(changes, text, tmp_path):
    torch_model(tmp_path, **V3)
    path = tmp_path / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))
    with pytest.raises(UserError, match=text):
        hf_folder.load(tmp_path)


def test_a_bert_without_segments_is_refused(tmp_path):
    """DeBERTa may have no table of segments; a BERT has at least one row."""
    config = transformers.BertConfig(**SIZES)
    transformers.BertModel(config).save_pretrained(tmp_path)
    path = tmp_path / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"type_vocab_size": 0}))
    with pytest.raises(UserError, match="type_vocab_size|cannot be built|has shape"):
        hf_folder.load(tmp_path)
