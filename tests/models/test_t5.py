"""Initialisation of models that start from nothing."""

import flax
import jax
import numpy as np
from t5x import models
from t5x.examples.t5 import network

from jaxaug.models import t5

SHAPES = {
    "encoder_input_tokens": (2, 8),
    "decoder_input_tokens": (2, 4),
    "decoder_target_tokens": (2, 4),
}


class Words:
    eos_id = 1
    vocab_size = 32


def variables(cls, **kwargs):
    config = network.T5Config(
        vocab_size=32, emb_dim=8, num_heads=4, num_encoder_layers=1,
        num_decoder_layers=1, head_dim=4, mlp_dim=16,
    )  # fmt: skip
    model = cls(network.Transformer(config), Words(), Words(), None, **kwargs)
    found = model.get_initial_variables(jax.random.PRNGKey(3), SHAPES)
    return flax.traverse_util.flatten_dict(flax.core.unfreeze(found))


def test_only_the_relative_biases_differ_and_have_the_deviation():
    plain = variables(models.EncoderDecoderModel)
    wide = variables(t5.ScratchEncoderDecoderModel, relpos_stddev=2.0)
    assert plain.keys() == wide.keys()
    redrawn = [path for path in plain if path[-1] == "rel_embedding"]
    assert len(redrawn) == 2
    for path, value in plain.items():
        same = np.array_equal(
            jax.tree.leaves(value)[:1], jax.tree.leaves(wide[path])[:1]
        )
        assert same == (path not in redrawn), path
    values = np.concatenate([np.ravel(wide[path]) for path in redrawn])
    assert 1.7 < values.std() < 2.3  # 256 normal draws
    assert not np.array_equal(wide[redrawn[0]], wide[redrawn[1]])
