"""Rematerialized blocks compute the same and store less."""

import dataclasses
import functools
from typing import Any

import jax
import numpy as np
import pytest

from jaxaug.core.errors import UserError
from jaxaug.models import gpt2, llama
from jaxaug.models.lora import layout, settings
from jaxaug.models.lora.layout import AdaptedNetwork, joined
from jaxaug.models.weights import families
from tests.support import grids

SIZES: dict[str, Any] = {
    "vocab_size": 23, "emb_dim": 8, "num_layers": 3, "num_heads": 2, "head_dim": 4,
    "mlp_dim": 12, "dropout_rate": 0.2,
}  # fmt: skip
LLAMA = llama.Config(**SIZES, num_kv_heads=1, tie_embeddings=True)
GPT2 = gpt2.Config(**SIZES, num_positions=16)
TOKENS = np.random.default_rng(0).integers(2, 23, (3, 6)).astype(np.int32)
RNGS = {"dropout": jax.random.key(7)}


def network(config: Any, policy: str = "none") -> Any:
    family = llama if isinstance(config, llama.Config) else gpt2
    return family.DecoderWrapper(dataclasses.replace(config, remat_policy=policy))


def random(shapes: Any) -> Any:
    draw = np.random.default_rng(0)
    return jax.tree.map(
        lambda x: np.float32(0.4 * draw.standard_normal(x.shape)), shapes
    )


@functools.cache
def random_params(config: Any) -> Any:
    start = functools.partial(network(config).init, enable_dropout=False)
    return random(jax.eval_shape(start, jax.random.key(0), TOKENS, TOKENS)["params"])


def loss(params: Any, module: Any) -> Any:
    logits = module.apply({"params": params}, TOKENS, TOKENS, rngs=RNGS)
    return jax.nn.log_softmax(logits)[..., 3].sum(), logits


compute = jax.jit(jax.value_and_grad(loss, has_aux=True), static_argnums=1)


def near(found: Any, expected: Any) -> None:
    assert jax.tree.structure(found) == jax.tree.structure(expected)
    jax.tree.map(
        lambda a, b: np.testing.assert_allclose(a, b, atol=2e-4), found, expected
    )


@grids.diagonal("config, policy", [LLAMA, GPT2], ["minimal", "full"])
def test_logits_and_gradients_stay(config, policy):
    """The dropout is the same."""
    params = random_params(config)
    near(compute(params, network(config, policy)), compute(params, network(config)))


@pytest.mark.parametrize("config", grids.first(1, [LLAMA, GPT2]))
def test_adapters_go_along(config):
    family = next(f for f in families.every() if isinstance(config, f.code.Config))
    params = random_params(config)
    found = layout.layout_of(family, config, params, settings.Settings(rank=2))
    both = joined(params, random(found.initial(jax.random.key(0))))
    expected, result = (
        compute(both, AdaptedNetwork(network(config, policy), found))
        for policy in ("none", "full")
    )
    near(result, expected)
    assert all(np.abs(x).max() > 1e-3 for x in jax.tree.leaves(result[1]["adapter"]))


def test_a_policy_keeps_less():
    """XLA for CPUs undoes it, so stored values are counted before compilation."""

    def kept(policy: str) -> int:
        module = network(LLAMA, policy)

        def backwards(params: Any) -> Any:
            return jax.vjp(lambda p: loss(p, module)[0], params)[1]

        found = jax.eval_shape(backwards, random_params(LLAMA))
        return sum(leaf.size for leaf in jax.tree.leaves(found))

    parameters = sum(leaf.size for leaf in jax.tree.leaves(random_params(LLAMA)))
    none, minimal, full = (
        kept(name) - parameters for name in ("none", "minimal", "full")
    )
    assert full < 0.7 * minimal < 0.5 * none


def test_unknown_policy():
    with pytest.raises(
        UserError, match=r"gpt2\.Config\.remat_policy is 'some': give one"
    ):
        network(GPT2, "some")
