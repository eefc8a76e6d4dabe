"""BERT, RoBERTa, RemBERT, and BLEURT, compared with PyTorch."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch

from jaxaug.core.errors import UserError
from jaxaug.models import bert
from jaxaug.models.weights import keymap
from tests.models import torch_kit
from tests.models.torch_kit import LABELS, loaded
from tests.support import compiled

SIZES = {
    "vocab_size": 31, "hidden_size": 12, "num_hidden_layers": 2,
    "num_attention_heads": 3, "intermediate_size": 20, "max_position_embeddings": 16,
    "type_vocab_size": 2, "initializer_range": 0.4,
}  # fmt: skip
# Rows of different lengths; segments of a pair.
LENGTHS = np.array([9, 4, 1])
MASK = np.arange(9) < LENGTHS[:, None]
SEGMENTS = np.where(MASK, np.arange(9) > 4, 0).astype(np.int32)


def tokens(pad: int, seed: int = 0) -> np.ndarray:
    drawn = np.random.default_rng(seed).integers(5, 31, MASK.shape)
    return np.where(MASK, drawn, pad).astype(np.int32)


def torch_model(name: str, **options):
    return torch_kit.random_torch(name, **SIZES | options)


def with_weights(config: bert.Config, tensors: dict[str, np.ndarray]):
    module = bert.NETWORK(config)
    ids = tokens(config.pad_token_id)
    shapes = jax.eval_shape(lambda: module.init(jax.random.PRNGKey(0), ids))["params"]
    keys = bert.key_map(config)
    params = keymap.params_from(
        tensors, keys, bert.IGNORED, shapes=shapes, source="a test"
    )
    return module, params


def torch_inputs(ids: np.ndarray, segments: np.ndarray | None) -> dict:
    inputs = {"input_ids": ids, "attention_mask": MASK}
    if segments is not None:
        inputs["token_type_ids"] = segments
    return {name: torch.tensor(array).long() for name, array in inputs.items()}


CASES = [
    ("BertModel", {}, 0, True),
    ("BertModel", {"hidden_act": "gelu_new", "layer_norm_eps": 1e-5}, 0, False),
    ("BertModel", {"hidden_act": "relu", "type_vocab_size": 3}, 0, True),
    ("RobertaModel", {"pad_token_id": 1, "type_vocab_size": 1}, 1, False),
]


@pytest.mark.parametrize("name, options, pad, pairs", CASES)
def test_hidden_states_and_pooling_equal_torch(name, options, pad, pairs, tmp_path):
    theirs = torch_model(name, **options)
    module, params = loaded(theirs, tmp_path)
    ids, segments = tokens(pad), SEGMENTS if pairs else None
    with torch.no_grad():
        expected = theirs(**torch_inputs(ids, segments))
    hidden = compiled.apply(module, params, ids, segments)
    last = expected.last_hidden_state.numpy()
    np.testing.assert_allclose(
        np.asarray(hidden)[MASK], last[MASK], atol=1e-4, rtol=1e-4
    )
    pooled = compiled.apply(module, params, ids, segments, method="pooled")
    np.testing.assert_allclose(pooled, expected.pooler_output.numpy(), atol=1e-4)
    means = [row[:n].mean(0) for row, n in zip(last, LENGTHS, strict=True)]
    np.testing.assert_allclose(bert.mean_pool(hidden, MASK), means, atol=1e-4)
    np.testing.assert_allclose(bert.cls_pool(hidden), last[:, 0], atol=1e-4)
    given = compiled.apply(module, params, ids, segments, MASK)
    np.testing.assert_array_equal(given, hidden)
    assert not torch_kit.unread_after_round_trip(tmp_path)


CLASSIFIERS = [
    ("BertForSequenceClassification", 0, {}),
    ("RobertaForSequenceClassification", 1, {"pad_token_id": 1}),
    ("RemBertForSequenceClassification", 0,
     {"input_embedding_size": 6, "output_embedding_size": 8}),
]  # fmt: skip


@pytest.mark.parametrize("name, pad, options", CLASSIFIERS)
def test_classifiers_equal_torch(name, pad, options, tmp_path):
    theirs = torch_model(name, id2label=LABELS, **options)
    module, params = loaded(theirs, tmp_path)
    assert module.config.labels == tuple(LABELS.values())
    ids = tokens(pad)
    with torch.no_grad():
        expected = theirs(**torch_inputs(ids, SEGMENTS)).logits.numpy()
    logits = compiled.apply(module, params, ids, SEGMENTS, method="classify")
    np.testing.assert_allclose(logits, expected, atol=1e-4)
    assert np.ptp(expected, axis=0).min() > 0.01
    assert not torch_kit.unread_after_round_trip(tmp_path)


@pytest.mark.parametrize("embedding_size", [None, 6])
def test_bleurt_is_bert_with_one_output_and_narrow_embeddings(embedding_size):
    """Tensor names of the published PyTorch BLEURT; values of BERT or RemBERT."""
    options = {"num_labels": 1}
    name, prefix = "BertForSequenceClassification", "bert."
    if embedding_size:
        options |= {"input_embedding_size": 6, "output_embedding_size": 8}
        name, prefix = "RemBertForSequenceClassification", "rembert."
    theirs = torch_model(name, **options)
    tensors = {
        key.replace(prefix, "bleurt.", 1).replace(
            "embedding_hidden_mapping_in", "embedding_projection"
        ): tensor.numpy()
        for key, tensor in theirs.state_dict().items()
    }
    settings = SIZES | {
        "model_type": "bleurt",
        "architectures": ["BleurtForSequenceClassification"],
        "embedding_size": embedding_size,
    }
    config = bert.Config.from_hf(settings)
    module, params = with_weights(config, tensors)
    ids = tokens(0)
    score = compiled.apply(module, params, ids, SEGMENTS, method="classify")
    with torch.no_grad():
        expected = theirs(**torch_inputs(ids, SEGMENTS)).logits.numpy()
    assert score.shape == (3, 1)
    np.testing.assert_allclose(score, expected, atol=1e-4)
    assert bert.Config.from_hf(bert.to_hf(config)) == config


@pytest.mark.parametrize("tied", [True, False])
@pytest.mark.parametrize(
    "name, pad", [("BertForMaskedLM", 0), ("RobertaForMaskedLM", 1)]
)
def test_masked_words_equal_torch(name, pad, tied, tmp_path):
    """The output matrix is the embedding, or a separate matrix."""
    theirs = torch_model(name, pad_token_id=pad, tie_word_embeddings=tied)
    output = theirs.get_output_embeddings()
    with torch.no_grad():
        output.bias.add_(torch.randn(output.bias.shape))
    assert torch.equal(output.weight, theirs.get_input_embeddings().weight) == tied
    module, params = loaded(theirs, tmp_path)
    assert module.config.tie_embeddings == tied
    ids = tokens(pad)
    with torch.no_grad():
        expected = theirs(**torch_inputs(ids, None)).logits.numpy()
    logits = np.asarray(compiled.apply(module, params, ids, method="masked_logits"))
    np.testing.assert_allclose(logits[MASK], expected[MASK], atol=1e-4, rtol=1e-4)
    # With a separate matrix, the inner bias is unused.
    unread = torch_kit.unread_after_round_trip(tmp_path)
    assert unread <= (set() if tied else {"cls.predictions.bias", "lm_head.bias"})


def test_bfloat16_stays_close_and_gives_float32_scores(tmp_path):
    theirs = torch_model("BertForSequenceClassification")
    module, params = loaded(theirs, tmp_path)
    half = bert.Bert(dataclasses.replace(module.config, dtype=jnp.bfloat16))
    ids = tokens(0)
    assert compiled.apply(half, params, ids).dtype == jnp.bfloat16
    exact = compiled.apply(module, params, ids, method="classify")
    close = compiled.apply(half, params, ids, method="classify")
    assert close.dtype == jnp.float32
    np.testing.assert_allclose(close, exact, atol=0.15)


def _settings(**changes):
    return SIZES | {
        "model_type": "bert",
        "architectures": ["BertForSequenceClassification"],
        **changes,
    }


def test_errors_name_the_missing_part():
    module = bert.Bert(bert.Config.from_hf(_settings()))
    ids = tokens(0)
    variables = jax.jit(module.init)(jax.random.PRNGKey(0), ids)
    with pytest.raises(UserError, match=r"has the head 'classifier'.*'masked_lm'"):
        module.apply(variables, ids, method="masked_logits")
    with pytest.raises(UserError, match=r"16 positions.*17 long"):
        module.apply(variables, np.ones((1, 17), np.int32))
