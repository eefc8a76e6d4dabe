"""A tiny T5 network with random parameters, for the network tests."""

import functools

import jax
import numpy as np
from flax.core import unfreeze
from t5x.examples.t5 import network

TINY = network.T5Config(
    vocab_size=37, emb_dim=12, num_heads=3, num_encoder_layers=2, num_decoder_layers=2,
    head_dim=5, mlp_dim=20, mlp_activations=("gelu", "linear"), dropout_rate=0.1,
)  # fmt: skip


def make_batch(seed=0, batch=3, input_length=11, target_length=8):
    """Returns right-padded inputs and targets of different lengths."""
    rng = np.random.default_rng(seed)
    inputs = rng.integers(2, 37, (batch, input_length))
    targets = rng.integers(2, 37, (batch, target_length))
    for i in range(1, batch):
        inputs[i, input_length - 2 * i :] = 0
        targets[i, target_length - 2 * i :] = 0
    shifted = np.concatenate([np.zeros((batch, 1), int), targets[:, :-1]], axis=1)
    return inputs, shifted, targets


@functools.cache
def build(config):
    """Returns a module and random parameters, also for norm scales.

    Compiling an initialization is slow, so only shapes come from it.
    """
    module = network.Transformer(config)
    rng = np.random.default_rng(1)

    def random_value(path, leaf):
        value = 0.3 * rng.standard_normal(leaf.shape)
        return np.float32(value + (path[-1].key == "scale"))

    shapes = parameter_shapes(module)["params"]
    return module, jax.tree_util.tree_map_with_path(random_value, shapes)


def parameter_shapes(module):
    inputs, shifted, targets = make_batch()
    start = functools.partial(module.init, enable_dropout=False)
    return unfreeze(jax.eval_shape(start, jax.random.key(0), inputs, shifted, targets))


@functools.partial(jax.jit, static_argnums=0, static_argnames=("method", "mutable"))
def run(module, variables, *args, method=None, mutable=False, rngs=None, **arrays):
    return module.apply(
        variables,
        *args,
        enable_dropout=rngs is not None,
        rngs=rngs,
        method=method,
        mutable=list(mutable) if mutable else False,
        **arrays,
    )


def apply(module, params, *args, **kwargs):
    return run(module, {"params": params}, *args, **kwargs)
