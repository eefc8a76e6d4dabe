"""Decodes with a tiny T5 under the T5X runtime and prints the tokens as JSON.

Usage: decode_program.py BATCH_SIZE DECODER...; the environment determines the devices.
"""

import functools
import json
import sys
import types

import jax
import numpy as np
from t5x import partitioning, utils
from t5x.examples.t5 import network

from jaxaug.decode import beam, dips, diverse, dpp, ssr, warpers
from jaxaug.decode.sample import sample
from jaxaug.models.t5 import SourceEncoderDecoderModel

LENGTH, EXAMPLES = 6, 19
CONFIG = network.T5Config(
    vocab_size=40, emb_dim=16, num_heads=2, num_encoder_layers=1,
    num_decoder_layers=1, head_dim=8, mlp_dim=32, mlp_activations=("gelu", "linear"),
)  # fmt: skip
WORDS = types.SimpleNamespace(eos_id=1, vocab_size=40)
DECODERS = {
    "greedy": functools.partial(sample, warpers=(warpers.top_k(1),), seed=0),
    "top_k_top_p": functools.partial(
        sample, warpers=(warpers.top_k(12), warpers.top_p(0.9)), seed=0
    ),
    "bottom_k": functools.partial(sample, warpers=(warpers.bottom_k(2, 2),), seed=0),
    "beam": beam.search,
    "diverse": functools.partial(diverse.decode, groups=3, strength=1.0),
    "dips": functools.partial(dips.decode, probability=0.7, seed=0),
    "dpp": functools.partial(dpp.decode, probability=0.7, seed=0),
    "ssr": functools.partial(ssr.decode, probability=0.7, seed=0),
}


AXES = types.SimpleNamespace(params=None, flax_mutables=None)


class Examples(list):
    """An enumerated dataset of the runtime: any iterable with a length."""


def make_model(decode_fn):
    return SourceEncoderDecoderModel(
        network.Transformer(CONFIG), WORDS, WORDS, None, decode_fn=decode_fn
    )


def make_params():
    shapes = {"encoder_input_tokens": (2, 8), "decoder_input_tokens": (2, LENGTH)}
    variables = jax.eval_shape(
        functools.partial(make_model(None).get_initial_variables, input_shapes=shapes),
        jax.random.key(0),
    )
    rng = np.random.default_rng(0)
    return jax.tree.map(
        lambda x: np.float32(0.6 * rng.standard_normal(x.shape)), variables["params"]
    )


def make_examples():
    rng = np.random.default_rng(1)
    examples = Examples()
    for index in range(EXAMPLES):
        source = np.zeros(8, np.int32)
        size = rng.integers(2, 9)
        source[:size] = [*rng.integers(2, 40, size - 1), 1]
        blank = np.zeros(LENGTH, np.int32)
        batch = {"encoder_input_tokens": source, "decoder_input_tokens": blank}
        examples.append((index, batch))
    return examples


def decode(decoder, params, batch_size):
    model = make_model(DECODERS[decoder])

    def step(params, batch, rng):
        return model.predict_batch_with_aux(
            params, batch, rng=rng, return_all_decodes=True, num_decodes=3
        )

    state = types.SimpleNamespace(params=params, flax_mutables={})
    infer = utils.get_infer_fn(
        step, batch_size, AXES, partitioning.PjitPartitioner(num_partitions=1)
    )
    predictions, _ = infer(make_examples(), state, rng=jax.random.PRNGKey(0))
    return [tokens for _, tokens in predictions]


if __name__ == "__main__":
    size, *names = sys.argv[1:]
    params = make_params()
    found = {name: decode(name, params, int(size)) for name in names}
    devices = {"devices": jax.device_count()}
    print(json.dumps(devices | found, default=np.ndarray.tolist))
