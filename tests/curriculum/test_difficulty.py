import json
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from jaxaug.core.errors import UserError
from jaxaug.curriculum import difficulty, generate
from jaxaug.models.weights import hf_folder


def test_twenty_paraphrases_make_five_levels_of_four():
    similarity = np.arange(20) / 20  # the last one is the most similar
    found = difficulty.difficulty(similarity)
    np.testing.assert_array_equal(found, np.repeat([5, 4, 3, 2, 1], 4))


@pytest.mark.parametrize(
    "model_type, architecture, options, scale",
    [
        # Both forms in which bleurt-base-128 is published.
        ("bert", "BertForSequenceClassification", {}, difficulty.BLEURT_1),
        (
            "bleurt",
            "BleurtForSequenceClassification",
            {"embedding_size": None},
            difficulty.BLEURT_1,
        ),
        (
            "bleurt",
            "BleurtForSequenceClassification",
            {"embedding_size": 6},
            difficulty.BLEURT_20,
        ),
        (
            "rembert",
            "RemBertForSequenceClassification",
            {"input_embedding_size": 6},
            difficulty.BLEURT_20,
        ),
        ("bert", "BertModel", {}, difficulty.COSINE),
    ],
)
def test_the_scale_equals_the_checkpoint(
    model_type, architecture, options, scale, tmp_path
):
    sizes = {
        "vocab_size": 31, "hidden_size": 12, "num_hidden_layers": 1,
        "num_attention_heads": 2, "intermediate_size": 6, "num_labels": 1,
        "max_position_embeddings": 16,
    }  # fmt: skip
    told = {"model_type": model_type, "architectures": [architecture], **sizes}
    (tmp_path / "config.json").write_text(json.dumps(told | options))
    assert difficulty.scale_of(hf_folder.read_config(tmp_path)[2]) == scale
    asked = generate.Options(
        model="smollm2", similarity=str(tmp_path), implication="roberta-mi"
    )
    assert generate.resolved(asked).beta == scale.beta


def test_equals_are_ranked_in_their_order():
    np.testing.assert_array_equal(difficulty.difficulty(np.full(5, 0.3)), range(1, 6))


def test_two_paraphrases_leave_three_of_five_levels_empty():
    np.testing.assert_array_equal(difficulty.difficulty(np.array([0.1, 0.9])), [5, 3])


@given(
    st.lists(st.floats(-2, 2), min_size=1, max_size=30, unique=True), st.integers(1, 7)
)
def test_equation_4(similarity, levels):
    found = difficulty.difficulty(np.array(similarity), levels)
    for value, level in zip(similarity, found, strict=True):
        rank = 1 + sum(other > value for other in similarity)
        assert level == math.ceil(levels * rank / len(similarity))


def test_equation_3_keeps_implied_or_similar_texts():
    found = difficulty.kept(
        np.array([True, True, False, False]), np.array([-1.0, 0.9, 0.5, 0.49]), 0.5
    )
    np.testing.assert_array_equal(found, [True, True, True, False])


def test_nothing_comes_of_nothing():
    assert difficulty.difficulty(np.zeros(0)).shape == (0,)


def test_nan_scores_are_refused():
    with pytest.raises(UserError, match="similarity 1 of 3 is nan; every paraphrase"):
        difficulty.difficulty(np.array([0.1, math.nan, 0.2]))
    with pytest.raises(UserError, match="similarity 0 of 1 is inf"):
        difficulty.kept(np.array([False]), np.array([math.inf]), 0.5)
    with pytest.raises(UserError, match="0 levels; give at least 1"):
        difficulty.difficulty(np.array([0.1]), 0)
